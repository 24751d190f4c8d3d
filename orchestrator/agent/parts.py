"""What of the repository goes into a prompt before the first call: rules, file tree, context.

Read once when an attempt starts and frozen from then on, so that the prefix stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.ports import FileAccessError, Workspace

RULES_FILES = ("AGENTS.md", "CLAUDE.md")
"""Names of rules files at the root; the first one that is there holds."""
PART_BYTES_MAX = 128 * 1024
"""Most that is read of one file."""


@dataclass(frozen=True, slots=True)
class NamedText:
    """A file's text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What the repository adds to a prompt."""

    rules: NamedText | None = None
    """The project's rules file."""
    tree: tuple[str, ...] = ()
    """Paths of all files, sorted."""
    context: tuple[NamedText, ...] = ()
    """Files that the plan and the task name, in that order."""
    missing: tuple[str, ...] = ()
    """Those of them that could not be read."""
    diff: str = ""
    """What has changed since the run's base, for whoever reviews it."""


async def read_parts(workspace: Workspace, context: Sequence[str]) -> PromptParts:
    """Read the parts from `workspace`; `context` are the paths that plan and task name."""
    rules = None
    for name in RULES_FILES:
        rules = rules or await _text(workspace, name)
    read = [(path, await _text(workspace, path)) for path in dict.fromkeys(context)]
    return PromptParts(
        rules=rules,
        tree=tuple(entry.path for entry in await workspace.files()),
        context=tuple(text for _, text in read if text is not None),
        missing=tuple(path for path, text in read if text is None),
    )


async def _text(workspace: Workspace, path: str) -> NamedText | None:
    """The file's text, None where there is no such file."""
    try:
        data = await workspace.read(path, bytes_max=PART_BYTES_MAX)
    except FileAccessError:
        return None
    return NamedText(path, data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n"))
