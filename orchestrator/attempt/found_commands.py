"""Commands that a repository says it is built and tested with, each with its place. Pure.

What the files of common tools say is read, nothing is run, and nothing is guessed from a language
alone. Files are read leniently: one that cannot be understood has nothing to say. The texts are
strangers' and come out as they are, on one line and cut; whoever shows them marks them.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from itertools import islice
from posixpath import basename, dirname

from orchestrator.documents import Document, load_document
from orchestrator.errors import PlanError

FILES_MAX = 40
"""Most files that are read, those nearest to the root first."""
EACH_MAX = 20
"""Most commands of one file, those that look like checks before others."""
COMMANDS_MAX = 60
COMMAND_CHARS = 160

ASIDE = frozenset(
    {
        *("tests", "test", "__tests__", "spec", "fixtures", "__fixtures__", "testdata"),
        *("examples", "example", "docs", "vendor", "node_modules"),
    }
)
"""Folders whose files say little about the project's own commands and exports."""

_DEPTH_MAX = 2
"""Folders above a file; what lies deeper is a fixture more often than a package."""
_READ_MAX = 200
_WORKFLOWS = ".github/workflows/"
_GITLAB = ".gitlab-ci.yml"
_SCRIPT = re.compile(
    r"(?:\.?ci/run|(?:(?:\.?ci|scripts?|bin|tools)/)?(?:run[-_])?(?:tests?|check|lint|ci))(?:\.sh)?"
)
"""Paths of scripts that projects keep for their checks."""
_CHECKS = re.compile(
    r"(?<!la)test|lint|check|typing|\bspecs?\b|verify|mypy|ruff|\btsc\b|tox|nox|clippy|\bvet\b|pre-commit",
    re.IGNORECASE,
)
"""What a command that judges work has in it, mostly."""
# Nothing is tried twice (`*+`): a hostile line must not take more than its length.
_TARGET = re.compile(r"^([A-Za-z0-9][\w.-]*+)(?: [\w.-]++)*+[ \t]*+::?(?!=)", re.MULTILINE)
_RECIPE = re.compile(r"^@?([A-Za-z0-9][\w-]*+)[^:=\n]*+:(?!=)", re.MULTILINE)
_SESSION = re.compile(r"^@nox\.session.*+(?:\n@.*+){0,9}\ndef (\w++)\(", re.MULTILINE)
_TOX_ENV = re.compile(r"^\[testenv:([\w.{},-]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A command, and where it stands."""

    place: str
    """`path`, or `path:line`."""
    text: str


def command_files(paths: Iterable[str]) -> tuple[str, ...]:
    """The files among `paths` that may hold commands."""
    found = [
        path
        for path in paths
        if path.count("/") <= _DEPTH_MAX
        and _reader(path) is not None
        and ASIDE.isdisjoint(path.split("/"))
    ]
    return tuple(sorted(found, key=lambda path: (path.count("/"), path))[:FILES_MAX])


def find_commands(texts: Mapping[str, str], paths: Collection[str]) -> tuple[FoundCommand, ...]:
    """What the files `texts` say, in their order; `paths`: all files, for the tools they show."""
    found: list[FoundCommand] = []
    runner = _script_runner(set(paths))
    for path, text in texts.items():
        read = _reader(path)
        if read is None:
            continue
        try:
            said = sorted(islice(read(text), _READ_MAX), key=lambda item: not _judges(item))
        except (ValueError, KeyError, ConfigError, RecursionError, PlanError):
            continue  # no JSON, TOML, INI or YAML after all
        folder = dirname(path) if not path.startswith(_WORKFLOWS) else ""
        if folder or path.startswith(_WORKFLOWS) or basename(path) == _GITLAB:
            said = list(filter(_judges, said))  # the others install, build, release, send mail
        for line, command in said[:EACH_MAX]:
            if basename(path) == "package.json":
                command = f"{runner} {command}"
            if folder:
                command = f"cd {shlex.quote(folder)} && {command}"
            place = f"{path}:{line}" if line else path
            found.append(FoundCommand(place, _one_line(command)))
    scripts = sorted(path for path in paths if _SCRIPT.fullmatch(path))
    found += [FoundCommand(path, f"./{path}") for path in scripts[:EACH_MAX]]
    unique = {item.text: item for item in reversed(found)}
    return tuple(item for item in found if unique[item.text] is item)[:COMMANDS_MAX]


Said = Iterator[tuple[int, str]]
"""Lines (0 where a file's format does not tell) and commands."""


def _judges(said: tuple[int, str]) -> bool:
    return _CHECKS.search(said[1]) is not None


def _reader(path: str) -> Callable[[str], Said] | None:
    """What reads a file, by its name."""
    if path.startswith(_WORKFLOWS) and path.endswith((".yml", ".yaml")):
        return _workflow
    return _READERS.get(basename(path))


def _script_runner(paths: set[str]) -> str:
    """What runs a script of package.json, by the lock file at the root."""
    for lock, runner in (
        ("pnpm-lock.yaml", "pnpm run"),
        ("yarn.lock", "yarn run"),
        ("bun.lock", "bun run"),
    ):
        if lock in paths:
            return runner
    return "npm run"


def _package_json(text: str) -> Said:
    """Scripts by name, without what runs them."""
    data = json.loads(text)
    scripts = data.get("scripts") if isinstance(data, dict) else None
    for name, command in (scripts if isinstance(scripts, dict) else {}).items():
        if isinstance(command, str):
            yield _key_line(text, name), f"{shlex.quote(name)}  # {command}"


def _composer_json(text: str) -> Said:
    data = json.loads(text)
    scripts = data.get("scripts") if isinstance(data, dict) else None
    for name in scripts if isinstance(scripts, dict) else {}:
        yield _key_line(text, name), f"composer run {shlex.quote(name)}"


_PYTHON_TOOLS = {
    "pytest": "python -m pytest",
    "mypy": "mypy",
    "ruff": "ruff check",
    "pyright": "pyright",
    "black": "black --check .",
    "tox": "tox",
    "importlinter": "lint-imports",
}


def _pyproject(text: str) -> Said:
    tools = tomllib.loads(text).get("tool")
    for name in tools if isinstance(tools, dict) else {}:
        if name in _PYTHON_TOOLS:
            at = re.search(rf"^\[tool\.{name}\b", text, re.MULTILINE)
            yield _line(text, at.start() if at else -1), _PYTHON_TOOLS[name]


def _setup_cfg(text: str) -> Said:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    for section, command in (("tool:pytest", "python -m pytest"), ("mypy", "mypy")):
        if parser.has_section(section):
            yield _line(text, text.find(f"[{section}]")), command


def _tox_ini(text: str) -> Said:
    for at in _TOX_ENV.finditer(text):
        yield _line(text, at.start()), f"tox -e {shlex.quote(at[1])}"
    for section, command in (("[testenv]", "tox"), ("[pytest]", "python -m pytest")):
        if section in text:
            yield _line(text, text.find(section)), command


def _noxfile(text: str) -> Said:
    for at in _SESSION.finditer(text):
        yield _line(text, at.start()), f"nox -s {at[1]}"


def _makefile(text: str) -> Said:
    for at in _TARGET.finditer(text):
        yield _line(text, at.start()), f"make {at[1]}"


def _justfile(text: str) -> Said:
    for at in _RECIPE.finditer(text):
        yield _line(text, at.start()), f"just {at[1]}"


def _pre_commit(text: str) -> Said:
    if "repos:" in text:
        yield 0, "pre-commit run --all-files"


def _always(*commands: str) -> Callable[[str], Said]:
    """A tool whose file alone says how it is called."""
    return lambda text: ((0, command) for command in commands if text.strip())


def _workflow(text: str) -> Said:
    """The `run` steps of a GitHub workflow, a line of a step each."""
    document = load_document(text, "workflow")
    for job, steps in _lists(document, "jobs", "steps"):
        for index, step in enumerate(steps):
            if isinstance(step, dict) and isinstance(run := step.get("run"), str):
                yield from _steps(document, ("jobs", job, "steps", index, "run"), run)


def _gitlab(text: str) -> Said:
    """The `script` lines of GitLab's jobs."""
    document = load_document(text, "jobs")
    for job, steps in _lists(document, None, "script"):
        for index, step in enumerate(steps):
            if isinstance(step, str):
                yield from _steps(document, (job, "script", index), step)


def _lists(document: Document, above: str | None, key: str) -> Iterator[tuple[str, list[object]]]:
    """The lists under `key` of each mapping below `above`, by the name of the mapping."""
    data: object = document.data
    if above is not None:
        data = data.get(above) if isinstance(data, dict) else None
    for name, value in (data if isinstance(data, dict) else {}).items():
        found = value.get(key) if isinstance(value, dict) else None
        if isinstance(found, str):
            found = [found]
        if isinstance(found, list):
            yield str(name), list(found)


def _steps(document: Document, path: tuple[str | int, ...], text: str) -> Said:
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            yield document.key_line(path), line.strip()


_READERS: dict[str, Callable[[str], Said]] = {
    "package.json": _package_json,
    "composer.json": _composer_json,
    "pyproject.toml": _pyproject,
    "pytest.ini": _always("python -m pytest"),
    "setup.cfg": _setup_cfg,
    "tox.ini": _tox_ini,
    "noxfile.py": _noxfile,
    **dict.fromkeys(("Makefile", "makefile", "GNUmakefile"), _makefile),
    **dict.fromkeys(("justfile", "Justfile", ".justfile"), _justfile),
    ".pre-commit-config.yaml": _pre_commit,
    _GITLAB: _gitlab,
    "Cargo.toml": _always("cargo test"),
    "go.mod": _always("go test ./...", "go vet ./..."),
    "pom.xml": _always("mvn -q test"),
    **dict.fromkeys(("build.gradle", "build.gradle.kts"), _always("gradle test")),
    "mix.exs": _always("mix test"),
    "Rakefile": _always("rake -T"),
}
"""What reads a file of commands, by the file's name."""


def _line(text: str, at: int) -> int:
    """The line that position `at` is in, from 1; 0 where it was not found."""
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def _key_line(text: str, key: str) -> int:
    """The line of a key of a JSON object, as far as it is written as it mostly is."""
    found = re.search(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*+:", text)
    return _line(text, found.start() if found else -1)


def _one_line(command: str) -> str:
    text = " ".join(command.split())
    return text if len(text) <= COMMAND_CHARS else text[: COMMAND_CHARS - 4] + " ..."
