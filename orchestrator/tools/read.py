"""`Read`: a window of a text file, with line numbers and the way to the rest.

The window is bounded in lines and characters whatever the file's size, so a file of megabytes is
paged. What was shown is remembered: `Write` replaces only files that were seen whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import ToolError, Workspace
from orchestrator.tools.content import FILE_BYTES_MAX, Form, form_of, lines_of, refuse_binary
from orchestrator.tools.definition import Definition, PathText, Seen, ToolSession, relative
from orchestrator.tools.text import visible

WINDOW_LINES = 2_000
WINDOW_CHARS = 19_000
"""Most characters of a window; the last lines that say how to go on come on top."""
LINE_CHARS = 2_000


class ReadArguments(Record):
    """Arguments of `Read`."""

    file_path: PathText
    """Path of the file, relative to the working folder."""
    offset: Annotated[int, Field(ge=0)] = 1
    """First line to show, counted from 1."""
    limit: Annotated[int, Field(ge=1)] = WINDOW_LINES
    """Most lines to show."""


@dataclass(frozen=True, slots=True)
class _Page:
    text: str
    first: int
    last: int
    total: int
    """Lines of the file, or of the part that was read."""
    form: Form


async def _read(args: ReadArguments, workspace: Workspace, session: ToolSession) -> str:
    data = await workspace.read(args.file_path, bytes_max=FILE_BYTES_MAX + 1)
    refuse_binary(data, args.file_path)
    cut = len(data) > FILE_BYTES_MAX
    page = await anyio.to_thread.run_sync(_page, data, args)
    if not cut:
        _remember(session, relative(args.file_path, workspace), data, page)
    return f"{page.text}{_footer(page, len(data), cut=cut)}"


def _page(data: bytes, args: ReadArguments) -> _Page:
    """The window that was asked for. Raises `ToolError` past the end."""
    form = form_of(data)
    lines = lines_of(data.removeprefix(form.bom))
    first = max(args.offset, 1)
    if first > max(len(lines), 1):
        raise ToolError(
            f"offset {first} is past the end: {args.file_path} has {len(lines):,} lines"
        )
    shown: list[str] = []
    room = WINDOW_CHARS
    for number, line in enumerate(lines[first - 1 : first - 1 + min(args.limit, WINDOW_LINES)]):
        entry = f"{first + number:>6}\t{_line(line, form.encoding)}\n"
        if len(entry) > room and shown:
            break
        shown.append(entry)
        room -= len(entry)
    return _Page("".join(shown), first, first + len(shown) - 1, len(lines), form)


def _line(line: bytes, encoding: str) -> str:
    """One line as it is shown, cut when it is very long."""
    text = visible(line.removesuffix(b"\r")[: 4 * LINE_CHARS].decode(encoding, errors="replace"))
    if len(text) <= LINE_CHARS and len(line) <= 4 * LINE_CHARS:
        return text
    return f"{text[:LINE_CHARS]} [... cut: the line has {len(line):,} bytes]"


def _footer(page: _Page, size: int, *, cut: bool) -> str:
    """Where the window stands in the file, and how to get more."""
    notes = f"; {page.form.notes}" if page.form.notes else ""
    if page.total == 0:
        return f"[the file is empty{notes}]"
    total = f"the first {FILE_BYTES_MAX:,} bytes have {page.total:,}" if cut else f"{page.total:,}"
    place = f"lines {page.first}-{page.last} of {total}"
    if page.last < page.total:
        return f"[{place} ({size:,} bytes){notes}; go on with offset={page.last + 1}]"
    if cut:
        return f"[{place}{notes}; use a command such as `tail` for the rest]"
    return f"[{place}, the end{notes}]"


def _remember(session: ToolSession, path: str, data: bytes, page: _Page) -> None:
    """Note what is known of the file now; pages add up when they leave no gap."""
    digest = sha256(data).hexdigest()
    known = session.seen.get(path)
    before = known.lines if known is not None and known.digest == digest else 0
    lines = max(before, page.last) if page.first <= before + 1 else before
    session.seen[path] = Seen(digest, lines, whole=lines >= page.total)


READ = Definition(
    name="Read",
    description=(
        "Read a text file of the repository, with line numbers (they are no part of the file)."
        f" Shows at most {WINDOW_LINES:,} lines or about {WINDOW_CHARS:,} characters from `offset`"
        " on, and says how many lines there are and how to go on. Ask for several files in one"
        " reply when you know that you need them."
    ),
    arguments=ReadArguments,
    carry_out=_read,
)
