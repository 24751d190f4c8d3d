"""`Glob`: paths by pattern, newest first, capped."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import FileEntry, ToolError, Workspace
from orchestrator.tools.definition import Definition, PathText, ToolSession, relative
from orchestrator.tools.globs import below, matcher
from orchestrator.tools.text import visible

PATHS_MAX = 200


class GlobArguments(Record):
    """Arguments of `Glob`."""

    pattern: Annotated[str, Field(min_length=1, max_length=1_000)]
    """Such as `*.py`, `src/**/*.ts`, `*.{yml,yaml}`; without `/` it matches names at any depth."""
    path: PathText | None = None
    """Folder to look in; left out, the whole repository."""


async def _glob(args: GlobArguments, workspace: Workspace, _session: ToolSession) -> str:
    folder = relative(args.path, workspace) if args.path else "."
    pattern = args.pattern
    if pattern.startswith("/"):
        pattern = relative(pattern, workspace)
    entries = await workspace.files()
    found = await anyio.to_thread.run_sync(_select, entries, folder, pattern)
    if not found:
        where = f" in {args.path}" if args.path else ""
        return (
            f"No file matches {args.pattern}{where} ({len(entries):,} files, ignored ones not"
            " among them)."
        )
    shown = "\n".join(visible(entry.path) for entry in found[:PATHS_MAX])
    if len(found) <= PATHS_MAX:
        return shown
    left_out = len(found) - PATHS_MAX
    return (
        f"{shown}\n[the newest {PATHS_MAX} of {len(found):,}, {left_out:,} left out:"
        " narrow the pattern or give a path]"
    )


def _select(entries: tuple[FileEntry, ...], folder: str, pattern: str) -> list[FileEntry]:
    """Matching entries, the newest first, ties by path."""
    if folder.startswith(".."):
        raise ToolError("the path is outside of the repository: give one inside it")
    matches = matcher(pattern)
    found = [
        entry
        for entry in entries
        if (inner := below(folder, entry.path)) is not None and matches(inner)
    ]
    return sorted(found, key=lambda entry: (-entry.mtime_ns, entry.path))


GLOB = Definition(
    name="Glob",
    description=(
        "Find files by the pattern of their path, newest first."
        f" Shows at most {PATHS_MAX} and says how many there are."
    ),
    arguments=GlobArguments,
    carry_out=_glob,
)
