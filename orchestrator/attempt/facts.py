"""Facts about a repository for whoever plans work on it, as text. Pure: paths, texts, history in.

Which languages there are, where the tests stand, what it is tested with, and which files tasks
would meet in: those that history changes most often, changelogs, lists of exports, the one big test
file. Numbers and names only; what follows from them is the planner's. Names and commands come from
the repository, so whoever shows the text marks it as data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import basename, dirname, splitext

from orchestrator.agent.marked import one_line
from orchestrator.attempt.found_commands import ASIDE, command_files, find_commands
from orchestrator.workspace.reading import Changes

COMMITS_MAX = 300
"""How far back history is looked at."""
LISTED_MAX = 12
"""Most entries of one list."""
COMMANDS_MAX = 40
"""Most commands that are listed."""
TOUCHES_MIN = 3
"""A file that fewer commits changed is not called often changed."""
EXPORTS_BYTES_MIN = 250
"""A smaller list of exports holds a docstring, or nothing."""

LANGUAGES = {
    ".py": "Python",
    ".pyi": "Python",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".mjs": "JavaScript",
    ".cjs": "JavaScript",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".vue": "Vue",
    ".svelte": "Svelte",
    ".go": "Go",
    ".rs": "Rust",
    ".java": "Java",
    ".kt": "Kotlin",
    ".scala": "Scala",
    ".c": "C",
    ".h": "C or C++",
    ".cc": "C++",
    ".cpp": "C++",
    ".hpp": "C++",
    ".cs": "C#",
    ".rb": "Ruby",
    ".php": "PHP",
    ".swift": "Swift",
    ".dart": "Dart",
    ".ex": "Elixir",
    ".exs": "Elixir",
    ".hs": "Haskell",
    ".ml": "OCaml",
    ".lua": "Lua",
    ".sh": "shell",
    ".sql": "SQL",
    ".html": "HTML",
    ".css": "CSS",
    ".md": "Markdown",
    ".rst": "reStructuredText",
}
"""Languages by a file's ending."""
_NOT_SOURCE = frozenset({"Markdown", "reStructuredText", "HTML", "CSS"})
_TEST_NAMES = (
    *("test_*.py", "*_test.py", "*_test.go", "*.test.*", "*.spec.*", "*_spec.rb"),
    *("*Test.java", "*Tests.java", "*Test.kt", "*Test.php", "*Tests.cs", "*_test.exs"),
)
_TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec"})
_FIXTURES = frozenset({"fixtures", "__fixtures__", "testdata", "node_modules", "vendor"})
_CHANGELOGS = ("changelog*", "changes*", "history*", "news*", "release*notes*")
_EXPORTS = ("__init__.py", "index.ts", "index.js", "index.tsx", "lib.rs", "mod.rs")


@dataclass(frozen=True, slots=True)
class Findings:
    """What was read of one commit."""

    sizes: Mapping[str, int]
    """Bytes of every file by its path."""
    texts: Mapping[str, str]
    """Texts of `wanted_files`, as far as there are any."""
    changes: Changes


def wanted_files(paths: Iterable[str]) -> tuple[str, ...]:
    """The files whose text `describe` needs."""
    return command_files(paths)


def describe(found: Findings) -> str:
    """The facts, in sections; a section that has nothing to say is left out."""
    commits = f"{found.changes.commits:,} commits"
    sections = (
        _section("Languages", _languages(found.sizes)),
        _section("Test files", _tests(found.sizes)),
        _section("Commands, with the place that says so", _commands(found), COMMANDS_MAX),
        _section(f"Changed most often in the last {commits}", _often_changed(found)),
        _section("Changelogs and lists of exports", _shared(found)),
        _section("Largest source files", _largest(found.sizes)),
    )
    return "\n\n".join(section for section in sections if section)


def _section(title: str, entries: Iterator[str], most: int = LISTED_MAX) -> str:
    lines = list(entries)
    if not lines:
        return ""
    more = [f"- [{len(lines) - most:,} more]"] if len(lines) > most else []
    return "\n".join([f"{title}:", *(f"- {line}" for line in lines[:most]), *more])


def _languages(sizes: Mapping[str, int]) -> Iterator[str]:
    counts = Counter(language for path in sizes if (language := _language(path)))
    for language, count in counts.most_common():
        yield f"{language}: {count:,} files" if count > 1 else f"{language}: 1 file"


def _tests(sizes: Mapping[str, int]) -> Iterator[str]:
    """Folders of tests, those with most files first; the one big file is where tasks would meet."""
    folders: dict[str, list[str]] = {}
    for path in filter(_is_test, sizes):
        folders.setdefault(dirname(path), []).append(path)
    for folder, tests in sorted(folders.items(), key=lambda item: (-len(item[1]), item[0])):
        biggest = max(tests, key=lambda path: (sizes[path], path))
        where, name = one_line(folder) or "the root", one_line(basename(biggest))
        yield f"{where}: {len(tests):,}, the largest is {name} ({sizes[biggest]:,} bytes)"


def _commands(found: Findings) -> Iterator[str]:
    for command in find_commands(found.texts, found.sizes):
        yield f"{one_line(command.text)}  ({one_line(command.place)})"


def _often_changed(found: Findings) -> Iterator[str]:
    often = sorted(found.changes.counts.items(), key=lambda item: (-item[1], item[0]))
    for path, count in often:
        if count >= TOUCHES_MIN and path in found.sizes:
            yield f"{one_line(path)}: in {count:,}"


def _shared(found: Findings) -> Iterator[str]:
    """Files that most changes have a reason to touch, the most changed and the highest first."""
    known = [
        path
        for path in found.sizes
        if (basename(path) in _EXPORTS and found.sizes[path] >= EXPORTS_BYTES_MIN)
        or any(fnmatchcase(basename(path).lower(), name) for name in _CHANGELOGS)
    ]
    counts = found.changes.counts
    for path in sorted(known, key=lambda path: (-counts.get(path, 0), path.count("/"), path)):
        if ASIDE.isdisjoint(path.split("/")):
            yield one_line(path)


def _largest(sizes: Mapping[str, int]) -> Iterator[str]:
    source = [path for path in sizes if _language(path) not in {None, *_NOT_SOURCE}]
    for path in sorted(source, key=lambda path: (-sizes[path], path))[:LISTED_MAX]:
        yield f"{one_line(path)}: {sizes[path]:,} bytes"


def _language(path: str) -> str | None:
    return LANGUAGES.get(splitext(path)[1].lower())


def _is_test(path: str) -> bool:
    """Whether the name, or a folder above, says that it holds tests; helpers are none."""
    if _language(path) in {None, *_NOT_SOURCE} or basename(path) in _EXPORTS:
        return False
    folders = dirname(path).split("/")
    if not _FIXTURES.isdisjoint(folders):
        return False
    named = any(fnmatchcase(basename(path), pattern) for pattern in _TEST_NAMES)
    return named or (not path.endswith(".py") and not _TEST_FOLDERS.isdisjoint(folders))
