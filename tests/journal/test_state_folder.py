"""Where state lies: one folder a repository, outside of it; ids that are safe everywhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import RepositoryError
from orchestrator.state_folder import RunFolder, StateFolder, new_run_id, state_home
from tests.support.repositories import git_succeeds, make_repository

NOW = 1_796_049_120.0
"""2026-11-30 14:32:00 UTC."""


def test_a_run_id_is_readable() -> None:
    assert new_run_id("kitebase", NOW, "7f3a") == "kitebase-20261130-1432-7f3a"
    assert new_run_id("Füge Filter hinzu!", NOW, "0") == "f-ge-filter-hinzu-20261130-1432-0"
    assert new_run_id("漢字", NOW, "0") == "run-20261130-1432-0"


@given(st.text(), st.floats(0, 4e9), st.from_regex(r"[a-z0-9]{1,16}", fullmatch=True))
def test_any_run_id_is_safe_and_short(name: str, now: float, token: str) -> None:
    run = new_run_id(name, now, token)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*[a-z0-9]", run)
    assert len(run) <= 63


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_ids_of_one_plan_sort_by_time(one: float, other: float) -> None:
    first, second = sorted((one, other))
    assert new_run_id("p", first, "0") <= new_run_id("p", second, "0")


def test_a_token_that_is_not_safe_is_refused() -> None:
    with pytest.raises(ValueError, match="a-z0-9"):
        new_run_id("p", NOW, "../x")


def test_git_takes_a_run_id_as_a_branch(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", {"a": "1"})
    run = new_run_id("x.lock/..@{~", NOW, "7f3a")
    assert git_succeeds(repository, "branch", f"orchestrate/{run}")


def test_a_repository_has_one_folder_named_after_it(tmp_path: Path) -> None:
    common = tmp_path / "My Project" / ".git"
    common.mkdir(parents=True)
    state = StateFolder.for_repository(common, tmp_path / "home")
    assert re.fullmatch(r"my-project-[0-9a-f]{12}", state.root.name)
    (tmp_path / "link").symlink_to(tmp_path / "My Project")
    assert StateFolder.for_repository(tmp_path / "link" / ".git", tmp_path / "home") == state


def test_two_repositories_of_one_name_have_two_folders(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        common = tmp_path / place / "same.git"
        common.mkdir(parents=True)
        names.append(StateFolder.for_repository(common, tmp_path).root.name)
    assert len(set(names)) == 2
    assert all(name.startswith("same-") for name in names)


def test_files_of_a_run() -> None:
    run = StateFolder(Path("/h/r-1")).run("run-1")
    assert run == RunFolder(Path("/h/r-1/runs/run-1"))
    assert run.run == "run-1"
    assert run.transcript("fix", 2) == Path("/h/r-1/runs/run-1/transcripts/fix.2.jsonl")
    assert run.product("fix") == Path("/h/r-1/runs/run-1/products/fix.json")
    assert run.lock == Path("/h/r-1/runs/run-1/lock")


def test_home_is_the_variable_else_the_users_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORCHESTRATE_HOME", "relative")
    assert state_home() == Path.cwd() / "relative"
    monkeypatch.delenv("ORCHESTRATE_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_home() == tmp_path / "orchestrate"


def test_a_home_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(RepositoryError, match="ORCHESTRATE_HOME"):
        StateFolder(blocked / "x").create()
    assert os.listdir(tmp_path) == ["file"]
