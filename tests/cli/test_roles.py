"""`roles`: where roles come from, what a repository narrowed, all faults of role files at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import orchestrate, orchestrate_each
from tests.support.repositories import make_repository

NARROWED = """\
---
name: reviewer
tools: Read, Grep
maxTurns: 10
orchestrate: {budget: {usd: 0.25}}
---
Be brief.
"""
NEW = """\
---
name: sceptic
description: "Doubts \\e[31mall"
tools: [Read]
orchestrate: {product: report}
---
Doubt.
"""
WIDER = """\
---
name: explorer
tools: Read, Write
maxTurns: 1000
colour: red
---
Look.
"""


def place(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})


def test_the_list_says_where_each_role_comes_from(repository: Path, home: Path) -> None:
    place(repository / ".orchestrate/roles/reviewer.md", NARROWED)
    place(repository / ".orchestrate/roles/sceptic.md", NEW)
    place(repository.parent / "mine/explorer.md", WIDER.replace("colour: red\n", ""))
    lines, records, default = orchestrate_each(
        ["roles", "list", "--roles", "../mine"],
        ["roles", "list", "--roles", "../mine", "--json"],
        ["roles"],
        cwd=repository,
        home=home,
    )
    assert (lines.code, lines.err) == (0, "")
    shown = {line.split()[0]: line for line in lines.out.splitlines() if line and ":" not in line}
    assert next(iter(shown)) == "role"
    assert "--roles" in shown["explorer"]
    assert "bundled" in shown["planner"]
    assert ".orchestrate/roles" in shown["sceptic"]
    assert "change (writes)" in shown["implementer"]
    assert "$0.25, 10 turns, 20 minutes" in shown["reviewer"]
    assert (
        f"reviewer: {repository}/.orchestrate/roles/reviewer.md: without Bash Glob; "
        "usd 1 -> 0.25; turns 30 -> 10" in lines.out
    )
    assert f"sceptic: {repository}/.orchestrate/roles/sceptic.md: a new role" in lines.out
    by_name = {one["role"]: one for one in map(json.loads, records.out.splitlines())}
    assert by_name["explorer"]["from"] == "--roles"
    assert by_name["explorer"]["differs"] == [
        "without Bash Glob Grep TodoWrite",
        "with Write",
        "turns 30 -> 1000",
    ]
    assert by_name["reviewer"]["limits"] == {
        "usd": 0.25,
        "tokens": None,
        "turns": 10,
        "minutes": 20,
    }
    assert by_name["implementer"]["writes"] is True
    assert "explorer: " not in default.out  # without --roles it is the bundled one
    for result in (lines, records, default):
        assert result.out.isascii()
        assert "\x1b" not in result.out + result.err


def test_check_tells_all_faults_with_their_lines(repository: Path, home: Path) -> None:
    wide = place(repository / ".orchestrate/roles/explorer.md", WIDER)
    place(repository / ".claude/agents/planner.md", NARROWED.replace("reviewer", "planner"))
    place(repository / ".claude/agents/foreign.md", "No role at all\n")
    plain, records, listed = orchestrate_each(
        ["roles", "check"],
        ["roles", "check", "--json"],
        ["roles"],
        cwd=repository,
        home=home,
    )
    assert (plain.code, plain.out) == (2, "")
    assert f"{wide}:5: unknown key `colour` in a role file" in plain.err
    assert "foreign.md is left alone" in plain.err
    assert records.code == 2
    faults = [json.loads(line) for line in records.out.splitlines()]
    assert faults[0]["file"] == str(wide)
    assert faults[0]["line"] == 5
    assert set(faults[0]) == {"file", "line", "message", "hint"}
    assert (listed.code, listed.out) == (2, "")


def test_check_of_files_and_folders_judges_by_where_they_lie(repository: Path, home: Path) -> None:
    wider = WIDER.replace("colour: red\n", "")
    theirs = place(repository / ".orchestrate/roles/explorer.md", wider)
    place(repository / ".orchestrate/roles/reviewer.md", NARROWED.replace("name: reviewer\n", ""))
    own = place(repository.parent / "mine/explorer.md", wider)
    mine, one, folder, missing, other, bare = orchestrate_each(
        ["roles", "check", str(own), str(own.parent)],
        ["roles", "check", str(theirs)],
        ["roles", "check", ".orchestrate/roles"],
        ["roles", "check", "nosuch.md"],
        ["roles", "check", "a.txt"],
        ["roles", "list", "a.md"],
        cwd=repository,
        home=home,
    )
    assert (mine.code, mine.out, mine.err) == (0, "no faults in 1 role file\n", "")
    assert one.code == 2
    assert [line.split(": ")[1].partition(" (")[0] for line in one.err.splitlines()] == [
        "adds `Write` to `explorer`",
        "raises turns of `explorer` from 30 to 1000",
    ]
    assert folder.code == 2
    assert len(folder.err.splitlines()) == 3
    assert ".orchestrate/roles/reviewer.md" in folder.err
    for result, word in ((missing, "there is no such file"), (other, "ends with .md")):
        assert (result.code, result.out) == (2, "")
        assert word in result.err
    assert bare.code == 2


def test_without_a_repository_there_are_the_bundled_roles(tmp_path: Path, home: Path) -> None:
    result = orchestrate("roles", "check", cwd=tmp_path, home=home)
    assert result.code == 0
    assert result.out.startswith("no faults in ")
    assert not home.exists()
