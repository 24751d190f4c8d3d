"""What a request must fulfil before it is sent: an own fault found here costs nothing.

Providers refuse a conversation for ever once a tool call in it lacks its result, a result stands
out of order, or a text is empty. `check_request` finds these before they are sent; `well_formed`
mends what a model can bring in (halves of surrogate pairs, blank texts, ids twice).
"""

from __future__ import annotations

from pydantic import JsonValue

from orchestrator.messages import (
    Block,
    Message,
    OpaqueBlock,
    Request,
    TextBlock,
    ToolResult,
    ToolUse,
)

NOTHING_SAID = "(no answer)"
"""Stands for a reply without any content, which no provider takes back."""


class BrokenConversation(Exception):
    """A request that no provider would accept: a bug of this program."""


def check_request(request: Request, previous: Request | None = None) -> None:
    """Raise `BrokenConversation` unless `request` is acceptable and continues `previous`."""
    _check_prefix(request, previous)
    messages = request.messages
    if not messages or messages[0].role != "user":
        raise BrokenConversation("a conversation starts with a user message")
    for index, message in enumerate(messages):
        before = messages[index - 1] if index else None
        _check_message(message, index)
        _check_turn(message, before, index)
    if messages[-1].calls:
        raise BrokenConversation("the last message asks for tools that have no result")


def _check_prefix(request: Request, previous: Request | None) -> None:
    names = [tool.name for tool in request.tools]
    if names != sorted(set(names)):
        raise BrokenConversation(f"tools are not sorted, or named twice: {names}")
    for text in request.system:
        _check_text(text, "the system prompt")
    if previous is None:
        return
    if (request.tools, request.system) != (previous.tools, previous.system):
        raise BrokenConversation("tools or system differ from the previous request's")
    if request.messages[: len(previous.messages)] != previous.messages:
        raise BrokenConversation("the previous request's messages are no prefix of this one's")


def _check_message(message: Message, index: int) -> None:
    """Blocks that belong to the message's side, none of them empty."""
    if not message.blocks:
        raise BrokenConversation(f"message {index} is empty")
    for block in message.blocks:
        expected = "user" if isinstance(block, ToolResult) else "assistant"
        if not isinstance(block, TextBlock) and message.role != expected:
            raise BrokenConversation(f"message {index}: a {message.role} sends {block.type}")
        if isinstance(block, TextBlock):
            _check_text(block.text, f"message {index}")
        elif isinstance(block, ToolResult):
            _check_text(block.content, f"message {index}")
        elif isinstance(block, ToolUse) and well_formed(block.input) != block.input:
            raise BrokenConversation(f"message {index}: arguments are not well-formed Unicode")


def _check_turn(message: Message, before: Message | None, index: int) -> None:
    """Sides take turns, and every call is answered at once, in order, before anything else."""
    wanted = [call.id for call in before.calls] if before is not None else []
    if before is not None and before.role == message.role and (message.role == "user" or wanted):
        raise BrokenConversation(f"message {index}: two {message.role} messages in a row")
    if len(set(wanted)) != len(wanted) or "" in wanted:
        raise BrokenConversation(f"message {index - 1}: ids of tool calls are empty or come twice")
    is_result = [isinstance(block, ToolResult) for block in message.blocks]
    given = [block.tool_use_id for block in message.blocks if isinstance(block, ToolResult)]
    if given != wanted:
        raise BrokenConversation(f"message {index}: results for {given}, calls were {wanted}")
    if any(is_result[len(given) :]):
        raise BrokenConversation(f"message {index}: results do not stand first")


def _check_text(text: str, where: str) -> None:
    if not text.strip():
        raise BrokenConversation(f"{where}: an empty text")


def storable(message: Message, *, taken: set[str]) -> Message:
    """A model's message as it can be sent back.

    Blank texts go, halves of surrogate pairs become U+FFFD (no provider can be sent them), ids of
    calls that are empty or among `taken` (which grows) get a suffix. Everything else stays as it
    came.
    """
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            if block.text.strip():
                blocks.append(block)
        elif isinstance(block, ToolUse):
            blocks.append(
                ToolUse(
                    id=_free_id(block.id, taken),
                    name=block.name,
                    input=well_formed(block.input),
                    extra=well_formed(block.extra),
                )
            )
        elif isinstance(block, OpaqueBlock):
            blocks.append(OpaqueBlock(raw=well_formed(block.raw)))
    return Message(role="assistant", blocks=tuple(blocks) or (TextBlock(text=NOTHING_SAID),))


def _free_id(wanted: str, taken: set[str]) -> str:
    name = stem = wanted or "call"
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name


def well_formed(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """`value` with every half of a surrogate pair replaced by U+FFFD, keys included."""
    return {_text(key): _mended(item) for key, item in value.items()}


def _mended(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return well_formed(value) if isinstance(value, dict) else value


def _text(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
