"""`Write`: a new file, or the whole of one that the agent has seen whole.

Refusing to replace what was not seen is what keeps an agent from cutting off the part of a file
that it never read. A file that changed since (by a command) must be read again. The line ends, the
byte order mark and the encoding of a replaced file are kept, and its parse rule is `Edit`'s.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated

from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import FileAccessError, ToolError, Workspace
from orchestrator.tools.content import FILE_BYTES_MAX, PLAIN, form_of, refuse_binary
from orchestrator.tools.definition import Definition, PathText, Seen, ToolSession, relative
from orchestrator.tools.edit import check_form


class WriteArguments(Record):
    """Arguments of `Write`."""

    file_path: PathText
    """Path of the file, relative to the working folder; folders are made."""
    content: Annotated[str, Field(max_length=4_000_000)]
    """All of the file's text."""


async def _write(args: WriteArguments, workspace: Workspace, session: ToolSession) -> str:
    path = args.file_path
    before = await _existing(path, workspace)
    form = PLAIN
    if before is not None:
        _refuse_unseen(before, args, workspace, session)
        form = form_of(before)
    text = args.content.removeprefix("\ufeff") if form.bom else args.content
    after = form.bom + (form.encode(text, path=path) if before is not None else text.encode())
    note = await check_form(path, before, after)
    if after == before:
        return f"{path} already has this content: nothing was changed."
    await workspace.write(path, after)
    lines = after.count(b"\n") + (not after.endswith(b"\n") and after != b"")
    session.seen[relative(path, workspace)] = Seen(sha256(after).hexdigest(), lines, whole=True)
    done = "Created" if before is None else "Replaced"
    return f"{done} {path} ({lines:,} lines, {len(after):,} bytes).{note}"


async def _existing(path: str, workspace: Workspace) -> bytes | None:
    """The bytes there are; None where there is no readable file, which writing will tell."""
    try:
        return await workspace.read(path, bytes_max=FILE_BYTES_MAX)
    except FileAccessError:
        return None


def _refuse_unseen(
    before: bytes, args: WriteArguments, workspace: Workspace, session: ToolSession
) -> None:
    """Raise `ToolError` unless the agent knows all of what it is about to replace."""
    if not before:
        return
    seen = session.seen.get(relative(args.file_path, workspace))
    if seen is None:
        refuse_binary(before, args.file_path)
        raise ToolError(
            f"{args.file_path} exists ({before.count(10):,} lines) and was not read: nothing was"
            " changed. Read it first, or change a part of it with Edit."
        )
    if seen.digest != sha256(before).hexdigest():
        raise ToolError(
            f"{args.file_path} has changed since you saw it: nothing was written. Read it again."
        )
    if not seen.whole:
        raise ToolError(
            f"only the first {seen.lines:,} lines of {args.file_path} were read: nothing was"
            " changed. Read the rest first, or change a part of it with Edit."
        )


WRITE = Definition(
    name="Write",
    description=(
        "Create a file with the given content, or replace a whole file that you have read or"
        " written. For a change to a part of a file use Edit."
    ),
    arguments=WriteArguments,
    carry_out=_write,
    read_only=False,
)
