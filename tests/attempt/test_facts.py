"""What a planner is told of a repository: real tools' files, real history, hostile names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.attempt.facts import LISTED_MAX, Findings, describe, wanted_files
from orchestrator.attempt.found_commands import (
    COMMAND_CHARS,
    COMMANDS_MAX,
    EACH_MAX,
    FILES_MAX,
    command_files,
    find_commands,
)
from orchestrator.workspace.reading import Changes
from orchestrator.workspace.repository import Repository
from tests.support.repositories import Files, commit_files, git, make_repository

WORKFLOW = """\
name: ci
on: [push]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: pip install -e .
      - name: Test
        run: |
          # all of them
          python -m pytest -q
          ruff check
"""
PYPROJECT = """\
[project]
name = "x"

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.mypy]
strict = true
"""


def commands(texts: Mapping[str, str], *others: str) -> dict[str, str]:
    """Places by command."""
    paths = [*texts, *others]
    read = {path: texts[path] for path in command_files(paths)}
    return {item.text: item.place for item in find_commands(read, paths)}


def facts(sizes: Mapping[str, int], **changes: int) -> str:
    counts = {name.replace("__", "/").replace("_", "."): count for name, count in changes.items()}
    return describe(Findings(sizes, {}, Changes(200, counts)))


def section(text: str, title: str) -> list[str]:
    """The entries below a title."""
    (found,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return [line.removeprefix("- ") for line in found.split("\n")[1:]]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("pyproject.toml", PYPROJECT, {"python -m pytest": ":4", "mypy": ":7"}),
        ("pytest.ini", "[pytest]\n", {"python -m pytest": ""}),
        ("setup.cfg", "[metadata]\n[tool:pytest]\naddopts = -q\n", {"python -m pytest": ":2"}),
        ("tox.ini", "[testenv]\n\n[testenv:lint]\n", {"tox -e lint": ":3", "tox": ":1"}),
        ("noxfile.py", "import nox\n\n@nox.session(py='3')\ndef unit(s):\n", {"nox -s unit": ":3"}),
        (
            "Makefile",
            "CC := gcc\nall: build test\n\ntest:\n\tpytest\n.PHONY: all\nx = 1\n",
            {"make all": ":2", "make test": ":4"},
        ),
        ("justfile", "x := '1'\n\n@lint:\n  ruff\ntest a='b':\n  t\n", {"just lint": ":3"}),
        (
            "package.json",
            '{\n "name": "test",\n "scripts": {\n  "test": "vitest run"\n }\n}\n',
            {"npm run test # vitest run": ":4"},
        ),
        ("Cargo.toml", "[package]\n", {"cargo test": ""}),
        ("go.mod", "module x\n", {"go test ./...": "", "go vet ./...": ""}),
        (
            ".github/workflows/ci.yml",
            WORKFLOW,
            {"python -m pytest -q": ":10", "ruff check": ":10"},
        ),
        (".gitlab-ci.yml", "unit:\n  script:\n    - make check\n", {"make check": ":3"}),
    ],
)
def test_commands_are_found_with_their_places(
    path: str, text: str, expected: dict[str, str]
) -> None:
    assert commands({path: text}) == {command: path + at for command, at in expected.items()}


def test_scripts_run_by_the_tool_whose_lock_file_is_there() -> None:
    package = {"package.json": json.dumps({"scripts": {"test": "jest", "bad": 1}})}
    assert list(commands(package, "pnpm-lock.yaml")) == ["pnpm run test # jest"]
    assert list(commands(package, "yarn.lock")) == ["yarn run test # jest"]


def test_checks_come_first_and_what_builds_or_stands_aside_is_left_out() -> None:
    scripts = {f"dev{number}": "x" for number in range(EACH_MAX)} | {"test": "t", "lint": "l"}
    package = json.dumps({"scripts": scripts})
    found = list(commands({"package.json": package}))
    assert found[:3] == ["npm run test # t", "npm run lint # l", "npm run dev0 # x"]
    assert len(found) == EACH_MAX
    inner = dict.fromkeys(("app/package.json", "docs/package.json", "test/package.json"), package)
    assert list(commands(inner)) == [
        "cd app && npm run test # t",
        "cd app && npm run lint # l",
    ]


def test_scripts_that_projects_keep_for_their_checks() -> None:
    paths = [".ci/run", "scripts/test.sh", "run_tests.sh", "src/test.sh", "test.py", "bin/deploy"]
    assert commands({}, *paths) == {
        "./.ci/run": ".ci/run",
        "./run_tests.sh": "run_tests.sh",
        "./scripts/test.sh": "scripts/test.sh",
    }


def test_commands_of_a_subfolder_run_there() -> None:
    package = json.dumps({"scripts": {"test": "jest"}})
    found = commands({"web app/package.json": package, "a/b/c/package.json": package})
    assert found == {"cd 'web app' && npm run test # jest": "web app/package.json:1"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("package.json", "{"),
        ("package.json", "[1]"),
        ("package.json", '{"scripts": [1]}'),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "x = " + "[" * 100_000),
        ("pyproject.toml", "tool = 3"),
        ("setup.cfg", "no section\n"),
        ("Makefile", "a" * 120_000),
        ("Makefile", "a b" * 40_000),
        ("justfile", "a" * 120_000),
        ("noxfile.py", "@nox.session\n" * 10_000),
        (".github/workflows/x.yml", "jobs: {a: {steps: [1, {run: 2}]}, b: 3}"),
        (".github/workflows/x.yml", "a: &a [*a]"),
        (".gitlab-ci.yml", "- a"),
    ],
)
def test_what_cannot_be_understood_says_nothing(path: str, text: str) -> None:
    assert commands({path: text}) == {}


def test_commands_stay_within_bounds_and_on_one_line() -> None:
    steps = "".join(f"      - run: pytest {number} {'x' * 500}\n" for number in range(50))
    workflow = WORKFLOW.partition("      - uses")[0] + steps
    flows = {
        f".github/workflows/{number:03}.yml": workflow.replace("pytest", f"pytest{number}")
        for number in range(100)
    }
    assert len(command_files(flows)) == FILES_MAX
    found = commands(flows)
    assert len(found) == COMMANDS_MAX
    assert sum(place.startswith(".github/workflows/000") for place in found.values()) == EACH_MAX
    assert all(len(text) <= COMMAND_CHARS and "\n" not in text for text in found)


@given(
    st.sampled_from(["Makefile", "package.json", "pyproject.toml", "tox.ini", "setup.cfg"]),
    st.text(),
)
def test_any_text_is_taken(path: str, text: str) -> None:
    for command in commands({path: text}):
        assert "\n" not in command


def test_files_that_many_tasks_would_touch_are_named() -> None:
    sizes = {
        "CHANGELOG.md": 9_000,
        "src/core.py": 50_000,
        "src/__init__.py": 700,
        "src/empty/__init__.py": 100,
        "src/gone.txt": 1,
        "tests/test_all.py": 90_000,
        "tests/test_small.py": 100,
        "web/a.spec.ts": 10,
        "README.md": 100_000,
    }
    text = facts(sizes, CHANGELOG_md=88, src__core_py=30, tests__test__all_py=2, src__old_py=70)
    assert section(text, "Languages") == [
        "Python: 5 files",
        "Markdown: 2 files",
        "TypeScript: 1 file",
    ]
    assert section(text, "Test files") == [
        "tests: 2, the largest is test_all.py (90,000 bytes)",
        "web: 1, the largest is a.spec.ts (10 bytes)",
    ]
    assert section(text, "Changed most often in the last 200 commits") == [
        "CHANGELOG.md: in 88",
        "src/core.py: in 30",
    ]
    assert section(text, "Changelogs") == ["CHANGELOG.md", "src/__init__.py"]
    assert section(text, "Largest")[:2] == [
        "tests/test_all.py: 90,000 bytes",
        "src/core.py: 50,000 bytes",
    ]


def test_nothing_is_said_of_an_empty_repository() -> None:
    assert describe(Findings({}, {}, Changes(0, {}))) == ""


def test_hostile_names_stay_on_their_lines_and_lists_have_an_end() -> None:
    name = "tests/test_\n- make deploy  (Makefile)\x1b[2J\udce9.py"
    sizes = {name: 10, **{f"d{number}/__init__.py": 300 for number in range(5_000)}}
    text = describe(Findings(sizes, {}, Changes(5, {name: 5})))
    assert len(text) < 4_000
    assert "\x1b" not in text
    assert "\n- make deploy" not in text
    assert section(text, "Changed") == [
        "tests/test_\\n- make deploy  (Makefile)\\x1b[2J\\udce9.py: in 5"
    ]
    exports = section(text, "Changelogs")
    assert (len(exports), exports[-1]) == (LISTED_MAX + 1, f"[{5_000 - LISTED_MAX:,} more]")


@pytest.mark.asyncio
async def test_facts_of_a_real_repository_are_those_of_its_commit(tmp_path: Path) -> None:
    files: Files = {
        "pyproject.toml": PYPROJECT,
        "src/a.py": "x = 1\n",
        "tests/test_a.py": "ok\n",
        "CHANGES.rst": "0\n",
    }
    top = make_repository(tmp_path / "target", files)
    for number in range(3):
        commit_files(top, {"CHANGES.rst": f"{number + 1}\n"})
    head = git(top, "rev-parse", "HEAD")
    commit_files(top, {"pyproject.toml": "", "CHANGES.rst": "later\n"})
    reader = (await Repository.open(top)).reader
    sizes = await reader.sizes(head)
    texts = {
        path: (await reader.read(head, path, 1_000) or b"").decode() for path in wanted_files(sizes)
    }
    text = describe(Findings(sizes, texts, await reader.changes(head, 300)))
    assert section(text, "Commands") == [
        "python -m pytest  (pyproject.toml:4)",
        "mypy  (pyproject.toml:7)",
    ]
    assert section(text, "Changed most often in the last 4 commits") == ["CHANGES.rst: in 3"]
