"""`check`, `run`, `demo`: plans from files and by name; what is wrong with them, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.demo import make_repository as make_demo
from tests.cli.program import orchestrate, orchestrate_each
from tests.support.repositories import git, make_repository

PLAN = """\
version: 1
name: small
goal: Do it
tasks:
  one: {role: implementer, prompt: do it, writes: [a/]}
  two: {role: implementer, prompt: do it, writes: [b/]}
gates: ["true"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})


def write(folder: Path, text: str, name: str = "plan.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_check_shows_the_plan_as_it_will_run(tmp_path: Path, home: Path) -> None:
    write(tmp_path, PLAN)
    result = orchestrate("check", "plan.yaml", cwd=tmp_path, home=home)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "plan small: 3 tasks, 4 workers"
    rows = {line.split("  ")[0]: line.split() for line in lines if "  " in line}
    assert rows["one"] == ["one", "implementer", "(writes)", "-", "-"]
    assert rows["integrate"] == ["integrate", "none", "one,", "two", "true"]
    assert lines[-1] == "critical path, 2 tasks: one > integrate"
    assert not home.exists()


def test_bundled_plans_are_sound(tmp_path: Path, home: Path) -> None:
    lines = [["check", "kitebase"], ["check", "explore"]]
    for result in orchestrate_each(*lines, cwd=tmp_path, home=home):
        assert result.code == 0, result.err
        assert "critical path" in result.out


def test_everything_wrong_is_said_at_once_with_its_place(home: Path, repository: Path) -> None:
    write(repository, PLAN.replace("do it, writes: [a/]", "x, needs: [tow]").replace("1", "one"))
    roles = repository / ".orchestrate" / "roles"
    roles.mkdir(parents=True)
    write(roles, "no front matter", "broken.md")
    before = git(repository, "status", "--porcelain", "--branch")
    result = orchestrate("check", "plan.yaml", cwd=repository, home=home)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    places = [line.split(": ")[0] for line in result.err.splitlines()]
    assert any(place.endswith("broken.md:1") for place in places)
    assert any(place.startswith("plan.yaml:") for place in places)
    assert git(repository, "status", "--porcelain", "--branch") == before


def test_P02_a_need_that_does_not_exist_is_suggested(tmp_path: Path, home: Path) -> None:
    write(tmp_path, PLAN.replace("writes: [b/]", "needs: [oen]"))
    result = orchestrate("check", "plan.yaml", cwd=tmp_path, home=home)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("plan.yaml:6: ")
    assert "one" in result.err


def test_P12_P14_hostile_files_are_lines_and_no_traceback(tmp_path: Path, home: Path) -> None:
    texts = (
        "",
        "- a\n",
        "a: 1\n---\nb: 2\n",
        "tasks: [null]\n",
        "tasks:\n\t- a\n",
        "[" * 5000,
        "\0",
    )
    names = [write(tmp_path, text, f"plan{n}.yaml").name for n, text in enumerate(texts)]
    lines = [["check", name] for name in names]
    for name, result in zip(names, orchestrate_each(*lines, cwd=tmp_path, home=home), strict=True):
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(name)
        assert "Traceback" not in result.err


def test_a_folder_that_is_no_repository_runs_nothing(tmp_path: Path, home: Path) -> None:
    write(tmp_path, PLAN)
    script = write(tmp_path, "tasks: {}\n", "script.yaml")
    result = orchestrate("plan.yaml", "--scripted", str(script), cwd=tmp_path, home=home)
    assert (result.code, result.out) == (3, "")
    assert len(result.err.splitlines()) == 1
    assert not list(home.glob("*/runs.db"))


def test_W27_a_repository_without_commits_runs_nothing(tmp_path: Path, home: Path) -> None:
    empty = make_repository(tmp_path / "empty")
    plan = write(tmp_path, PLAN)
    script = write(tmp_path, "tasks: {}\n", "script.yaml")
    result = orchestrate(str(plan), "--scripted", str(script), cwd=empty, home=home)
    assert (result.code, result.out) == (3, "")
    assert "commit" in result.err
    assert len(result.err.splitlines()) == 1


def test_a_script_that_is_not_there_is_named(home: Path, repository: Path) -> None:
    write(repository, PLAN)
    result = orchestrate("plan.yaml", "--scripted", "nosuch.yaml", cwd=repository, home=home)
    assert (result.code, result.out) == (2, "")
    assert "nosuch.yaml" in result.err
    assert "Traceback" not in result.err


@pytest.mark.asyncio
async def test_a_demo_repository_is_always_the_same_commit(tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    (sample / "pkg" / "__pycache__").mkdir(parents=True)
    (sample / "pkg" / "a.py").write_text("a = 1\n", encoding="utf-8")
    (sample / "pkg" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (sample / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (sample / "run").chmod(0o755)
    made = [await make_demo(sample, "small") for _ in range(2)]
    assert {path.name for path in made} == {"small"}
    assert made[0] != made[1]
    heads = {git(path, "rev-parse", "HEAD") for path in made}
    assert len(heads) == 1
    assert git(made[0], "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD").split("\n") == [
        "100644 pkg/a.py",
        "100755 run",
    ]
    assert git(made[0], "status", "--porcelain", "--branch") == "## main"
    assert not (made[0] / ".git" / "hooks").exists()


def test_W29_a_demo_needs_no_identity_and_runs_no_hook(tmp_path: Path, home: Path) -> None:
    """Also from inside a git hook, whose variables point at another repository."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    write(hooks, "#!/bin/sh\nexit 1\n", "pre-commit").chmod(0o755)
    config = write(tmp_path, f"[core]\n  hooksPath = {hooks}\n[user]\n  useConfigOnly = true\n")
    result = orchestrate(
        "demo",
        "explore",
        "--json",
        cwd=tmp_path,
        home=home,
        GIT_CONFIG_GLOBAL=str(config),
        GIT_DIR=str(tmp_path / "nowhere"),
        TMPDIR=str(tmp_path),
    )
    assert result.err.startswith(f"demo repository: {tmp_path}/orchestrate-demo-")
    assert result.code == 0, result.err
    records = [json.loads(line) for line in result.out.splitlines()]
    assert records[0]["type"] == "RunStarted"
    assert (records[-1]["type"], records[-1]["status"]) == ("result", "succeeded")


def test_an_unknown_demo_is_answered_with_the_names(tmp_path: Path, home: Path) -> None:
    result = orchestrate("demo", "nosuch", cwd=tmp_path, home=home)
    assert (result.code, result.out) == (2, "")
    assert "kitebase" in result.err


def test_a_goal_that_is_given_as_a_plan_is_answered_with_the_option(
    tmp_path: Path, home: Path
) -> None:
    result = orchestrate("run", "Add a filter", cwd=tmp_path, home=home)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "'Add a filter': there is no such plan file; for a goal say --goal 'Add a filter'\n"
    )
