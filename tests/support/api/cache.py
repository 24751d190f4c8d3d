"""The prompt cache by its published rules: who pays what for which part of a prompt.

A prompt is a row of blocks: tools, system, content of messages. A breakpoint (`cache_control`) says
that the prefix up to its block may be kept; at each breakpoint the longest kept prefix is looked
for that ends at it or up to 19 blocks before it. What is kept can be read once the response that
wrote it has begun, and until its time to live has passed since it was last used. Nothing is kept
whose prefix is shorter than the model's least.

Tokens are counted by a rule, not by a tokenizer: four bytes of a block's JSON are one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from tests.support.api.conversation import Raw, blocks_of

LOOK_BACK = 20
"""Places looked at for each breakpoint, its own included."""
TTL_S = {"5m": 300.0, "1h": 3_600.0}
BYTES_PER_TOKEN = 4

_LEAST = {
    "claude-fable-5": 512,
    "claude-opus-5": 512,
    "claude-sonnet-5": 1_024,
    "claude-haiku-5": 1_024,
    "claude-haiku-4-5": 4_096,
}
_LEAST_OF_OTHERS = 1_024


@dataclass(frozen=True, slots=True)
class Counters:
    """The `usage` of a response, without its output."""

    input: int = 0
    write_5m: int = 0
    write_1h: int = 0
    read: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, whatever they cost."""
        return self.input + self.write_5m + self.write_1h + self.read

    def usage(self, output_tokens: int) -> Raw:
        """As the API says it."""
        return {
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.write_5m + self.write_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m,
                "ephemeral_1h_input_tokens": self.write_1h,
            },
            "output_tokens": output_tokens,
        }


@dataclass(slots=True)
class _Entry:
    used_at: float
    ttl_s: float


@dataclass(frozen=True, slots=True)
class _Place:
    """The end of a block."""

    prefix: str
    """Digest of everything up to here."""
    tokens: int
    """Of everything up to here."""
    ttl: str | None
    """Of the breakpoint that stands here."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a prompt finds in the cache, and leaves there once its response begins."""

    counters: Counters
    _kept: dict[str, str]
    """Time to live by prefix, of entries that are written or used."""


@dataclass(slots=True)
class PromptCache:
    """All that is kept. `clock` gives seconds."""

    clock: Callable[[], float]
    least: int | None = None
    """Tokens of the shortest prefix that is kept; None is the model's own."""
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def look(self, body: Raw) -> Lookup:
        """Counters of a prompt as the cache stands."""
        places = list(_places(body))
        total = places[-1].tokens if places else 0
        least = least_of(str(body["model"])) if self.least is None else self.least
        marks = [index for index, place in enumerate(places) if place.ttl and place.tokens >= least]
        found = max((self._found(places, mark, least) for mark in marks), default=0)
        kept, written = {}, {"5m": 0, "1h": 0}
        upto = found
        for mark in marks:
            place = places[mark]
            assert place.ttl is not None
            kept[place.prefix] = place.ttl
            if place.tokens > upto:
                written[place.ttl] += place.tokens - upto
                upto = place.tokens
        counters = Counters(total - upto, written["5m"], written["1h"], found)
        return Lookup(counters, kept)

    def begin(self, lookup: Lookup) -> None:
        """The response has begun: from now on its prefixes can be read."""
        now = self.clock()
        for prefix, ttl in lookup._kept.items():
            self._entries[prefix] = _Entry(now, TTL_S[ttl])

    def _found(self, places: list[_Place], mark: int, least: int) -> int:
        """Tokens of the longest prefix that is kept near a breakpoint."""
        now = self.clock()
        for index in range(mark, max(mark - LOOK_BACK, -1), -1):
            entry = self._entries.get(places[index].prefix)
            fresh = entry is not None and now - entry.used_at <= entry.ttl_s
            if entry is not None and fresh and places[index].tokens >= least:
                entry.used_at = now
                return places[index].tokens
        return 0


def least_of(model: str) -> int:
    """Tokens of the shortest prefix that is kept for a model."""
    fits = [name for name in _LEAST if model.startswith(name)]
    return _LEAST[max(fits, key=len)] if fits else _LEAST_OF_OTHERS


def tokens_of(value: object) -> int:
    """Tokens of a piece of a prompt or of a reply."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode()) // BYTES_PER_TOKEN)


def count_tokens(body: Raw) -> int:
    """Tokens of a whole prompt."""
    return max((place.tokens for place in _places(body)), default=0)


def marks_of(body: Raw) -> list[Raw]:
    """All `cache_control` values of a request, in the prompt's order."""
    marks = [block["cache_control"] for _, block in _blocks(body) if block.get("cache_control")]
    return [*marks, body["cache_control"]] if body.get("cache_control") else marks


def _places(body: Raw) -> Iterator[_Place]:
    digest = sha256(json.dumps([body["model"], body.get("tool_choice")]).encode())
    tokens = 0
    blocks = list(_blocks(body))
    for index, (where, block) in enumerate(blocks):
        bare = {key: value for key, value in block.items() if key != "cache_control"}
        digest.update(json.dumps([where, bare]).encode())
        tokens += tokens_of(bare)
        mark = block.get("cache_control")
        if mark is None and index == len(blocks) - 1:
            mark = body.get("cache_control")
        ttl = None if mark is None else mark.get("ttl", "5m")
        yield _Place(digest.hexdigest(), tokens, ttl)


def _blocks(body: Raw) -> Iterator[tuple[str, Raw]]:
    """All blocks in the order of the prefix: tools, system, messages."""
    for tool in body.get("tools") or ():
        yield "tools", tool
    system = body.get("system") or ()
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", block
    for message in body["messages"]:
        for block in blocks_of(message):
            yield str(message["role"]), block
