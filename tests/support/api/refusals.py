"""What the Messages API refuses, with the words that clients of it have seen.

`check` looks at one request by itself; `Memory.check` compares it with what the server said in the
same conversation before: thoughts and blocks of kinds that a client cannot know must come back
exactly as they were sent. Both raise `Refused`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.api.cache import marks_of
from tests.support.api.conversation import Conversation, Raw, Turn, blocks_of, signature

PARAMETERS = frozenset(
    [
        "max_tokens",
        "messages",
        "model",
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    ]
)
MARKS_MAX = 4
NO_FORCED_TOOLS = ("claude-opus-5-5", "claude-fable-5-1", "claude-sonnet-5-5")
"""Models that do not let a client choose the tool, nor go on from a reply that it begins."""

_USER_BLOCKS = frozenset(["text", "image", "document", "tool_result", "search_result"])
_ASSISTANT_BLOCKS = frozenset(["text", "tool_use", "thinking", "redacted_thinking"])
_STRICT_CANNOT = {
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "minLength": "string",
    "maxLength": "string",
    "maxItems": "array",
    "uniqueItems": "array",
}
"""Keywords that no strict schema may have, and the type that they belong to."""


class Refused(Exception):
    """The request gets an error in place of an answer."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error"):
        self.status = status
        self.kind = kind
        super().__init__(message)


def check(body: Raw) -> None:
    """Refuse a request that the API would refuse whatever was said before."""
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise Refused(f"{name}: Field required")
    for name in body:
        if name in ("temperature", "top_p", "top_k"):
            raise Refused(f"`{name}` is not supported by this model.")
        if name not in PARAMETERS:
            raise Refused(f"{name}: Extra inputs are not permitted")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 0:
        raise Refused("max_tokens: Input should be greater than or equal to 0")
    _check_tools(body)
    _check_marks(body)
    messages = _merged(body["messages"])
    if not messages:
        raise Refused("messages: at least one message is required")
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    for index, message in enumerate(messages):
        for place, block in enumerate(message["content"]):
            _check_block(block, message["role"], f"messages.{index}.content.{place}")
        if not message["content"] and index < len(messages) - 1:
            raise Refused(f"messages.{index}: all messages must have non-empty content")
    _check_pairs(messages)


def _merged(messages: list[Raw]) -> list[Raw]:
    """Messages with those of one role that stand side by side put together, as the API does."""
    merged: list[Raw] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise Refused(f"messages.{index}.role: Input should be 'user' or 'assistant'")
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks_of(message)
        else:
            merged.append({"role": role, "content": blocks_of(message)})
    return merged


def _check_block(block: Raw, role: str, where: str) -> None:
    kind = block.get("type")
    if kind == "text" and not block.get("text"):
        raise Refused("messages: text content blocks must be non-empty")
    if kind == "text" and not block["text"].strip():
        raise Refused("messages: text content blocks must contain non-whitespace text")
    if kind == "thinking" and not {"thinking", "signature"} <= block.keys():
        raise Refused(f"{where}.thinking.signature: Field required")
    if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        raise Refused(f"{where}.{kind}.cache_control: Extra inputs are not permitted")
    if kind == "tool_use" and not isinstance(block.get("input"), dict):
        raise Refused(f"{where}.tool_use.input: Input should be a valid dictionary")
    if role == "user" and kind not in _USER_BLOCKS:
        raise Refused(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the"
            " expected tags"
        )


def _check_pairs(messages: list[Raw]) -> None:
    """Every call has its result at the head of the next message, and no result lacks a call."""
    seen: set[str] = set()
    asked: list[str] = []
    for index, message in enumerate(messages):
        results = [block for block in message["content"] if block["type"] == "tool_result"]
        for place, block in enumerate(message["content"]):
            if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
                raise Refused(
                    f"messages.{index}.content.{place}: unexpected `tool_use_id` found in"
                    f" `tool_result` blocks: {block['tool_use_id']}. Each `tool_result` block must"
                    " have a corresponding `tool_use` block in the previous message."
                )
        given = [result["tool_use_id"] for result in results]
        if len(given) != len(set(given)):
            raise Refused(f"messages.{index}: each tool_use must have a single result")
        first = message["content"][: len(results)]
        missing = [id_ for id_ in asked if id_ not in given]
        if missing or any(block["type"] != "tool_result" for block in first):
            raise Refused(
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after: {', '.join(missing or asked)}. Each `tool_use` block must"
                " have a corresponding `tool_result` block in the next message."
            )
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if len(asked) != len(set(asked)) or seen & set(asked):
            raise Refused(f"messages.{index}: `tool_use` ids must be unique")
        seen |= set(asked)
    if asked:
        raise Refused(
            f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks"
            f" immediately after: {', '.join(asked)}."
        )


def _check_marks(body: Raw) -> None:
    marks = marks_of(body)
    if len(marks) > MARKS_MAX:
        raise Refused(
            f"A maximum of {MARKS_MAX} blocks with cache_control may be provided."
            f" Found {len(marks)}."
        )
    lives = [mark.get("ttl", "5m") for mark in marks]
    if set(lives) - {"5m", "1h"}:
        raise Refused("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
        raise Refused(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )
    system = body.get("system")
    for block in system if isinstance(system, list) else ():
        if not block.get("text"):
            raise Refused("system: text content blocks must be non-empty")


def _check_tools(body: Raw) -> None:
    tools = body.get("tools") or []
    names = [tool.get("name") for tool in tools]
    if len(names) != len(set(names)):
        raise Refused("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if tool.get("input_schema", {}).get("type") != "object":
            raise Refused(f"tools.{index}.custom.input_schema.type: Field required")
        if tool.get("strict"):
            for problem in not_strict(tool["input_schema"]):
                raise Refused(f"tools.{index}.custom: {problem}")
    choice = (body.get("tool_choice") or {}).get("type", "auto")
    if choice in ("any", "tool") and is_one_of(body["model"], NO_FORCED_TOOLS):
        raise Refused("tool_choice: forcing a tool is not supported by this model")


def is_one_of(model: str, names: tuple[str, ...]) -> bool:
    """Whether a model is one of those named, dated snapshots included."""
    return any(model == name or model.startswith(f"{name}-20") for name in names)


def not_strict(schema: object) -> Iterator[str]:
    """What in a schema cannot be held to strictly."""
    if isinstance(schema, list):
        for item in schema:
            yield from not_strict(item)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
    for key, kind in _STRICT_CANNOT.items():
        if key in schema and not isinstance(schema[key], dict):
            yield f"For '{kind}' type, property '{key}' is not supported"
    for key, value in schema.items():
        if key == "properties" or key == "$defs":
            for inner in value.values():
                yield from not_strict(inner)
        elif key not in ("enum", "const", "default", "examples"):
            yield from not_strict(value)


# --- what was said before ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    model: str
    blocks: tuple[Raw, ...]
    paused: bool


@dataclass(slots=True)
class Memory:
    """The replies that left this server, by conversation.

    Where a signature was refused, a reply may from then on come back without any of its thoughts:
    what else could a client do.
    """

    _said: dict[str, list[_Said]] = field(default_factory=dict)
    _unsigned: set[str] = field(default_factory=set)
    """Conversations in which a signature was refused."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, conversation: Conversation, turn: Turn) -> None:
        """Remember a reply that is about to be sent."""
        said = _Said(conversation.model, turn.blocks, turn.ends_with == "pause_turn")
        with self._lock:
            self._said.setdefault(conversation.digest, []).append(said)

    def check(self, conversation: Conversation) -> None:
        """Refuse a request that does not give the replies back as they were."""
        with self._lock:
            said = list(self._said.get(conversation.digest, ()))
        for index, message in enumerate(conversation.messages):
            if message["role"] == "assistant":
                self._check_reply(conversation, f"messages.{index}", blocks_of(message), said)
        if conversation.messages[-1]["role"] == "assistant":
            last = [_bare(block) for block in blocks_of(conversation.messages[-1])]
            if not any(one.paused and list(one.blocks) == last for one in said):
                raise Refused(
                    "This model does not support assistant message prefill."
                    " The conversation must end with a user message."
                )

    def _check_reply(
        self, conversation: Conversation, where: str, blocks: list[Raw], said: list[_Said]
    ) -> None:
        bare = [_bare(block) for block in blocks]
        for place, block in enumerate(bare):
            if not _is_signed(conversation.model, block):
                self._unsigned.add(conversation.digest)
                raise Refused(f"{where}.content.{place}: Invalid `signature` in `thinking` block")
        origin = next((one for one in reversed(said) if _same_calls(one, bare)), None)
        kept = [_text(block) for block in bare if block["type"] not in ("text", "tool_use")]
        if origin is None:
            known = [_text(block) for one in said for block in one.blocks]
            strange = [block for block in bare if block["type"] not in _ASSISTANT_BLOCKS]
            for block in strange:
                if _text(block) not in known:
                    raise Refused(
                        f"{where}: Input tag '{block['type']}' found using 'type' does not match"
                        " any of the expected tags"
                    )
            return
        sent = [
            _text(block) for block in origin.blocks if block["type"] not in ("text", "tool_use")
        ]
        bound = origin.model == conversation.model and conversation.digest not in self._unsigned
        if kept != sent and (kept or bound):
            raise Refused(
                f"{where}.content: `thinking` or `redacted_thinking` blocks cannot be modified."
                " These blocks must remain as they were in the original response."
            )


def _is_signed(model: str, block: Raw) -> bool:
    """Whether a block is no thought, or one of this model's."""
    if block["type"] != "thinking":
        return True
    return bool(block["signature"] == signature(model, block["thinking"]))


def _same_calls(said: _Said, blocks: list[Raw]) -> bool:
    """Whether a message of the client is the reply `said`: by its calls, else by its text."""
    return bool(said.blocks) and _essence(list(said.blocks)) == _essence(blocks)


def _essence(blocks: list[Raw]) -> list[str]:
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return calls or [text for text in texts if text.strip()]


def _bare(block: Raw) -> Raw:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _text(block: Raw) -> str:
    return json.dumps(block, sort_keys=True)
