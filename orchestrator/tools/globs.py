r"""Patterns for paths, matched in bounded time whatever the pattern.

As in ripgrep and .gitignore: a pattern without `/` matches a name at any depth, one with `/` is
anchored at the folder that is searched. `*`, `?` and `[...]` stay within one name, `**` crosses
folders, `{a,b}` is either. Matching is greedy with one point of return for each kind of star, so
it takes at most the product of the two lengths; `fnmatch` guarantees the same within a name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from orchestrator.ports import ToolError

ALTERNATIVES_MAX = 64


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path relative to the searched folder matches. Raises `ToolError`.

    A pattern that starts with `!` matches what the rest does not.
    """
    if pattern.startswith("!"):
        inner = matcher(pattern[1:])
        return lambda path: not inner(path)
    alternatives = [_parts(single) for single in _alternatives(pattern)]

    def matches(path: str) -> bool:
        parts = path.split("/")
        return any(_match(wanted, parts) for wanted in alternatives)

    return matches


def _parts(pattern: str) -> tuple[str, ...]:
    anchored = "/" in pattern.rstrip("/")
    everything_below = pattern.endswith("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not anchored:
        parts.insert(0, "**")
    if everything_below:
        parts.append("**")
    return tuple(parts)


def _match(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match names one by one; on a mismatch the last `**` takes one name more."""
    at_pattern = at_path = 0
    star, resume = -1, 0
    while at_path < len(path):
        if at_pattern < len(pattern) and pattern[at_pattern] == "**":
            star, resume = at_pattern, at_path
            at_pattern += 1
        elif at_pattern < len(pattern) and fnmatchcase(path[at_path], pattern[at_pattern]):
            at_pattern += 1
            at_path += 1
        elif star >= 0:
            resume += 1
            at_pattern, at_path = star + 1, resume
        else:
            return False
    return all(part == "**" for part in pattern[at_pattern:])


def _alternatives(pattern: str) -> list[str]:
    """`pattern` with `{a,b}` written out, inner braces first."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop()
        end = current.find("}")
        start = current.rfind("{", 0, end) if end >= 0 else -1
        if start < 0:
            done.append(current)
        else:
            options = current[start + 1 : end].split(",")
            todo += [current[:start] + option + current[end + 1 :] for option in reversed(options)]
        if len(done) + len(todo) > ALTERNATIVES_MAX:
            raise ToolError(f"the pattern has more than {ALTERNATIVES_MAX} alternatives: use fewer")
    return done


def below(folder: str, path: str) -> str | None:
    """`path` relative to `folder` (both relative to the root), None where it is not inside.

    A file is inside itself, under its own name.
    """
    if folder == ".":
        return path
    if path == folder:
        return posixpath.basename(path)
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None
