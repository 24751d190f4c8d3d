"""When two requests are the same, told by digests of what they say.

They are when model, tools, system and messages are, whoever asks. What tools and commands said is
compared without what changes from run to run (`orchestrator.models.noise`), and lists of files by
age in any order: which file of a checkout was written first is chance.

Messages are digested as a chain, each with all before it, so a conversation that grows costs what
is new in it. Pure but for what is remembered of the newest conversations.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar

from pydantic import JsonValue

from orchestrator.messages import Block, Message, Request, TextBlock, ToolResult, ToolSpec
from orchestrator.models.noise import without_noise

BY_AGE = frozenset({"Glob"})
"""Tools whose results list files by age."""
CONVERSATIONS_MAX = 256
"""Conversations that are remembered at a time: as many as there can be agents at work."""

T = TypeVar("T")

Conversation = tuple[str, int]
"""Task and attempt."""
Key = tuple[str, str]
"""Digests of what stands before the messages, and of all of them."""


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


class Latest(Generic[T]):
    """The newest of each conversation; those that nobody has gone on with for longest are gone."""

    def __init__(self) -> None:
        self._items: OrderedDict[Conversation, T] = OrderedDict()

    def get(self, conversation: Conversation) -> T | None:
        """What was put last; None where it is gone, or never was."""
        return self._items.get(conversation)

    def put(self, conversation: Conversation, item: T) -> None:
        """Remember `item`."""
        self._items[conversation] = item
        self._items.move_to_end(conversation)
        if len(self._items) > CONVERSATIONS_MAX:
            self._items.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Content:
    """Digests of what a request says; `max_tokens`, task and attempt are no part of it."""

    head: str
    """Of model, tools and system."""
    beginnings: tuple[str, ...]
    """Of the first message, of the first two, and so on to all of them."""

    @property
    def key(self) -> Key:
        """What two requests have in common when they are the same."""
        return self.head, self.beginnings[-1] if self.beginnings else ""


class Contents:
    """Makes contents of requests. Remembers each conversation, to read nothing twice."""

    def __init__(self) -> None:
        self._latest: Latest[tuple[Request, Content]] = Latest()

    def of(self, request: Request) -> Content:
        """The content of a request."""
        conversation = request.task, request.attempt
        head: str | None = None
        same: tuple[str, ...] = ()
        latest = self._latest.get(conversation)
        if latest is not None:
            known, content = latest
            head = content.head if _head(known) == _head(request) else None
            same = content.beginnings[: _common(known.messages, request.messages)]
        added = request.messages[len(same) :]
        before = request.messages[len(same) - 1] if same else None
        content = Content(
            head or head_of(request.model, prefix_digest(request.tools, request.system)),
            (*same, *beginnings(added, same[-1] if same else "", before)),
        )
        self._latest.put(conversation, (request, content))
        return content


def prefix_digest(tools: Sequence[ToolSpec], system: Sequence[str]) -> str:
    """The digest of what conversations of a role have in common."""
    said: list[JsonValue] = [tool.model_dump(mode="json") for tool in tools]
    return _digest([said, list(system)])


def head_of(model: str, prefix: str) -> str:
    """The digest of what stands before the messages, given that of the prefix."""
    return _digest([model, prefix])


def beginnings(
    messages: Sequence[Message], digest: str = "", before: Message | None = None
) -> Iterator[str]:
    """The digest up to each of the messages, after those with `digest`, which end with `before`."""
    for message in messages:
        ordered = in_any_order(message, before)
        blocks = [comparable(block, message.role) for block in ordered.blocks]
        digest, before = _digest([digest, message.role, blocks]), message
        yield digest


def _head(request: Request) -> tuple[str, tuple[ToolSpec, ...], tuple[str, ...]]:
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
