"""`Grep`: lines that match a regular expression, capped, with the count of what was left out.

Looks at what `Workspace.files` lists (no ignored files) and reads through the workspace. The
expression runs in a process with a deadline (`orchestrator.tools.search`); what a search may read
and how long it may take are bounded, and a bound that was met is said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

import anyio
import anyio.to_thread
from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import FileAccessError, FileEntry, ToolError, Workspace
from orchestrator.tools.apart import run_apart
from orchestrator.tools.definition import Definition, PathText, ToolSession, relative
from orchestrator.tools.globs import below, matcher
from orchestrator.tools.search import Hits, search
from orchestrator.tools.text import visible

ENTRIES_DEFAULT = 200
ENTRIES_MAX = 1_000
RESULT_CHARS = 19_000
FILE_BYTES_MAX = 2 * 1024 * 1024
"""Larger files are searched up to here."""
TOTAL_BYTES_MAX = 256 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_FILES = 500
SECONDS_MAX = 20.0
"""Longest search, unless the task's commands have less; past it the process is killed."""
ALARM_SECONDS = 30
"""When the process ends itself, should nobody be there to kill it."""

Mode = Literal["content", "files_with_matches", "count"]


class GrepArguments(Record):
    """Arguments of `Grep`."""

    pattern: Annotated[str, Field(min_length=1, max_length=2_000)]
    """Regular expression (Python's), matched line by line."""
    path: PathText | None = None
    """File or folder to search; left out, the whole repository."""
    glob: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """Only files whose path matches, such as `*.py` or `src/**/*.{ts,tsx}`."""
    output_mode: Mode = "files_with_matches"
    """`content` shows lines, `files_with_matches` paths, `count` matching lines of each file."""
    ignore_case: bool = Field(default=False, alias="-i")
    """Match upper and lower case alike."""
    line_numbers: bool = Field(default=True, alias="-n")
    """Show line numbers with `content`."""
    head_limit: Annotated[int, Field(ge=0)] = ENTRIES_DEFAULT
    """Most lines of the answer."""


@dataclass(slots=True)
class _Search:
    """What a search has found so far."""

    files: int
    """How many it was to look at."""
    hits: list[Hits] = field(default_factory=list)
    searched: int = 0
    bytes_read: int = 0
    cut_files: int = 0
    stopped: str = ""
    """Why it did not look at all of them."""

    @property
    def lines(self) -> int:
        return sum(hits.count for hits in self.hits)

    @property
    def kept_lines(self) -> int:
        return sum(len(hits.lines) for hits in self.hits)


async def _grep(args: GrepArguments, workspace: Workspace, session: ToolSession) -> str:
    chosen = await _choose(args, workspace)
    state = _Search(files=len(chosen))
    limit = min(args.head_limit or ENTRIES_DEFAULT, ENTRIES_MAX)
    seconds = min(SECONDS_MAX, session.timeout_s or SECONDS_MAX)
    with anyio.move_on_after(seconds) as scope:
        async for batch in _batches(chosen, workspace, state):
            room = limit - state.kept_lines if args.output_mode == "content" else 0
            await _search_batch(args, batch, room, state)
    if scope.cancelled_caught:
        if not state.searched:
            raise ToolError(
                f"the search took more than {seconds:g} s and was ended: use a simpler pattern"
                " (no repeated group inside a repetition), or narrow path or glob"
            )
        state.stopped = f"stopped after {seconds:g} s"
    return _answer(args, state, limit)


async def _choose(args: GrepArguments, workspace: Workspace) -> list[FileEntry]:
    """The files to look at. Raises `ToolError` where `path` names nothing."""
    folder = relative(args.path, workspace) if args.path else "."
    entries = await workspace.files()
    chosen, is_there = await anyio.to_thread.run_sync(_select, entries, folder, args.glob)
    if not is_there and folder != ".":
        raise ToolError(
            f"there is no file or folder {args.path} among the repository's files (ignored ones"
            " do not count): find its name with Glob"
        )
    return chosen


def _select(
    entries: tuple[FileEntry, ...], folder: str, glob: str | None
) -> tuple[list[FileEntry], bool]:
    """Entries inside `folder` that match `glob`, and whether there are any inside at all."""
    matches = matcher(glob) if glob else None
    inside = [
        (entry, inner) for entry in entries if (inner := below(folder, entry.path)) is not None
    ]
    return [entry for entry, inner in inside if matches is None or matches(inner)], bool(inside)


async def _batches(
    chosen: list[FileEntry], workspace: Workspace, state: _Search
) -> AsyncIterator[list[tuple[str, bytes]]]:
    """The files' content in portions; `state` counts what was read."""
    batch: list[tuple[str, bytes]] = []
    size = 0
    for entry in chosen:
        if state.bytes_read >= TOTAL_BYTES_MAX:
            state.stopped = f"stopped after {TOTAL_BYTES_MAX:,} bytes"
            break
        try:
            data = await workspace.read(entry.path, bytes_max=FILE_BYTES_MAX)
        except FileAccessError:
            data = b""  # gone since it was listed, or a link that leads out
        state.bytes_read += len(data)
        state.cut_files += entry.size_bytes > FILE_BYTES_MAX
        batch.append((entry.path, data))
        size += len(data)
        if size >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _search_batch(
    args: GrepArguments, batch: list[tuple[str, bytes]], room: int, state: _Search
) -> None:
    """Search one portion. Raises `ToolError` for a faulty pattern."""
    try:
        found = await run_apart(search, args.pattern, args.ignore_case, batch, room, ALARM_SECONDS)
    except anyio.BrokenWorkerProcess as error:
        raise ToolError(
            "the process that searches ended early: use a simpler pattern, or narrow path or glob"
        ) from error
    if isinstance(found, str):
        raise ToolError(
            f"the pattern is no regular expression: {found}. Escape what is meant literally,"
            r" such as \( or \[."
        )
    state.hits += found
    state.searched += len(batch)


def _answer(args: GrepArguments, state: _Search, limit: int) -> str:
    entries = _entries(args, state)
    shown: list[str] = []
    room = RESULT_CHARS
    for entry in entries[:limit]:
        if len(entry) + 1 > room:
            break
        shown.append(entry)
        room -= len(entry) + 1
    notes = _notes(args, state, len(shown))
    if not state.hits:
        return f"No match in {state.searched:,} files{notes}."
    return "\n".join(shown) + (f"\n[{notes.removeprefix('; ')}]" if notes else "")


def _entries(args: GrepArguments, state: _Search) -> list[str]:
    """The lines of the answer, before capping."""
    if args.output_mode == "files_with_matches":
        return [visible(hits.path) for hits in state.hits]
    if args.output_mode == "count":
        return [f"{visible(hits.path)}:{hits.count}" for hits in state.hits]
    return [
        f"{visible(hits.path)}:{f'{number}:' if args.line_numbers else ''}{visible(line)}"
        for hits in state.hits
        for number, line in hits.lines
    ]


def _notes(args: GrepArguments, state: _Search, shown: int) -> str:
    """What the answer does not hold, each part with a leading semicolon."""
    notes = ""
    total = state.lines if args.output_mode == "content" else len(state.hits)
    if shown < total:
        what = "matching lines" if args.output_mode == "content" else "files"
        within = f" in {len(state.hits):,} files" if args.output_mode == "content" else ""
        notes += (
            f"; {shown:,} of {total:,} {what}{within} shown, {total - shown:,} left out:"
            " narrow pattern, path or glob"
        )
    if state.stopped:
        notes += f"; {state.stopped}: {state.searched:,} of {state.files:,} files were searched"
    if state.cut_files:
        notes += f"; {state.cut_files:,} large files were searched in their first part only"
    return notes


GREP = Definition(
    name="Grep",
    description=(
        "Search the contents of the repository's files, line by line, with a regular expression."
        " Ignored and binary files are not searched. Answers are capped and say what was left out."
    ),
    arguments=GrepArguments,
    carry_out=_grep,
)
