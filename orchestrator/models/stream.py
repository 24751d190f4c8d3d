"""Puts the events of a streamed reply together, whole blocks only, as raw JSON.

Strict where a mistake would do harm: a stream without its end, or with arguments that cannot be
read, gives no reply at all. Lenient where the API promises to grow: kinds of block, of delta and of
event that are not known are put together by general rules, and what belongs to a block is never
lost. Knows no HTTP and no clock; feed it events as parsed JSON.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NoReturn

from pydantic import JsonValue

EVENT_BYTES_MAX = 16 * 1024 * 1024
"""Most bytes of all events together, as text: 500 for each token of the longest reply asked for.
A reply is held several times over while it is checked, written down and sent back."""
BLOCKS_MAX = 4_096
TOKENS_MAX = 1_000_000_000
"""Largest counter that is believed."""
NAME_CHARS_MAX = 200
"""Longest name of a model that is kept."""

CUT_REASONS = frozenset(["max_tokens", "model_context_window_exceeded", "refusal"])
"""Reasons to stop that may come in the middle of a call, whose arguments then are no JSON."""

Raw = dict[str, JsonValue]

BYTES_PER_TOKEN = 3
"""Fewer than the mean of any common text, so that a guess is high."""
_WRITTEN = ("text", "thinking", "partial_json")
"""What the model writes, of a delta."""
_TEXT_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking"}


class BrokenStreamError(Exception):
    """What came is no reply; the text says why."""


class ErrorEvent(Exception):
    """The server says, in the stream, that it failed."""

    def __init__(self, error: Raw) -> None:
        self.error = error
        super().__init__("the server sent an error event")


@dataclass(slots=True)
class _Part:
    """A block while it comes in."""

    start: Raw
    """As it began; what replaces a key is put here."""
    strings: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Pieces to append to a key's text."""
    arguments: list[str] = field(default_factory=list)
    """Pieces of the JSON text of `input`."""


@dataclass(slots=True)
class ReplyStream:
    """One reply, growing."""

    model: str = ""
    """The model that answers, as it calls itself."""
    stop_reason: str | None = None
    counters: dict[str, int] = field(default_factory=dict)
    """The largest value of each counter of tokens, those within `cache_creation` included."""
    complete: bool = False
    """Whether the server has said that this is all."""
    started: bool = False
    """Whether a message has begun."""
    _bytes: int = 0
    _written: int = 0
    """Bytes of text, thoughts and arguments."""
    _parts: dict[int, _Part] = field(default_factory=dict)

    def add(self, event: object) -> None:
        """Take in the next event. Raises `BrokenStreamError`, or `ErrorEvent` for one."""
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BrokenStreamError("an event is no object with a type")
        self._bytes += len(str(event).encode(errors="surrogatepass"))
        if self._bytes > EVENT_BYTES_MAX:
            raise BrokenStreamError(f"the answer is longer than {EVENT_BYTES_MAX:,} bytes")
        kind = event["type"]
        if kind == "message_start":
            self._start(_object(event, "message"))
        elif kind == "content_block_start":
            self._open(event)
        elif kind == "message_delta":
            self._end(event)
        elif kind == "message_stop":
            self.complete = True
        elif kind == "error":
            raise ErrorEvent(_object(event, "error"))
        elif "index" in event and "delta" in event:
            delta = _object(event, "delta")
            _grow(self._part(event), delta)
            self._written += sum(
                len(text.encode(errors="surrogatepass"))
                for key in _WRITTEN
                if isinstance(text := delta.get(key), str)
            )

    @property
    def output_tokens(self) -> int:
        """What the model has written. The true count comes last: a cut reply's is guessed, high."""
        counted = self.counters.get("output_tokens", 0)
        if self.stop_reason is not None:
            return counted
        return max(counted, self._written // BYTES_PER_TOKEN)

    def blocks(self) -> list[Raw]:
        """All blocks in order. Raises `BrokenStreamError` unless the reply is whole."""
        if not self.started:
            raise BrokenStreamError("the answer holds no message")
        if not self.complete or self.stop_reason is None:
            raise BrokenStreamError("the answer was cut before its end")
        is_cut = self.stop_reason in CUT_REASONS
        return [_finished(part, is_cut=is_cut) for _, part in sorted(self._parts.items())]

    def _start(self, message: Raw) -> None:
        if self.started:
            raise BrokenStreamError("a second message began in the same answer")
        self.started = True
        model = message.get("model")
        self.model = _name(model) if isinstance(model, str) else ""
        self._count(message.get("usage"))

    def _end(self, event: Raw) -> None:
        delta = event.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str):
            self.stop_reason = reason
        self._count(event.get("usage"))

    def _count(self, usage: JsonValue) -> None:
        """Counters stand for the whole message, so they only grow.

        Gateways end a stream with zeros, or with nothing, where the start of it knew better.
        """
        if not isinstance(usage, dict):
            return
        parts = usage.get("cache_creation")
        for key, value in (*usage.items(), *(parts.items() if isinstance(parts, dict) else ())):
            tokens = _tokens(value)
            if tokens is not None:
                self.counters[key] = max(tokens, self.counters.get(key, 0))

    def _open(self, event: Raw) -> None:
        index = _index(event)
        if not self.started or index in self._parts:
            raise BrokenStreamError("a block began twice, or outside of a message")
        if len(self._parts) >= BLOCKS_MAX:
            raise BrokenStreamError(f"the answer has more than {BLOCKS_MAX:,} blocks")
        self._parts[index] = _Part(dict(_object(event, "content_block")))

    def _part(self, event: Raw) -> _Part:
        part = self._parts.get(_index(event))
        if part is None:
            raise BrokenStreamError("a block goes on that never began")
        return part


def _grow(part: _Part, delta: Raw) -> None:
    """Known deltas by their kind; of others texts are appended, lists extended, the rest set."""
    kind = delta.get("type")
    if kind == "input_json_delta":
        part.arguments.append(_text(delta, "partial_json"))
    elif isinstance(kind, str) and kind in _TEXT_OF_DELTA:
        key = _TEXT_OF_DELTA[kind]
        part.strings[key].append(_text(delta, key))
    elif kind == "signature_delta":
        part.start["signature"] = _text(delta, "signature")
    elif kind == "citations_delta":
        _extend(part.start, "citations", [delta.get("citation")])
    else:
        for key, value in delta.items():
            if key == "type":
                continue
            if isinstance(value, str):
                part.strings[key].append(value)
            elif isinstance(value, list):
                _extend(part.start, key, value)
            else:
                part.start[key] = value


def _finished(part: _Part, *, is_cut: bool) -> Raw:
    """The whole block, with halves of surrogate pairs replaced: none can be sent back."""
    block = dict(part.start)
    for key, pieces in part.strings.items():
        before = block.get(key)
        block[key] = (before if isinstance(before, str) else "") + "".join(pieces)
    if part.arguments:
        block["input"] = _arguments(part, is_cut=is_cut)
    elif block.get("type") == "tool_use" and block.get("input") is None:
        block["input"] = {}
    try:
        return _well_formed(block)
    except (ValueError, RecursionError):
        raise BrokenStreamError("a block holds what JSON cannot say") from None


def _arguments(part: _Part, *, is_cut: bool) -> JsonValue:
    text = "".join(part.arguments)
    if not text.strip():
        return part.start.get("input", {})
    try:
        value: JsonValue = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    if is_cut:
        return {}
    name = part.start.get("name")
    raise BrokenStreamError(f"the arguments of a call of {name} are no JSON object")


def _tokens(value: JsonValue) -> int | None:
    """A number of tokens; None for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= TOKENS_MAX else None


def _name(text: str) -> str:
    """A model's name, short, without what can be neither printed nor stored."""
    return "".join(char for char in text[:NAME_CHARS_MAX] if char.isprintable())


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _well_formed(block: Raw) -> Raw:
    text = json.dumps(block, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        whole: Raw = json.loads(mended)
        return whole
    return block


def _index(event: Raw) -> int:
    index = event.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        raise BrokenStreamError("a block has no number")
    return index


def _object(event: Raw, key: str) -> Raw:
    value = event.get(key)
    if not isinstance(value, dict):
        raise BrokenStreamError(f"an event of type {event.get('type')} has no {key}")
    return value


def _text(delta: Raw, key: str) -> str:
    value = delta.get(key)
    if not isinstance(value, str):
        raise BrokenStreamError(f"a delta of type {delta.get('type')} has no {key}")
    return value


def _extend(block: Raw, key: str, items: list[JsonValue]) -> None:
    """Lengthen a list in its place: a copy for each delta would take hours in a long reply."""
    held = block.get(key)
    if not isinstance(held, list):
        block[key] = held = []
    held.extend(items)
