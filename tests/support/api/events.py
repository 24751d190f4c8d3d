"""A turn as the events of a stream, and as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.support.api.cache import Counters, tokens_of
from tests.support.api.conversation import Raw, Turn

PIECE_CHARS = 40
"""Text and arguments arrive in pieces of this length."""


def output_tokens(turn: Turn) -> int:
    """Tokens of a reply."""
    return sum(map(tokens_of, turn.blocks)) or 1


def message(turn: Turn, model: str, id_: str, counters: Counters) -> Raw:
    """The whole reply, as it is given to who does not stream."""
    return {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(turn.blocks),
        "stop_reason": turn.ends_with,
        "stop_sequence": None,
        "stop_details": turn.stop_details,
        "usage": counters.usage(output_tokens(turn)),
    }


def stream(
    turn: Turn, model: str, id_: str, counters: Counters, *, bad_json: bool = False
) -> Iterator[Raw]:
    """The events of a stream, from `message_start` to `message_stop`.

    `bad_json`: the last call's arguments are no JSON. A turn that stops at `max_tokens` ends in
    the middle of its last call.
    """
    opening = message(turn, model, id_, counters)
    usage = counters.usage(1)
    yield {
        "type": "message_start",
        "message": {**opening, "content": [], "stop_reason": None, "usage": usage},
    }
    yield {"type": "ping"}
    calls = [index for index, block in enumerate(turn.blocks) if block["type"] == "tool_use"]
    for index, block in enumerate(turn.blocks):
        broken = index == max(calls, default=None)
        yield from _block(
            index,
            block,
            cut=broken and turn.ends_with == "max_tokens",
            bad_json=broken and bad_json,
        )
    delta = {
        "stop_reason": turn.ends_with,
        "stop_sequence": None,
        "stop_details": turn.stop_details,
    }
    end_usage = {key: value for key, value in usage.items() if key != "cache_creation"}
    end_usage["output_tokens"] = output_tokens(turn)
    yield {"type": "message_delta", "delta": delta, "usage": end_usage}
    yield {"type": "message_stop"}


def _block(index: int, block: Raw, *, cut: bool, bad_json: bool) -> Iterator[Raw]:
    """Start, deltas and stop of one block; what is not streamed in pieces starts whole."""
    kind, deltas = block["type"], list[Raw]()
    opening = block
    if kind == "text":
        opening = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    elif kind == "thinking":
        opening = {**block, "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])
        ]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        opening = {**block, "input": {}}
        text = json.dumps(block["input"], ensure_ascii=False)
        if cut:
            text = text[: len(text) // 2]
        if bad_json:
            text = '{"path": broken, ' + text
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
    yield {"type": "content_block_start", "index": index, "content_block": opening}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def encoded(event: Raw) -> bytes:
    """One event as it goes over the wire."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()
