"""Where bundled data is found, and what belongs to a demo."""

from __future__ import annotations

import pytest

from orchestrator.data import Kind, builtin, demo
from orchestrator.errors import ExitCode, UsageError


@pytest.mark.parametrize(
    ("kind", "holds"),
    [("roles", "planner.md"), ("plans", "kitebase.yaml"), ("examples", "kitebase/AGENTS.md")],
)
def test_bundled_folders_are_real_ones(kind: Kind, holds: str) -> None:
    assert (builtin(kind) / holds).is_file()


@pytest.mark.parametrize("name", ["kitebase", "explore"])
def test_the_parts_of_a_demo_are_all_there(name: str) -> None:
    parts = demo(name)
    assert parts.plan.name == f"{name}.yaml"
    assert parts.plan.is_file()
    assert parts.script.is_file()
    assert (parts.sample / "tickets" / "search.py").is_file()


@pytest.mark.parametrize("name", ["", "kitebas", "../kitebase", "demos"])
def test_an_unknown_demo_is_a_usage_error_that_lists_the_names(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        demo(name)
    assert str(raised.value) == f"there is no demo `{name}`; choose one of: explore, kitebase"
    assert raised.value.exit_code == ExitCode.USAGE
