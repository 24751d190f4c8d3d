"""Where a request's cache marks stand: one pure function, four marks at most.

Providers cache a prompt up to each mark (`cache_control`) and find what an earlier request cached
at the same place, or up to about 20 blocks before it. So marks stand

- on the last block of the system prompt, which all agents of a role share;
- on the last block of the last two user messages: the newer one is written, the older one is where
  the request before this one wrote;
- where the newest user message is long (the results of many parallel calls), on a block about 15
  before its end, so that the next request finds one within the look-back.

A request without its marks is a prefix of the next one; marks are the only thing that moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

STRIDE = 15
"""Blocks between the two marks of a long message, well within the look-back of about 20."""
MARKED_MESSAGES = 2

WireBlock = dict[str, JsonValue]
WireMessage = dict[str, JsonValue]

_MARK: dict[str, JsonValue] = {"type": "ephemeral"}


def with_marks(
    system: Sequence[WireBlock], messages: Sequence[WireMessage]
) -> tuple[list[WireBlock], list[WireMessage]]:
    """Copies of both with marks set; what is not marked is shared with the originals.

    `messages` have a `role` and a list of blocks as `content`, as they are sent.
    """
    marked_system = _marked(system, {len(system) - 1} if system else set())
    marked_messages = list(messages)
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for age, index in enumerate(reversed(users[-MARKED_MESSAGES:])):
        blocks = _blocks(messages[index])
        places = _last(blocks, len(blocks) - 1)
        if age == 0 and len(blocks) > STRIDE:
            places |= _last(blocks, len(blocks) - 1 - STRIDE)
        content: list[JsonValue] = [*_marked(blocks, places)]
        marked_messages[index] = {**messages[index], "content": content}
    return marked_system, marked_messages


def _last(blocks: Sequence[WireBlock], place: int) -> set[int]:
    """The last block up to `place` that may carry a mark."""
    while place >= 0 and not _can_be_marked(blocks[place]):
        place -= 1
    return {place} if place >= 0 else set()


def _can_be_marked(block: WireBlock) -> bool:
    """Texts and results may; thoughts, empty texts and kinds that nobody knows may not."""
    if block.get("type") == "text":
        return bool(block.get("text"))
    return block.get("type") == "tool_result"


def _marked(blocks: Sequence[WireBlock], places: set[int]) -> list[WireBlock]:
    return [
        {**block, "cache_control": dict(_MARK)} if place in places else block
        for place, block in enumerate(blocks)
    ]


def _blocks(message: WireMessage) -> list[WireBlock]:
    content = message["content"]
    if not isinstance(content, list):
        raise TypeError("a message's content is a list of blocks")
    return [block for block in content if isinstance(block, dict)]
