"""`Edit`: replace one exact piece of text, as bytes.

Only the bytes of the piece change: the ends of lines, the byte order mark, the encoding and the
mode of the file stay. The piece must occur exactly once unless all are to be replaced. A file that
parsed before (Python, JSON, TOML, YAML) must parse afterwards, or nothing is written.

The text an agent gives has LF; in a file with CR LF its line ends match those, and the new text
gets them too.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from typing import Annotated

import anyio
import anyio.to_thread
from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import ToolError, Workspace
from orchestrator.tools.apart import run_apart
from orchestrator.tools.content import FILE_BYTES_MAX, Form, form_of, refuse_binary
from orchestrator.tools.definition import Definition, PathText, ToolSession, relative
from orchestrator.tools.parses import Problem, is_parsed, problem_within

LINES_NAMED = 10
MATCHES_MAX = 10_000
PARSE_SECONDS_MAX = 10.0
"""Longest wait for a parser, its process's start included."""
PARSE_ALARM_SECONDS = 20
"""When that process ends itself, should nobody be there to end it."""

EditedText = Annotated[str, Field(max_length=1_000_000)]


class EditArguments(Record):
    """Arguments of `Edit`."""

    file_path: PathText
    """Path of the file, relative to the working folder."""
    old_string: EditedText
    """The text to replace, exactly as it stands in the file, without line numbers."""
    new_string: EditedText
    """The text that takes its place."""
    replace_all: bool = False
    """Replace every occurrence, instead of the only one."""


async def _edit(args: EditArguments, workspace: Workspace, session: ToolSession) -> str:
    path = args.file_path
    old_text = args.old_string.replace("\r\n", "\n")
    if not old_text:
        raise ToolError("old_string is empty: give the text to replace, or use Write for a file")
    if old_text == args.new_string.replace("\r\n", "\n"):
        raise ToolError("old_string and new_string are the same: nothing would change")
    before = await workspace.read(path, bytes_max=FILE_BYTES_MAX + 1)
    refuse_binary(before, path)
    if len(before) > FILE_BYTES_MAX:
        raise ToolError(f"{path} is larger than {FILE_BYTES_MAX:,} bytes: edit it with a command")
    after, lines = await anyio.to_thread.run_sync(replaced, before, args, old_text)
    note = await check_form(path, before, after)
    await workspace.write(path, after)
    known = session.seen.get(relative(path, workspace))
    if known is not None:
        known.digest = sha256(after).hexdigest()
    places = "line " + str(lines[0]) if len(lines) == 1 else f"{len(lines):,} places"
    return f"Edited {path} at {places}.{note}"


def replaced(before: bytes, args: EditArguments, old_text: str) -> tuple[bytes, list[int]]:
    """The new bytes, and the lines where the replaced pieces began. Raises `ToolError`."""
    form = form_of(before)
    try:
        piece = old_text.encode(form.encoding)
    except UnicodeEncodeError:
        raise _not_found(before, args, form) from None
    spans = _spans(before, piece, all_of_them=args.replace_all)
    if not spans:
        raise _not_found(before, args, form)
    starts = [start for start, _ in spans]
    if len(spans) > 1 and not args.replace_all:
        raise _ambiguous(before, args, starts)
    pieces: list[bytes] = []
    done = 0
    for start, end in spans:
        new = _with_ends_of(before, start, form).encode(args.new_string, path=args.file_path)
        pieces += [before[done:start], new]
        done = end
    return b"".join([*pieces, before[done:]]), _line_numbers(before, starts)


def _spans(data: bytes, piece: bytes, *, all_of_them: bool) -> list[tuple[int, int]]:
    """Where `piece` stands in `data`, an LF in it matching a CR LF too.

    With `all_of_them` places that do not overlap, else every place. Searching is done in the data
    with plain LF, in time proportional to its length; places are then mapped back.
    """
    returns: list[int] = []
    plain = data
    if b"\n" in piece and b"\r\n" in data:
        plain = data.replace(b"\r\n", b"\n")
        returns = _lost_returns(data)
    spans: list[tuple[int, int]] = []
    start = plain.find(piece)
    while start >= 0:
        end = start + len(piece)
        spans.append((start + bisect_left(returns, start), end + bisect_left(returns, end)))
        if len(spans) > MATCHES_MAX:
            raise ToolError(
                f"old_string occurs more than {MATCHES_MAX:,} times: use a command for this"
            )
        start = plain.find(piece, end if all_of_them else start + 1)
    return spans


def _lost_returns(data: bytes) -> list[int]:
    """For each CR LF of `data` the offset of its LF once every CR before one is taken out."""
    offsets: list[int] = []
    at = data.find(b"\r\n")
    while at >= 0:
        offsets.append(at - len(offsets))
        at = data.find(b"\r\n", at + 2)
    return offsets


def _with_ends_of(data: bytes, start: int, form: Form) -> Form:
    """The file's form with the line ends of the place: the first in it, else the next one."""
    newline = data.find(b"\n", start)
    crlf = form.crlf if newline < 0 else data[newline - 1 : newline] == b"\r"
    return Form(form.bom, form.encoding, crlf)


def _line_numbers(data: bytes, starts: list[int]) -> list[int]:
    """Lines, counted from 1, that hold the given offsets (ascending)."""
    numbers: list[int] = []
    line, at = 1, 0
    for start in starts:
        line += data.count(b"\n", at, start)
        at = start
        numbers.append(line)
    return numbers


def _ambiguous(data: bytes, args: EditArguments, starts: list[int]) -> ToolError:
    return ToolError(
        f"old_string occurs {len(starts):,} times in {args.file_path}, at lines"
        f" {_named(_line_numbers(data, starts))}: nothing was changed. Give more of the text around"
        " the one you mean, or set replace_all."
    )


def _not_found(data: bytes, args: EditArguments, form: Form) -> ToolError:
    """An error that says where something similar stands: the same line but for white space."""
    wanted = next((line.split() for line in args.old_string.split("\n") if line.strip()), [])
    similar = [
        number
        for number, line in enumerate(data.decode(form.encoding).split("\n"), start=1)
        if wanted and line.split() == wanted
    ]
    hint = "Read the file again and copy the text exactly"
    if similar:
        hint = (
            f"Its first line stands, but for white space, at {_named(similar)}; what follows or"
            f" the white space differs. {hint}"
        )
    notes = f" (the file: {form.notes})" if form.notes else ""
    return ToolError(
        f"old_string occurs 0 times in {args.file_path}{notes}: nothing was changed. {hint}."
    )


def _named(lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:LINES_NAMED]))
    return named + (f" and {len(lines) - LINES_NAMED:,} more" if len(lines) > LINES_NAMED else "")


async def check_form(path: str, before: bytes | None, after: bytes) -> str:
    """A remark for the result, empty when the new content parses or is of no known kind.

    Raises `ToolError` where the old content parsed and the new one does not. Content that takes
    too long to parse, or too much, is let through with a remark.
    """
    try:
        problem = await _problem_in(path, after)
        if problem is None:
            return ""
        parsed_before = before is not None and await _problem_in(path, before) is None
    except (TimeoutError, anyio.BrokenWorkerProcess):
        return " Whether it parses is not known: a parser could not cope with it."
    if parsed_before:
        raise ToolError(
            f"refused, {path} was left as it is: it would no longer parse"
            f" ({problem.shown(after)})\nCorrect the text and send the call again."
        )
    return f" Note that it does not parse: {problem.shown(after)}"


async def _problem_in(path: str, data: bytes) -> Problem | None:
    """What keeps `data` from parsing, found in a process that can be ended.

    Raises `TimeoutError`, or `BrokenWorkerProcess` where the parser ended its process.
    """
    if not is_parsed(path, data):
        return None
    with anyio.fail_after(PARSE_SECONDS_MAX):
        return await run_apart(problem_within, path, data, PARSE_ALARM_SECONDS)


EDIT = Definition(
    name="Edit",
    description=(
        "Replace text in a file. old_string must stand in the file exactly (white space too) and"
        " only once, unless replace_all is set; give some lines around it to make it unique. Line"
        " ends, encoding and mode of the file are kept. A result that no longer parses is refused."
        " Independent edits can go in one reply; they are carried out in order."
    ),
    arguments=EditArguments,
    carry_out=_edit,
    read_only=False,
)
