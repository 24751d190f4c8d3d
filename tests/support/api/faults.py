"""Faults of a server, chosen by hash: the same seed gives the same faults in the same places.

What goes wrong depends on the seed, the conversation, the turn and how often that turn was asked
for: not on which agent is quicker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

FaultKind = Literal[
    "rate_limit",
    "rate_limit_after",
    "overloaded",
    "server_error",
    "error_event",
    "cut_chunked",
    "cut_closed",
    "silence",
    "html",
    "empty",
    "bad_json",
    "unknown_block",
    "unknown_stop",
]
"""
`rate_limit`        429 without a hint when to come back
`rate_limit_after`  429 with `retry-after`
`overloaded`        529
`server_error`      500
`error_event`       status 200, some events, then an event that says `overloaded_error`
`cut_chunked`       some events, then the connection breaks inside the chunked body
`cut_closed`        some events, then a body that ends as if it were whole
`silence`           some events, then nothing, with the connection held open
`html`              status 200 and a page of a proxy
`empty`             status 200 and no event at all
`bad_json`          the last call's arguments are no JSON
`unknown_block`     a whole reply with a block of a kind that nobody knows
`unknown_stop`      a whole reply with a reason to stop that nobody knows
"""

KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

RETRY_AFTER_S = 7


@dataclass(frozen=True, slots=True)
class Faults:
    """How often which fault happens."""

    seed: int = 0
    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    """Share of requests by kind; together at most 1."""
    tries_max: int | None = None
    """How many tries at one turn may fail; None is any number."""

    @classmethod
    def mixed(cls, seed: int, share: float) -> Faults:
        """All kinds alike, `share` of all requests together."""
        return cls(seed, dict.fromkeys(KINDS, share / len(KINDS)))

    def choose(self, conversation: str, turn: int, attempt: int) -> FaultKind | None:
        """What goes wrong this time, if anything does. `attempt` counts tries from 0."""
        if self.tries_max is not None and attempt >= self.tries_max:
            return None
        at = self.draw("kind", conversation, turn, attempt)
        for kind, rate in self.rates.items():
            if at < rate:
                return kind
            at -= rate
        return None

    def draw(self, what: str, conversation: str, turn: int, attempt: int) -> float:
        """A number from 0 up to 1 that looks like chance and is none."""
        text = f"{self.seed}\0{what}\0{conversation}\0{turn}\0{attempt}"
        return int.from_bytes(sha256(text.encode()).digest()[:7], "big") / 2**56
