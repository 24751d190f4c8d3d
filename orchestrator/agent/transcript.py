"""The transcript of one attempt: JSON lines, only ever appended to, on disk before tools run.

The first line says whose conversation it is, every other one is a message, or what a try cost
that brought none. A reply is flushed and
fsynced before anything that it asks for is done, so what an agent did can always be traced to
what it said. A line that was cut off by a crash is the last one, and is not read.

Not the journal: what a run must know to go on is in events; this is for people, `logs` and costs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import anyio.to_thread
from pydantic import Field, TypeAdapter, ValidationError

from orchestrator.core.base import Record
from orchestrator.core.usage import Usage
from orchestrator.errors import DiskFullError, InfrastructureError, is_disk_full
from orchestrator.messages import Message, Request, StopReason
from orchestrator.ports import NO_USAGE

LOST_MAX = 1_000
"""Most lost tries of one attempt that are kept."""


class Header(Record):
    """Whose conversation it is."""

    type: Literal["header"] = "header"
    task: str
    attempt: int
    started: int = 0
    """`seq` of the event by which this try began: a lost one has the same number."""
    model: str
    tools: tuple[str, ...]
    """Names of the tools that the model is told of."""
    system_digest: str
    """SHA-256 of tools and system: equal for agents that share their prefix."""


class Entry(Record):
    """One message; the last three fields belong to replies."""

    type: Literal["message"] = "message"
    message: Message
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    model: str | None = None
    """The model that answered."""


class Spent(Record):
    """What a try that brought no reply has cost."""

    type: Literal["spent"] = "spent"
    usage: Usage


Line = Annotated[Header | Entry | Spent, Field(discriminator="type")]
"""Any line of a transcript."""

LINE: TypeAdapter[Line] = TypeAdapter(Line)
"""Reads one line."""


@dataclass(frozen=True, slots=True)
class TranscriptContent:
    """What a transcript file holds."""

    header: Header | None
    """None where the file ends before it."""
    entries: tuple[Entry, ...]
    spent: Usage = NO_USAGE
    """Sum over tries that brought no reply."""

    @property
    def usage(self) -> Usage:
        """All that the conversation has cost."""
        return sum((entry.usage for entry in self.entries if entry.usage), self.spent)


@dataclass(slots=True)
class Transcript:
    """An open transcript. Made by `create`, ended by `close`."""

    path: Path
    _descriptor: int
    usage: Usage = field(default_factory=Usage)
    """Sum over all replies and failed tries that were written."""

    @classmethod
    async def create(cls, path: Path) -> Transcript:
        """Start a transcript at `path`, folders included.

        A file that a lost try of the same attempt left there is kept as `NAME.lost-1.jsonl`,
        `.lost-2` and so on.
        """
        return cls(path, await _off_the_loop(_create, path))

    async def begin(self, request: Request, started: int = 0) -> None:
        """Write the header that belongs to the first `request` of the try that began there."""
        header = Header(
            task=request.task,
            attempt=request.attempt,
            started=started,
            model=request.model,
            tools=tuple(tool.name for tool in request.tools),
            system_digest=_prefix_digest(request),
        )
        await self._append([header])

    async def append(self, *entries: Entry) -> None:
        """Write messages; they are on disk when this returns."""
        await self._append(entries)
        for entry in entries:
            if entry.usage is not None:
                self.usage = self.usage + entry.usage

    async def spend(self, usage: Usage) -> None:
        """Write what a failed try has cost; it is on disk when this returns."""
        await self._append([Spent(usage=usage)])
        self.usage = self.usage + usage

    async def close(self) -> None:
        """Close the file; nothing can be appended any more."""
        await anyio.to_thread.run_sync(os.close, self._descriptor)

    async def _append(self, lines: Sequence[Header | Entry | Spent]) -> None:
        data = "".join(line.model_dump_json(exclude_none=True) + "\n" for line in lines).encode()
        await _off_the_loop(_append, self._descriptor, data)


async def _off_the_loop(work: object, *args: object) -> int:
    """Run `work` in a thread; a full disk and other failures become errors of ours."""
    try:
        return await anyio.to_thread.run_sync(work, *args)  # type: ignore[arg-type]
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(f"transcript: {error}; free some room, then resume") from error
        raise InfrastructureError(f"transcript: {error}") from error


def _create(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(_name_for_lost(path))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return descriptor


def _name_for_lost(path: Path) -> Path:
    for number in range(1, LOST_MAX + 1):
        name = path.with_name(f"{path.stem}.lost-{number}{path.suffix}")
        if not name.exists():
            return name
    raise InfrastructureError(f"{path}: {LOST_MAX} lost tries are kept here already; remove some")


def _append(descriptor: int, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)
    return len(data)


def _prefix_digest(request: Request) -> str:
    digest = sha256()
    for tool in request.tools:
        digest.update(tool.model_dump_json().encode() + b"\0")
    for text in request.system:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def read_transcript(path: Path) -> TranscriptContent:
    """The file's header and messages, up to a line that was cut off by a crash.

    Raises `OSError` where there is no such file.
    """
    header: Header | None = None
    entries: list[Entry] = []
    spent = Usage()
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            parsed = LINE.validate_json(line)
        except ValidationError:
            break
        match parsed:
            case Header():
                header = parsed
            case Entry():
                entries.append(parsed)
            case Spent():
                spent += parsed.usage
    return TranscriptContent(header, tuple(entries), spent)


def usage_of(path: Path, started: int) -> Usage:
    """What the try that began at event `started` has cost so far; nothing where nobody acted in it.

    A file of another try is that of a lost one, which was paid for then.
    """
    try:
        content = read_transcript(path)
    except OSError:
        return NO_USAGE
    if content.header is None or content.header.started != started:
        return NO_USAGE
    return content.usage
