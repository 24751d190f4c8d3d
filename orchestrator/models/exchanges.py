"""What is recorded of a run's conversations: the file and what stands in it.

The file is JSON lines, only ever appended to:

    {"type": "recording", "version": 1}
    {"type": "prefix", "digest": ..., "tools": [...], "system": [...]}      once each
    {"type": "exchange", "number": 1, "task": ..., "after": null, "messages": [...], "reply": ...}

A conversation's messages are written once: an exchange holds those that are new since the exchange
it comes `after`. An exchange that ended without an answer holds the error instead. A line that was
cut off by a crash is the last one and is not read; any other damage makes the whole file unusable.

No digest of a request is stored, so the rules for when two of them are the same
(`orchestrator.models.contents`) may get better without making recordings useless.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from orchestrator.core.base import Record
from orchestrator.core.usage import Usage
from orchestrator.core.wording import shown
from orchestrator.errors import UsageError
from orchestrator.messages import Message, Reply, Request, ToolSpec
from orchestrator.models.contents import Conversation, prefix_digest

VERSION = 1
NOTHING = "is empty, so there is nothing to replay; record a run first"
LINE_BYTES_MAX = 64 * 1024 * 1024
FILE_BYTES_MAX = 256 * 1024 * 1024
"""Largest file that is read; what is in it takes several times that in memory."""


class Head(Record):
    """The first line."""

    type: Literal["recording"] = "recording"
    version: int = VERSION


class Prefix(Record):
    """What conversations have in common."""

    type: Literal["prefix"] = "prefix"
    digest: str
    tools: tuple[ToolSpec, ...]
    system: tuple[str, ...]


class Failure(Record):
    """Why there was no answer."""

    reason: str
    message: str
    usage: Usage = Usage()


class Exchange(Record):
    """A request, as what it adds to an earlier one, and what came of it."""

    type: Literal["exchange"] = "exchange"
    number: int = Field(ge=1)
    """Exchanges count from 1 in the order of their answers."""
    task: str
    attempt: int
    model: str
    prefix: str
    """Digest of its prefix."""
    after: int | None = None
    """The exchange whose messages come first; None where all of them are here."""
    replied: bool = True
    """Whether the reply of that exchange comes next, as it came."""
    messages: tuple[Message, ...]
    reply: Reply | None = None
    error: Failure | None = None

    @model_validator(mode="after")
    def _has_one_end(self) -> Self:
        if (self.reply is None) == (self.error is None):
            raise ValueError("an exchange has either a reply or an error")
        return self


Line = Head | Prefix | Exchange
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One exchange, and the one that it goes on from.

    Requests are put together only where they are wanted: those of a long conversation, all in full,
    would take room by the square of its length.
    """

    exchange: Exchange
    prefix: Prefix
    earlier: Recorded | None = field(repr=False)

    @property
    def added(self) -> tuple[Message, ...]:
        """The messages that its request has beyond those of the earlier one."""
        before = self.earlier.exchange.reply if self.earlier is not None else None
        if before is None or not self.exchange.replied:
            return self.exchange.messages
        return (before.message, *self.exchange.messages)

    @property
    def request(self) -> Request:
        """The whole request."""
        parts, item = [self.added], self.earlier
        while item is not None:
            parts.append(item.added)
            item = item.earlier
        return Request(
            task=self.exchange.task,
            attempt=self.exchange.attempt,
            model=self.exchange.model,
            max_tokens=1,
            tools=self.prefix.tools,
            system=self.prefix.system,
            messages=tuple(chain.from_iterable(reversed(parts))),
        )

    @property
    def conversation(self) -> Conversation:
        """Task and attempt."""
        return self.exchange.task, self.exchange.attempt


def prefix_of(request: Request) -> Prefix:
    """The request's prefix with its digest."""
    digest = prefix_digest(request.tools, request.system)
    return Prefix(digest=digest, tools=request.tools, system=request.system)


def line_of(record: Line) -> bytes:
    """A record as a line of the file, in ASCII: a model may answer with halves of characters."""
    return json.dumps(record.model_dump(mode="json", exclude_none=True)).encode() + b"\n"


def read_recording(path: Path) -> tuple[Recorded, ...]:
    """All exchanges of a file, in order. Raises `UsageError`, one line with the place."""
    reader = _Reader()
    for number, line in enumerate(_lines(path), start=1):
        try:
            reader.take(_parsed(line), number)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    if not reader.begun:
        raise UsageError(f"{path}: {NOTHING}")
    return tuple(reader.recorded.values())


def check_recording(path: Path) -> None:
    """Raise `UsageError` where a file is no recording, as far as its first line says."""
    line = next(_lines(path), None)
    if line is None:
        raise UsageError(f"{path}: {NOTHING}")
    try:
        _Reader().take(_parsed(line), 1)
    except ValueError as error:
        raise UsageError(f"{path}:1: {error}") from None


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file."""
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise UsageError(f"{path}: is no regular file; name a file that --record made")
        if status.st_size > FILE_BYTES_MAX:
            most = FILE_BYTES_MAX // 1024**2
            raise UsageError(f"{path}: is larger than {most} MiB, more than can be replayed")
        with path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX):
                if line.endswith(b"\n"):
                    yield line
                elif len(line) == LINE_BYTES_MAX:
                    raise UsageError(f"{path}: a line is longer than {LINE_BYTES_MAX:,} bytes")
    except OSError as error:
        why = error.strerror or "cannot be read"
        raise UsageError(f"{path}: {why}; name a file that --record made") from None


def _parsed(line: bytes) -> Line:
    """A line's record; `ValueError` says in short what is wrong with it."""
    try:
        return _LINE.validate_python(json.loads(line))
    except RecursionError:
        raise ValueError("is no line of a recording (nested too deeply)") from None
    except UnicodeDecodeError:
        raise ValueError("is no line of a recording (no UTF-8)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is no line of a recording ({error.msg})") from None
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, detail["loc"]))
        what = shown(f"{place}: {detail['msg']}" if place else detail["msg"])
        raise ValueError(f"is no line of a recording ({what})") from None


@dataclass(slots=True)
class _Reader:
    """Puts exchanges together from their lines."""

    recorded: dict[int, Recorded] = field(default_factory=dict)
    begun: bool = False
    _prefixes: dict[str, Prefix] = field(default_factory=dict)
    """By the digest that the file gives them; their own is made anew."""

    def take(self, line: Line, number: int) -> None:
        """Take the next line. Raises `ValueError`."""
        if isinstance(line, Head) != (number == 1):
            raise ValueError("a recording has its head in the first line, and only there")
        if isinstance(line, Head):
            if line.version != VERSION:
                raise ValueError(f"has version {line.version}, this program reads {VERSION}")
            self.begun = True
        elif isinstance(line, Prefix):
            digest = prefix_digest(line.tools, line.system)
            self._prefixes[line.digest] = line.model_copy(update={"digest": digest})
        else:
            self._exchange(line)

    def _exchange(self, line: Exchange) -> None:
        prefix = self._prefixes.get(line.prefix)
        if prefix is None:
            raise ValueError("the prefix of this exchange is missing")
        if line.number != len(self.recorded) + 1:
            raise ValueError(f"exchange {line.number} is out of order")
        self.recorded[line.number] = Recorded(line, prefix, self._earlier(line))

    def _earlier(self, line: Exchange) -> Recorded | None:
        """What the exchange goes on from."""
        if line.after is None:
            return None
        earlier = self.recorded.get(line.after)
        if earlier is None:
            raise ValueError("goes on from an exchange that is missing")
        if earlier.conversation != (line.task, line.attempt):
            raise ValueError("goes on from an exchange of another attempt")
        if line.replied and earlier.exchange.reply is None:
            raise ValueError("goes on from an exchange without a reply")
        return earlier
