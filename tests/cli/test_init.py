"""`init`: a plan to start from, fitted to the repository, that passes `check` as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.init import Gate, likely_gate, starting_plan
from orchestrator.data import builtin
from orchestrator.planfile import load_plan
from orchestrator.roles import load_roles, role_sources
from tests.cli.program import orchestrate, orchestrate_each
from tests.support.repositories import fingerprint, make_repository


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("texts", "paths", "run", "place"),
    [
        ({"Makefile": "all: x\ntest: all\n\tpytest\n"}, [], "make test", "Makefile"),
        ({"Makefile": "check:\n\ttrue\n", "go.mod": "module x"}, [], "make check", "Makefile"),
        ({"Makefile": "test := 1\n", "go.mod": "module x"}, [], "go test ./...", "go.mod"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [], "python -m pytest -q", None),
        ({"setup.cfg": "[tool:pytest]\naddopts = -q\n"}, [], "python -m pytest -q", None),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, [], "npm test", "package.json"),
        (
            {"package.json": '{"scripts": {"test": "vitest"}}'},
            ["package.json", "pnpm-lock.yaml"],
            "pnpm test",
            "package.json",
        ),
        ({"Cargo.toml": '[package]\nname = "x"\n'}, [], "cargo test --offline", "Cargo.toml"),
        (
            {"pyproject.toml": '[project]\ndependencies = ["pytest>=8"]\n'},
            ["tests/test_a.py"],
            "python -m pytest -q",
            "pyproject.toml",
        ),
        ({}, ["test_a.py", "conftest.py"], "python -m pytest -q", "conftest.py"),
        ({}, ["tests/test_a.py"], "python -m unittest discover -q", "tests/test_a.py"),
    ],
)
def test_how_tests_are_run(
    texts: dict[str, str], paths: list[str], run: str, place: str | None
) -> None:
    gate = likely_gate(texts, [*texts, *paths])
    assert gate is not None
    assert gate.run == run
    assert place is None or gate.place == place


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"README.md": "make test"},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": '{"scripts": {"test": 1}}'},
        {"package.json": "{", "pyproject.toml": "[[[", "setup.cfg": "]", "Makefile": ""},
    ],
)
def test_what_tells_nothing_gives_no_gate(texts: dict[str, str]) -> None:
    assert likely_gate(texts, texts) is None


@given(
    st.dictionaries(
        st.sampled_from(["Makefile", "package.json", "pyproject.toml", "tox.ini", "setup.cfg"]),
        st.text(max_size=200) | st.just('{"scripts": {"test": "x\\n- evil"}}'),
    )
)
def test_no_text_of_the_repository_gets_into_the_plan(texts: dict[str, str]) -> None:
    gate = likely_gate(texts, texts)
    plan = starting_plan("x", gate)
    assert "evil" not in plan
    assert plan.isascii()


@pytest.mark.parametrize("name", ["kitebase", "Ärger: [x]", "-", "a" * 300])
def test_the_plan_loads_whatever_the_folder_is_called(tmp_path: Path, name: str) -> None:
    path = tmp_path / "orchestrate.yaml"
    for gate in (None, Gate('say "x"', "Makefile", "a remark")):
        path.write_text(starting_plan(name, gate), encoding="utf-8")
        loaded = load_plan(path, load_roles(role_sources(bundled=builtin("roles"))))
        assert loaded.warnings == ()
        (task,) = loaded.plan.tasks
        assert task.role == "implementer"
        assert [one.run for one in task.gates] == ['say "x"' if gate else "true"]
        assert task.gates == loaded.plan.gates


def test_init_writes_one_file_that_passes_check(tmp_path: Path, home: Path) -> None:
    repository = make_repository(
        tmp_path / "kitebase", {"Makefile": "test:\n\ttrue\n", "src/a.py": ""}
    )
    before = fingerprint(repository)
    made, checked, again = orchestrate_each(
        ["init"],
        ["check", "../orchestrate.yaml"],
        ["init"],
        cwd=repository / "src",
        home=home,
    )
    path = repository / "orchestrate.yaml"
    assert (made.code, made.out) == (0, f"{path}\n")
    assert "gate: make test (by Makefile)" in made.err
    assert f"orchestrate check {path}" in made.err
    assert checked.code == 0
    assert checked.err == (
        "warning: ../orchestrate.yaml: task `change` still says what `init` wrote\n"
    )
    assert "make test" in checked.out
    assert (again.code, again.out) == (2, "")
    assert again.err == f"{path}: is there already; name another file with -o FILE\n"
    after = fingerprint(repository)
    assert {name for name in after if after[name] != before.get(name)} == {"orchestrate.yaml"}
    assert set(before) < set(after)


def test_init_elsewhere(tmp_path: Path, home: Path) -> None:
    repository = make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})
    (repository / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    bare = make_repository(tmp_path / "bare")
    named, link, no_folder, outside = orchestrate_each(
        ["init", "-o", "plan.yaml"],
        ["init", "-o", "link.yaml"],
        ["init", "-o", "nosuch/plan.yaml"],
        ["init", "--repo", str(tmp_path)],
        cwd=repository,
        home=home,
    )
    assert (named.code, named.out) == (0, "plan.yaml\n")
    assert "no test command was found" in named.err
    for result, code in ((link, 2), (no_folder, 2), (outside, 3)):
        assert (result.code, result.out, len(result.err.splitlines())) == (code, "", 1)
    assert not (tmp_path / "outside.yaml").exists()
    empty = orchestrate("init", cwd=bare, home=home)
    assert empty.code == 0  # a repository without commits is a good place to begin
