"""The rules files of a repository, and which of them a task is shown. Pure: paths and texts in.

- `AGENTS.md`, and `CLAUDE.md` in a folder that has none: the root's for everybody, those of
  subfolders for tasks whose `writes` or `context` lie there. The nearest to a file goes first.
- `.cursor/rules/*.mdc` of the root, by their front matter: `alwaysApply` for everybody, `globs` for
  tasks whose files they match, the others by name and description alone.
- `.github/copilot-instructions.md` for everybody.

A text that stands in several files is shown once. What is not shown, because it is too much or may
not matter, is named. `@import` lines of a CLAUDE.md are text like any other: they are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pathspec import GitIgnoreSpec

from orchestrator.agent.parts import NamedText, RulesText
from orchestrator.ports import ToolError
from orchestrator.tools.globs import matcher

RULES_NAMES = ("AGENTS.md", "CLAUDE.md")
"""Names of rules files in any folder; the first one that is there and says something holds."""
COPILOT_FILE = ".github/copilot-instructions.md"
CURSOR_FOLDER = ".cursor/rules/"
RULES_FILES_MAX = 200
"""Most rules files that are looked at, those nearest to the root first."""
RULES_CHARS = 40_000
"""Longest rules file that is shown whole."""
RULES_TOTAL_CHARS = 80_000
"""Most of all rules in one prompt; what comes past it is named."""
MORE_MAX = 40
"""Most rules files that are only named."""

GLOBS_MAX = 50
"""Most globs of one rule that are looked at."""

_TOUCHED_MAX = 2_000
_WILDCARD = re.compile(r"[*?\[\\]")
_KEY = re.compile(r"(description|globs|alwaysApply)\s*:(.*)")
_ITEM = re.compile(r"\s*-\s+(.*)")


def rules_files(paths: Iterable[str]) -> tuple[str, ...]:
    """The rules files among `paths`, those nearest to the root first, then by name."""
    found = [
        path
        for path in paths
        if path.rpartition("/")[2] in RULES_NAMES or path == COPILOT_FILE or is_cursor_rule(path)
    ]
    return tuple(sorted(found, key=lambda path: (_depth(path), path))[:RULES_FILES_MAX])


def is_cursor_rule(path: str) -> bool:
    """Whether the path is that of a rule of the root's `.cursor/rules/`."""
    return path.startswith(CURSOR_FOLDER) and path.endswith(".mdc")


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of a repository that a task is about."""

    writes: tuple[str, ...]
    """Folders that its patterns lie in; the root (empty) where it may write, or look, anywhere."""
    folders: tuple[str, ...]
    """Those, the folders of its context files, and all their parents, the widest first."""
    files: tuple[str, ...]
    """Files that it names or may write, as far as they are known."""


def reach(writes: Sequence[str] | None, context: Sequence[str], tree: Sequence[str]) -> Reach:
    """What a task is about: its patterns (None: everything), its context files, all paths."""
    patterns = [item for item in writes or () if not item.startswith("!")]
    homes = {_home(pattern, tree) for pattern in patterns} if writes is not None else {""}
    around = {folder for home in homes for folder in _upwards(home)}
    around |= {folder for path in context for folder in _upwards(_parent(path))}
    literal = [item.strip("/") for item in patterns if not _WILDCARD.search(item)]
    return Reach(
        writes=tuple(sorted(homes)),
        folders=tuple(sorted(around | {""}, key=lambda folder: (_depth(folder), folder))),
        files=tuple(dict.fromkeys([*context, *literal, *_matching(writes or (), tree)])),
    )


def _matching(patterns: Sequence[str], tree: Sequence[str]) -> Iterator[str]:
    """The first files that gitignore patterns match; none where one of them is no pattern."""
    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError:  # a backslash at the end
        return
    yield from islice((path for path in tree if spec.match_file(path)), _TOUCHED_MAX)


def wanted(files: Sequence[str], about: Reach) -> tuple[str, ...]:
    """Those rules files whose text is needed to say what a task is shown."""
    folders = set(about.folders)
    return tuple(
        path
        for path in files
        if path == COPILOT_FILE or is_cursor_rule(path) or _parent(path) in folders
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What a task is shown: see `PromptParts`."""

    project: tuple[RulesText, ...]
    nested: tuple[RulesText, ...]
    more: tuple[NamedText, ...]


def choose(files: Sequence[str], texts: Mapping[str, str], about: Reach) -> Rules:
    """Which rules a task is shown. `texts`: those of `wanted` that could be read."""
    project: list[RulesText] = []
    nested: list[RulesText] = []
    more: list[NamedText] = []
    for folder in about.folders:
        names = [_join(folder, name) for name in RULES_NAMES]
        if path := next((name for name in names if texts.get(name, "").strip()), None):
            scope = f"what lies beneath {folder}/" if folder else ""
            (nested if folder else project).append(RulesText((path,), texts[path], scope))
    if texts.get(COPILOT_FILE, "").strip():
        project.append(RulesText((COPILOT_FILE,), texts[COPILOT_FILE]))
    for path in filter(is_cursor_rule, files):
        rule = cursor_rule(texts.get(path, ""))
        scope = f"files that match {', '.join(rule.globs)}" if rule.globs else rule.description
        if rule.body and rule.always:
            project.append(RulesText((path,), rule.body))
        elif rule.body and rule.meets(about.files):
            nested.append(RulesText((path,), rule.body, scope))
        elif rule.body:
            more.append(NamedText(path, scope or "what its text says"))
    more.extend(_deeper(files, about))
    shown, room, left_out = _fitting(_once(project, ()), RULES_TOTAL_CHARS)
    nearest_first = _once(nested, shown)[::-1]
    inner, _, left_out_inner = _fitting(nearest_first, room)
    more = [*left_out, *left_out_inner, *more]
    return Rules(shown, inner[::-1], tuple(more[:MORE_MAX]))


def _deeper(files: Sequence[str], about: Reach) -> Iterator[NamedText]:
    """Rules files further below the folders that a task may write in, or look at."""
    seen = set(about.folders)
    for path in files:
        folder, _, name = path.rpartition("/")
        below = any(not home or folder.startswith(home + "/") for home in about.writes)
        if name in RULES_NAMES and below and folder not in seen:
            seen.add(folder)  # AGENTS.md comes before CLAUDE.md, by its name
            yield NamedText(path, f"what lies beneath {folder}/")


def _once(rules: Sequence[RulesText], before: Sequence[RulesText]) -> list[RulesText]:
    """Each text once, with all the files that it stands in; none that was shown `before`."""
    merged: dict[str, RulesText] = {}
    known = {item.text.strip() for item in before}
    for item in rules:
        key = item.text.strip()
        if key in known:
            continue
        if first := merged.get(key):
            scopes = dict.fromkeys(scope for scope in (first.scope, item.scope) if scope)
            item = RulesText((*first.paths, *item.paths), first.text, " and ".join(scopes))
        merged[key] = item
    return list(merged.values())


def _fitting(
    rules: Sequence[RulesText], room: int
) -> tuple[tuple[RulesText, ...], int, list[NamedText]]:
    """What fits into `room` characters in their order, what is left of it, what does not fit."""
    shown: list[RulesText] = []
    left_out: list[NamedText] = []
    for item in rules:
        size = min(len(item.text), RULES_CHARS)
        if size <= room:
            shown.append(item)
            room -= size
        else:
            left_out.append(NamedText(item.paths[0], item.scope or "the whole project"))
    return tuple(shown), room, left_out


# --- Cursor's rules -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CursorRule:
    """One `.mdc` file."""

    body: str
    always: bool = False
    globs: tuple[str, ...] = ()
    description: str = ""

    def meets(self, files: Sequence[str]) -> bool:
        """Whether one of `files` matches its globs."""
        for glob in self.globs:
            try:
                matches = matcher(glob)
            except ToolError:  # too many alternatives: the rule is named, not shown
                continue
            if any(matches(path) for path in files):
                return True
        return False


def cursor_rule(text: str) -> CursorRule:
    """Read a rule. Its front matter looks like YAML and is none: `globs: *.ts` stands bare."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if lines[0].rstrip() != "---" or not end:
        return CursorRule(text.strip())
    values: dict[str, str] = {}
    key = ""
    for line in lines[1:end]:
        if found := _KEY.fullmatch(line.strip()):
            key, values[found[1]] = found[1], found[2].strip()
        elif key == "globs" and (item := _ITEM.fullmatch(line)):
            values[key] += f",{item[1]}"
    listed = values.get("globs", "")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    globs = (_unquoted(part) for part in _parts(listed))
    return CursorRule(
        body="\n".join(lines[end + 1 :]).strip(),
        always=values.get("alwaysApply", "").lower() == "true",
        globs=tuple(islice((glob for glob in globs if glob), GLOBS_MAX)),
        description=_unquoted(values.get("description", "")),
    )


def _parts(listed: str) -> Iterator[str]:
    """What stands between commas, but for those in braces; in one pass, whatever a file says."""
    start = depth = 0
    for at, character in enumerate(listed):
        if character == "," and depth == 0:
            yield listed[start:at]
            start = at + 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth = max(depth - 1, 0)
    yield listed[start:]


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()


# --- paths ----------------------------------------------------------------------------------------


def _home(pattern: str, tree: Sequence[str]) -> str:
    """The folder that everything lies in which a gitignore pattern matches."""
    whole = pattern.strip("/")
    fixed = _WILDCARD.split(whole, maxsplit=1)[0]
    if fixed != whole:
        anywhere = "/" not in pattern.rstrip("/")
        return "" if anywhere else fixed.rpartition("/")[0]
    is_folder = pattern.endswith("/") or any(path.startswith(whole + "/") for path in tree)
    return whole if is_folder else _parent(whole)


def _upwards(folder: str) -> Iterator[str]:
    """The folder and its parents, the root among them."""
    while folder:
        yield folder
        folder = _parent(folder)
    yield ""


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _depth(path: str) -> int:
    return path.count("/") + bool(path)
