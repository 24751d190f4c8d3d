"""What is recorded of a run's conversations: the file, and when two requests are the same.

The file is JSON lines, only ever appended to:

    {"type": "recording", "version": 1}
    {"type": "prefix", "digest": ..., "tools": [...], "system": [...]}      once each
    {"type": "exchange", "number": 1, "task": ..., "after": null, "messages": [...], "reply": ...}

A conversation's messages are written once: an exchange holds those that are new since the exchange
it comes `after`. An exchange that ended without an answer holds the error instead. A line that was
cut off by a crash is the last one and is not read; any other damage makes the whole file unusable.

Two requests are the same when model, tools, system and messages are, whoever asks. What tools and
commands said is compared without what changes from run to run (`orchestrator.models.noise`), and
lists of files by age in any order: which file of a checkout was written first is chance. No digest
of a request is stored, so these rules may get better without making recordings useless.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, TypeAdapter, ValidationError, model_validator

from orchestrator.core.base import Record
from orchestrator.core.usage import Usage
from orchestrator.core.wording import shown
from orchestrator.errors import UsageError
from orchestrator.messages import Block, Message, Reply, Request, TextBlock, ToolResult, ToolSpec
from orchestrator.models.noise import without_noise

VERSION = 1
BY_AGE = frozenset({"Glob"})
"""Tools whose results list files by age."""
LINE_BYTES_MAX = 64 * 1024 * 1024
FILE_BYTES_MAX = 1024 * 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class Recorded:
    """One exchange, put together again."""

    exchange: Exchange
    request: Request

    @property
    def conversation(self) -> tuple[str, int]:
        """Task and attempt."""
        return self.exchange.task, self.exchange.attempt


def prefix_of(request: Request) -> Prefix:
    """The request's prefix with its digest."""
    tools: list[JsonValue] = [tool.model_dump(mode="json") for tool in request.tools]
    digest = _digest([tools, list(request.system)])
    return Prefix(digest=digest, tools=request.tools, system=request.system)


def line_of(record: Line) -> bytes:
    """A record as a line of the file, in ASCII: a model may answer with halves of characters."""
    return json.dumps(record.model_dump(mode="json", exclude_none=True)).encode() + b"\n"


def turn_of(request: Request) -> int:
    """Which turn of its conversation a request asks for, from 1."""
    return 1 + sum(message.role == "assistant" for message in request.messages)


def in_any_order(message: Message, before: Message | None) -> Message:
    """`message` with the lines of lists by age sorted; `before` asked for what it gives."""
    names = {call.id: call.name for call in before.calls} if before is not None else {}
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolResult) and names.get(block.tool_use_id) in BY_AGE:
            lines = sorted(block.content.split("\n"))
            block = block.model_copy(update={"content": "\n".join(lines)})
        blocks.append(block)
    return Message(role=message.role, blocks=tuple(blocks))


def comparable(block: Block, role: str) -> JsonValue:
    """A block as it counts in comparisons: without noise where it is not the model's own."""
    value: dict[str, JsonValue] = block.model_dump(mode="json")
    if role == "user" and isinstance(block, TextBlock):
        value["text"] = without_noise(block.text)
    elif isinstance(block, ToolResult):
        value["content"] = without_noise(block.content)
    return value


@dataclass(slots=True)
class Keys:
    """Digests of requests by content. Remembers each conversation, to read nothing twice."""

    _latest: dict[tuple[str, int], tuple[Request, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, request: Request) -> tuple[str, ...]:
        """One digest for the prefix and one for each beginning of the messages.

        The last one is the key of the whole request; `max_tokens`, task and attempt are no part.
        """
        conversation = request.task, request.attempt
        known, chain = self._latest.get(conversation, (None, ()))
        if known is None or _prefix(known) != _prefix(request):
            chain = (_digest([request.model, prefix_of(request).digest]),)
        else:
            chain = chain[: 1 + _common(known.messages, request.messages)]
        digests = list(chain)
        for place in range(len(digests) - 1, len(request.messages)):
            before = request.messages[place - 1] if place else None
            message = in_any_order(request.messages[place], before)
            blocks = [comparable(block, message.role) for block in message.blocks]
            digests.append(_digest([digests[-1], message.role, blocks]))
        self._latest[conversation] = request, tuple(digests)
        return tuple(digests)


def _prefix(request: Request) -> tuple[str, tuple[ToolSpec, ...], tuple[str, ...]]:
    return request.model, request.tools, request.system


def _common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages are the same from the start."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count


def _digest(content: JsonValue) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_recording(path: Path) -> tuple[Recorded, ...]:
    """All exchanges of a file, in order. Raises `UsageError`, one line with the place."""
    reader = _Reader()
    for number, line in enumerate(_lines(path), start=1):
        try:
            reader.take(_parsed(line), number)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    if not reader.begun:
        raise UsageError(f"{path}: is empty, so there is nothing to replay; record a run first")
    return tuple(reader.recorded.values())


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(f"{path}: is larger than {FILE_BYTES_MAX:,} bytes, so no recording")
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

    def take(self, line: Line, number: int) -> None:
        """Take the next line. Raises `ValueError`."""
        if isinstance(line, Head) != (number == 1):
            raise ValueError("a recording has its head in the first line, and only there")
        if isinstance(line, Head):
            if line.version != VERSION:
                raise ValueError(f"has version {line.version}, this program reads {VERSION}")
            self.begun = True
        elif isinstance(line, Prefix):
            self._prefixes[line.digest] = line
        else:
            self._exchange(line)

    def _exchange(self, line: Exchange) -> None:
        prefix = self._prefixes.get(line.prefix)
        if prefix is None:
            raise ValueError("the prefix of this exchange is missing")
        if line.number != len(self.recorded) + 1:
            raise ValueError(f"exchange {line.number} is out of order")
        request = Request(
            task=line.task,
            attempt=line.attempt,
            model=line.model,
            max_tokens=1,
            tools=prefix.tools,
            system=prefix.system,
            messages=(*self._earlier(line), *line.messages),
        )
        self.recorded[line.number] = Recorded(line, request)

    def _earlier(self, line: Exchange) -> tuple[Message, ...]:
        """The messages that the exchange goes on from."""
        if line.after is None:
            return ()
        earlier = self.recorded.get(line.after)
        if earlier is None:
            raise ValueError("goes on from an exchange that is missing")
        if not line.replied:
            return earlier.request.messages
        if earlier.exchange.reply is None:
            raise ValueError("goes on from an exchange without a reply")
        return (*earlier.request.messages, earlier.exchange.reply.message)
