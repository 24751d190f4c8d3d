"""A conflict in words: whose work does not merge, where, and both sides where they are text."""

from __future__ import annotations

from orchestrator.spec import AttemptSpec
from orchestrator.workspace.hub import Conflict, Hub
from orchestrator.workspace.merge import ConflictEntry

FILES_SHOWN_MAX = 5
"""Conflicted files of which both sides are shown."""
SIDES_CHARS = 1_500
"""Characters of both sides of one file, from the first conflict on."""
FILE_BYTES_MAX = 2_000_000
_MARKER = "<<<<<<<"


async def describe_conflict(conflict: Conflict, spec: AttemptSpec, hub: Hub) -> str:
    """Evidence for a planner: git's kind of conflict by path, and the lines that disagree."""
    names = ", ".join(f"`{item.task}`" for item in spec.inputs)
    parts = [f"the work of {names} does not merge:"]
    parts += [f"- {entry.path}: {entry.kind}" for entry in conflict.entries]
    whose = {item.commit: f"`{item.task}`" for item in spec.inputs}
    ours = whose.get(conflict.ours, "what was merged before it")
    theirs = whose.get(conflict.theirs, "the last of them")
    shown = 0
    for entry in conflict.entries:
        sides = await _sides(conflict, entry, hub) if shown < FILES_SHOWN_MAX else ""
        if sides:
            shown += 1
            head = f"{entry.path}, {ours} above and {theirs} below each `=======`:"
            parts.append(f"\n{head}\n{sides}")
    return "\n".join(parts)


async def _sides(conflict: Conflict, entry: ConflictEntry, hub: Hub) -> str:
    """The file from its first conflict on, with git's markers; empty where it is no text."""
    if not entry.is_text:
        return ""
    data = await hub.read_file(conflict.tree, entry.path, FILE_BYTES_MAX)
    text = data.decode("utf-8", "replace") if data is not None and b"\0" not in data else ""
    start = text.find(_MARKER)
    if start < 0:
        return ""
    sides = text[start : start + SIDES_CHARS].rstrip("\n")
    return sides + ("\n[...]" if len(text) > start + SIDES_CHARS else "")
