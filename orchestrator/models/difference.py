"""Where a request that was never recorded differs from the one that was, for the person who asks.

    task `filter`, attempt 1, turn 2: message 3, block 1 (a tool result), line 4:
    recorded `1 failed`, now `2 failed`

One line, safe for a terminal. Pure; what counts as a difference is said in
`orchestrator.models.contents`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from orchestrator.core.wording import shown
from orchestrator.messages import Block, Message, Request, TextBlock, ToolResult, ToolSpec
from orchestrator.models.contents import comparable, in_any_order, turn_of
from orchestrator.models.noise import without_noise

T = TypeVar("T")

SHOWN_CHARS = 120
_BEFORE_CHARS = 40
"""How much of a long line is shown before the place where it differs."""

_NOUNS = {
    "text": "a text",
    "tool_use": "a tool call",
    "tool_result": "a tool result",
    "opaque": "a block kept as it came",
}


def difference(recorded: Request | None, now: Request) -> str:
    """Which request `now` is, and its first difference to `recorded`, the nearest there is."""
    where = f"task `{shown(now.task)}`, attempt {now.attempt}, turn {turn_of(now)}"
    if recorded is None:
        return f"{where}: nothing was recorded of this attempt"
    return f"{where}: {_first(recorded, now)}"


def _first(recorded: Request, now: Request) -> str:
    """The first difference, in the order in which a request is read."""
    if recorded.model != now.model:
        return "the model: " + _sides(recorded.model, now.model)
    for place, old_tool, new_tool in _differing(recorded.tools, now.tools):
        return f"tool {place}: " + _lines(_tool(old_tool), _tool(new_tool))
    for place, old_text, new_text in _differing(recorded.system, now.system):
        return f"system block {place}: " + _lines(old_text, new_text)
    pairs = zip(_messages(recorded), _messages(now), strict=False)
    for place, (old, new) in enumerate(pairs, start=1):
        if found := _in_message(old, new):
            return f"message {place}, {found}"
    turns = turn_of(recorded)
    if len(now.messages) > len(recorded.messages):
        return f"nothing was recorded after turn {turns}, of which all is the same"
    return f"the next request that was recorded is that of turn {turns}"


def _messages(request: Request) -> Iterator[Message]:
    """The messages as they are compared, but for noise."""
    for message, before in zip(request.messages, (None, *request.messages), strict=False):
        yield in_any_order(message, before)


def _differing(old: Sequence[T], new: Sequence[T]) -> Iterator[tuple[int, T | None, T | None]]:
    """Places, from 1, where two sequences differ; None stands for what one of them lacks."""
    for place, (mine, yours) in enumerate(zip_longest(old, new), start=1):
        if mine != yours:
            yield place, mine, yours


def _in_message(old: Message, new: Message) -> str | None:
    """The place in the message and what differs there; None where it is the same."""
    if old.role != new.role:
        return "its role: " + _sides(old.role, new.role)
    for place, mine, yours in _differing(old.blocks, new.blocks):
        if mine is None or yours is None:
            there, side = (mine, "recorded") if yours is None else (yours, "now")
            return f"block {place}: {_noun(there)} that is only there {side}"
        if comparable(mine, old.role) == comparable(yours, new.role):
            continue
        if mine.type != yours.type:
            return f"block {place}: " + _sides(_noun(mine), _noun(yours))
        return f"block {place} ({_noun(mine)}), " + _in_block(mine, yours)
    return None


def _in_block(old: Block, new: Block) -> str:
    if isinstance(old, ToolResult) and isinstance(new, ToolResult):
        if old.is_error != new.is_error:
            names = {True: "an error", False: "no error"}
            return _sides(names[old.is_error], names[new.is_error])
        if without_noise(old.content) != without_noise(new.content):
            return _lines(old.content, new.content)
    if isinstance(old, TextBlock) and isinstance(new, TextBlock) and old.text != new.text:
        return _lines(old.text, new.text)
    return _lines(_pretty(old.model_dump(mode="json")), _pretty(new.model_dump(mode="json")))


def _lines(old: str | None, new: str | None) -> str:
    """The first line that differs, on both sides."""
    if old is None or new is None:
        return _sides(old or "nothing", new or "nothing")
    for number, (mine, yours) in enumerate(zip_longest(old.split("\n"), new.split("\n")), start=1):
        if mine is None or yours is None:
            return f"line {number}: " + _sides(
                "no such line" if mine is None else mine, "no such line" if yours is None else yours
            )
        if without_noise(mine) != without_noise(yours):
            return f"line {number}: " + _sides(mine, yours)
    return _sides(old, new)


def _sides(old: str, new: str) -> str:
    """Both sides, long ones from shortly before the place where they part."""
    same = next(
        (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    start = max(same - _BEFORE_CHARS, 0)
    if max(len(old), len(new)) <= SHOWN_CHARS:
        start = 0
    return f"recorded `{_from(old, start)}`, now `{_from(new, start)}`"


def _from(text: str, start: int) -> str:
    return ("..." if start else "") + shown(text[start:], SHOWN_CHARS)


def _noun(block: Block | None) -> str:
    return _NOUNS[block.type] if block is not None else "nothing"


def _tool(tool: ToolSpec | None) -> str | None:
    return None if tool is None else _pretty(tool.model_dump(mode="json"))


def _pretty(value: object) -> str:
    """JSON with a line for each member."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
