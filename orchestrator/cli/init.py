"""`init`: writes a plan to start from into a repository, fitted to what is found there.

Writes that one file, never over another one, and nothing else. What it writes passes `check` as it
stands. Files of the repository only help to choose among commands that are known here: no text of
theirs gets into the plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.attempt.found_commands import command_files, find_commands
from orchestrator.cli.lookup import checkout_of
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.reading import PLACEHOLDER
from orchestrator.cli.terminal import note, out
from orchestrator.errors import RepositoryError, UsageError
from orchestrator.state_folder import slug

FILE = "orchestrate.yaml"
"""Name of the plan that is written."""
BYTES_MAX = 1_000_000
"""Most that is read of a file."""
NAMES_MAX = 5_000
"""Most names of a folder that are looked at."""

_PACKAGES = "needs node_modules, which a fresh checkout of tracked files does not have"
_FETCHES = "must find its packages without a network: the sandbox has none"
_NO_TEST = "no test specified"
_TEST_FOLDERS = ("tests", "test")


@dataclass(frozen=True, slots=True)
class Gate:
    """How a project's tests are run, as far as its files tell."""

    run: str
    """One line for bash."""
    place: str
    """The file that says so."""
    remark: str = ""
    """What may be in the way of it."""


_KNOWN: tuple[tuple[str, str, str], ...] = (
    (r"make test", "make test", ""),
    (r"just test", "just test", ""),
    (r"make check", "make check", ""),
    (r"just check", "just check", ""),
    (r"python -m pytest", "python -m pytest -q", ""),
    (r"npm run test\b.*", "npm test", _PACKAGES),
    (r"pnpm run test\b.*", "pnpm test", _PACKAGES),
    (r"yarn run test\b.*", "yarn test", _PACKAGES),
    (r"bun run test\b.*", "bun run test", _PACKAGES),
    (r"cargo test", "cargo test --offline", _FETCHES),
    (r"go test \./\.\.\.", "go test ./...", _FETCHES),
    (r"tox", "tox", _FETCHES),
    (r"nox -s tests?", "nox", _FETCHES),
    (r"mvn -q test", "mvn -q -o test", _FETCHES),
    (r"gradle test", "gradle --offline test", _FETCHES),
    (r"mix test", "mix test", _FETCHES),
    (r"composer run test", "composer run test", ""),
)
"""What a found command looks like, the gate it becomes, a remark; what people wrote down first."""


def likely_gate(texts: Mapping[str, str], paths: Iterable[str]) -> Gate | None:
    """The most likely gate, None where nothing tells.

    texts: the files at the top of the repository that say how it is tested. paths: all that is
    known to be there, relative to the top.
    """
    paths = tuple(paths)
    found = [one for one in find_commands(texts, paths) if _NO_TEST not in one.text]
    for pattern, run, remark in _KNOWN:
        for one in found:
            place = one.place.partition(":")[0]
            if "/" not in place and re.fullmatch(pattern, one.text):
                return Gate(run, place, remark)
    return _python_gate(texts, paths)


def _python_gate(texts: Mapping[str, str], paths: tuple[str, ...]) -> Gate | None:
    """By the tests that there are, where no file says how they are run."""
    tests = [path for path in paths if re.fullmatch(r"(tests?/)?test_\w+\.py", path)]
    if not tests:
        return None
    if "conftest.py" in {path.rpartition("/")[2] for path in paths}:
        return Gate("python -m pytest -q", "conftest.py")
    for name in ("pyproject.toml", "requirements-dev.txt", "requirements.txt"):
        if "pytest" in texts.get(name, ""):
            return Gate("python -m pytest -q", name)
    return Gate("python -m unittest discover -q", tests[0])


def starting_plan(name: str, gate: Gate | None) -> str:
    """The text of a plan with one writer, and the gate where there is one."""
    run, comment = "true", "# replace it: nothing here says how the tests are run"
    if gate is not None:
        run, comment = gate.run, f"# {gate.remark}" if gate.remark else ""
    gate_line = f"  - {json.dumps(run)}  {comment}".rstrip()
    return f"""\
# A plan for `orchestrate`. Look it over with `orchestrate check {FILE}`.
version: 1
name: {slug(name, "plan")}
goal: Say in one sentence what all of this is for

budget: {{usd: 5, minutes: 60, replans: 1}}     # of the whole run

# What the result has to pass before the branch is handed over: real commands, run in a fresh
# checkout of tracked files. A rule that a command can check is kept; one in a prompt is a hint.
gates: &gates
{gate_line}

tasks:
  change:
    role: implementer               # reads, edits, runs commands in a private checkout
    prompt: |
      {PLACEHOLDER}, as you would to a colleague who knows the language and not the project:
      what has to be true at the end, where it belongs, what must not change.
    gates: *gates                   # run on its commit; while one is red it goes on
    # writes: [/src/**, /tests/**]  # what it may change; tests only where it says so

  # Another task that needs the first; without `needs` tasks run at the same time.
  # review:
  #   role: reviewer                # reads, approves or says what has to be mended
  #   needs: [change]
  #   prompt: Does the change do what the goal says, and do its tests prove it?
"""


@click.command()
@repo_option
@click.option(
    "-o", "--output", type=NAMED_FILE, metavar="FILE", help=f"Write it there, not to {FILE}."
)
def init(repo: Path | None, output: Path | None) -> None:
    """Write a plan to start from into the repository."""
    top = checkout_of(repo or Path())
    if top is None:
        raise RepositoryError(
            f"{repo or Path.cwd()}: not in a checkout of a git repository; go to one, or use --repo"
        )
    path = output or top / FILE
    gate = likely_gate(*_read(top))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starting_plan(top.name, gate))
    except FileExistsError as error:
        raise UsageError(f"{path}: is there already; name another file with -o FILE") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
    out([str(path)])
    if gate is None:
        note("no test command was found: replace the gate `true` by yours")
    else:
        note(f"gate: {gate.run} (by {gate.place})")
    note(f"next: say in it what to do, then `orchestrate check {path}`, then `orchestrate {path}`")


def _read(top: Path) -> tuple[dict[str, str], list[str]]:
    """The files that may tell how tests are run, and the names at the top and of test folders."""
    paths = _names(top)
    for folder in _TEST_FOLDERS:
        paths += [f"{folder}/{name}" for name in _names(top / folder)]
    wanted = [*command_files(_names(top)), "requirements-dev.txt", "requirements.txt"]
    texts = {name: _text(top / name) for name in wanted}
    return {name: text for name, text in texts.items() if text is not None}, paths


def _names(folder: Path) -> list[str]:
    """Names of the regular files in a folder, sorted; none where there is no folder."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_file())[:NAMES_MAX]


def _text(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(BYTES_MAX).decode("utf-8", errors="replace")
