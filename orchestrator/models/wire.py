"""Between this program's messages and the JSON of the Messages API. Pure.

What came from a provider goes back to it byte for byte: thoughts are bound to their conversation by
a signature, and kinds of block that are not known yet mean something to whoever sent them. What is
never sent: which task and attempt a conversation belongs to, a forced choice of tool, sampling
parameters (newer models refuse both).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Literal, get_args

from anthropic import transform_schema
from pydantic import JsonValue

from orchestrator.messages import (
    Block,
    Message,
    OpaqueBlock,
    Request,
    TextBlock,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from orchestrator.models.cache_marks import WireBlock, WireMessage, with_marks

Feature = Literal["strict", "cache_control", "thinking"]
"""What a request can do without, where a server does not know it.

`strict`         arguments of Submit tools that cannot leave their schema
`cache_control`  marks for the prompt cache
`thinking`       summaries of thoughts, which newer models would leave empty
"""
FEATURES: frozenset[Feature] = frozenset(get_args(Feature))

SUBMIT_PREFIX = "Submit"
NOTHING_SAID = "(no answer)"
"""Stands for a reply that has nothing left to send back."""
STRICT_OPTIONAL_MAX = 24
"""Properties of strict schemas that may be left out, as the API's limits say."""
STRICT_UNIONS_MAX = 16
"""Properties of strict schemas that have several types."""

_THINKS = re.compile(r"\bclaude-(?:opus|sonnet|fable)-5(?![0-9])")
"""Models whose thoughts come without text unless it is asked for."""
_THOUGHTS = ("thinking", "redacted_thinking")


def body_of(
    request: Request,
    *,
    features: Collection[Feature] = FEATURES,
    refused: Collection[str] = (),
) -> dict[str, JsonValue]:
    """The body of a streamed request.

    `refused`: digests of thoughts that the server would not have back; they are left out.
    """
    system: list[WireBlock] = [{"type": "text", "text": text} for text in request.system]
    messages = [_message(message, refused) for message in request.messages]
    if "cache_control" in features:
        system, messages = with_marks(system, messages)
    body: dict[str, JsonValue] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [*messages],
        "stream": True,
    }
    if system:
        body["system"] = [*system]
    if request.tools:
        body["tools"] = [_tool(tool, strict="strict" in features) for tool in request.tools]
    if "thinking" in features and _THINKS.search(request.model):
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    return body


def _message(message: Message, refused: Collection[str]) -> WireMessage:
    content: list[JsonValue] = [
        _wire_block(block)
        for block in message.blocks
        if not (refused and isinstance(block, OpaqueBlock) and digest_of(block) in refused)
    ]
    if not content:
        content = [{"type": "text", "text": NOTHING_SAID}]
    return {"role": message.role, "content": content}


def _wire_block(block: Block) -> WireBlock:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text, **block.extra}
        case ToolUse():
            named: WireBlock = {"type": "tool_use", "id": block.id, "name": block.name}
            return {**named, "input": block.input, **block.extra}
        case ToolResult():
            result: WireBlock = {"type": "tool_result", "tool_use_id": block.tool_use_id}
            failed: WireBlock = {"is_error": True} if block.is_error else {}
            return {**result, "content": block.content, **failed}
        case OpaqueBlock():
            return block.raw


def _tool(tool: ToolSpec, *, strict: bool) -> dict[str, JsonValue]:
    described: dict[str, JsonValue] = {"name": tool.name, "description": tool.description}
    if strict and tool.name.startswith(SUBMIT_PREFIX):
        schema = strict_schema(tool.input_schema)
        if schema is not None:
            return {**described, "input_schema": schema, "strict": True}
    return {**described, "input_schema": tool.input_schema}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """`schema` as strict tools may have it, or None where it cannot be said that way.

    Every object must name all its properties: a free-form mapping cannot be strict. Limits on
    lengths, numbers and patterns become words in the descriptions; they are checked when the
    product is parsed, as they always are.
    """
    nodes = list(_nodes(schema))
    if not all(_is_closed(node) for node in nodes):
        return None
    optional = sum(
        len(set(node.get("properties", ())) - set(node.get("required", ()))) for node in nodes
    )
    unions = sum("anyOf" in node or "oneOf" in node for node in nodes)
    if optional > STRICT_OPTIONAL_MAX or unions > STRICT_UNIONS_MAX:
        return None
    try:
        return transform_schema(schema)
    except ValueError:  # a node without a type
        return None


def _nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """`schema` and every schema within it."""
    inner = [
        *schema.get("$defs", {}).values(),
        *schema.get("properties", {}).values(),
        *(node for key in ("anyOf", "oneOf", "allOf") for node in schema.get(key, ())),
        *([schema["items"]] if "items" in schema else []),
    ]
    return [schema, *(node for part in inner if isinstance(part, dict) for node in _nodes(part))]


def _is_closed(schema: dict[str, Any]) -> bool:
    if not isinstance(schema.get("type", ""), str) or "patternProperties" in schema:
        return False
    if schema.get("type") != "object":
        return True
    return bool(schema.get("properties")) and schema.get("additionalProperties") is False


def block_of(raw: dict[str, JsonValue]) -> Block | None:
    """A whole block of a reply. None for a blank text: it says nothing, and none is taken back.

    Raises `ValueError` for a text or a call that lacks what makes it one.
    """
    kind = raw.get("type")
    if kind == "text":
        text = _string(raw, "text")
        return TextBlock(text=text, extra=_extra(raw, "text")) if text.strip() else None
    if kind == "tool_use":
        arguments = raw.get("input")
        if not isinstance(arguments, dict):
            raise ValueError("the arguments of a call are no object")
        return ToolUse(
            id=_string(raw, "id"),
            name=_string(raw, "name"),
            input=arguments,
            extra=_extra(raw, "id", "name", "input"),
        )
    return OpaqueBlock(raw=raw)


def _string(raw: dict[str, JsonValue], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        raise ValueError(f"a block of type {raw.get('type')} has no {key}")
    return value


def _extra(raw: dict[str, JsonValue], *known: str) -> dict[str, JsonValue]:
    """What else is in a block. Marks are ours to set: one that came in would be one too many."""
    left_out = {"type", "cache_control", *known}
    return {key: value for key, value in raw.items() if key not in left_out and value is not None}


def thoughts_of(request: Request) -> frozenset[str]:
    """Digests of all thoughts in the conversation."""
    return frozenset(
        digest_of(block)
        for message in request.messages
        for block in message.blocks
        if isinstance(block, OpaqueBlock) and block.raw.get("type") in _THOUGHTS
    )


def digest_of(block: OpaqueBlock) -> str:
    """What tells a block from others."""
    return sha256(json.dumps(block.raw, sort_keys=True).encode()).hexdigest()
