"""An attempt's ceilings, checked before each call: turns, tokens, dollars, minutes.

A call is only made when its dearest outcome still fits: what the last call took, what was added
since, and the longest reply allowed. Replies are cut shorter as the end comes near, and while
there is room for one more call the agent is told to hand in with it: a ceiling should end an
attempt with a result, not with silence.

Dollars are bounded by the plan's prices and the price table. For a model that neither has, the
dearest call so far stands for the next one; a ceiling that must hold needs a price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from orchestrator.core.plan import ModelPrice
from orchestrator.core.roles import Ceiling, Limits
from orchestrator.core.usage import Usage
from orchestrator.models.prices import price

BYTES_PER_TOKEN = 3
"""Fewer than the mean of any common text, so that the estimate is high."""
REPLY_TOKENS_MIN = 1_024
"""A reply shorter than this is not worth a turn, unless it is the last."""
LAST_REPLY_TOKENS = 2_048
"""What is kept for the reply that hands in."""
LAST_REPLY_TOKENS_MIN = 256
RESULT_TOKENS = 2_000
"""What the results of one turn usually add."""
SECONDS_MAX = 7 * 24 * 3_600.0
"""Longest wait where an attempt has no limit of minutes; tools and models have shorter ones."""


@dataclass(frozen=True, slots=True)
class NextCall:
    """A call that may be made."""

    max_tokens: int
    """Longest reply that fits."""
    last: str
    """Why it is the last one; empty where it is not."""
    ceiling: Ceiling | None = None
    """Which limit makes it the last one."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """No further call fits."""

    why: str
    ceiling: Ceiling
    """Which limit was reached."""


@dataclass(slots=True)
class Budget:
    """What one attempt has used and may still use."""

    limits: Limits
    model: str
    clock: Callable[[], float]
    """Monotonic seconds."""
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    """What the plan says models cost; they go before the table's."""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    _started: float = field(init=False)
    _turn_started: float = field(init=False)
    _slowest_turn: float = 0.0
    _dearest_call: float = 0.0
    _last_tokens: int = 0
    """Prompt and reply of the last call: the part of the next prompt that was counted."""
    _prompt: int = 0
    """Estimate of the prompt that is being sent."""

    def __post_init__(self) -> None:
        self._started = self._turn_started = self.clock()

    def charge(self, usage: Usage) -> None:
        """Account for a reply."""
        self.usage = self.usage + usage
        self.turns += 1
        self._last_tokens = usage.tokens
        self._dearest_call = max(self._dearest_call, usage.usd)

    def charge_failed(self, usage: Usage) -> None:
        """Account for tries that gave no reply."""
        self.usage = self.usage + usage

    @property
    def seconds(self) -> float:
        """Seconds since the attempt began."""
        return self.clock() - self._started

    @property
    def seconds_left(self) -> float:
        """How long the next wait may last."""
        if self.limits.minutes is None:
            return SECONDS_MAX
        return max(self.limits.minutes * 60 - self.seconds, 0.0)

    def next_call(self, added_bytes: int, max_tokens: int) -> NextCall | Exhausted:
        """Whether a call fits whose prompt grew by `added_bytes` since the last one's reply."""
        now = self.clock()
        self._slowest_turn = max(self._slowest_turn, now - self._turn_started)
        self._turn_started = now
        prompt = self._prompt = self._last_tokens + -(-added_bytes // BYTES_PER_TOKEN)
        steps = (
            self._turns(max_tokens),
            self._minutes(max_tokens),
            self._tokens(prompt, max_tokens),
            self._usd(prompt, max_tokens),
        )
        for step in steps:
            if isinstance(step, Exhausted):
                return step
        calls = [step for step in steps if isinstance(step, NextCall)]
        longest = min(call.max_tokens for call in calls)
        ending = next((call for call in calls if call.last), None)
        return NextCall(longest, "") if ending is None else replace(ending, max_tokens=longest)

    def unaffordable(self, call: NextCall) -> Exhausted | None:
        """The ceiling that making `call` once more would break; None where it still fits."""
        tokens, usd = self.limits.tokens, self.limits.usd
        if tokens is not None and tokens - self.usage.tokens < self._prompt + call.max_tokens:
            return Exhausted(_too_little(f"tokens: {tokens:,}"), "tokens")
        dearest = Usage(cache_write_1h_tokens=self._prompt, output_tokens=call.max_tokens)
        cost = price(self.model, dearest, self.prices)
        if usd is not None and cost is not None and usd - self.usage.usd < cost:
            return Exhausted(_too_little(f"dollars: {usd:g}"), "usd")
        return None

    def _turns(self, wanted: int) -> NextCall | Exhausted:
        limit = self.limits.turns
        if limit is not None and self.turns >= limit:
            return Exhausted(f"all {limit} turns are used", "turns")
        if limit is not None and self.turns + 1 == limit:
            return NextCall(wanted, f"turns: {limit}", "turns")
        return NextCall(wanted, "")

    def _minutes(self, wanted: int) -> NextCall | Exhausted:
        limit = self.limits.minutes
        if limit is None:
            return NextCall(wanted, "")
        left = limit * 60 - self.seconds
        if left <= 0:
            return Exhausted(f"the {limit:g} minutes are over", "minutes")
        if left < 2 * self._slowest_turn:
            return NextCall(wanted, f"minutes: {limit:g}", "minutes")
        return NextCall(wanted, "")

    def _tokens(self, prompt: int, wanted: int) -> NextCall | Exhausted:
        limit = self.limits.tokens
        if limit is None:
            return NextCall(wanted, "")
        left = limit - self.usage.tokens
        fit = _fit(left, prompt, float(prompt), 1.0, wanted)
        return _named(fit, "tokens", f"tokens: {limit:,}")

    def _usd(self, prompt: int, wanted: int) -> NextCall | Exhausted:
        limit = self.limits.usd
        if limit is None:
            return NextCall(wanted, "")
        what = f"dollars: {limit:g}"
        left = limit - self.usage.usd
        sent = Usage(cache_write_1h_tokens=prompt)
        empty = price(self.model, sent, self.prices)
        full = price(self.model, sent + Usage(output_tokens=wanted), self.prices)
        if empty is not None and full is not None:
            fit = _fit(left, prompt, empty, (full - empty) / wanted, wanted)
        elif left <= 0 or left < self._dearest_call:
            fit = None
        else:
            fit = (wanted, left < 2 * self._dearest_call)
        return _named(fit, "usd", what)


def _named(fit: tuple[int, bool] | None, ceiling: Ceiling, what: str) -> NextCall | Exhausted:
    """What fits beneath a ceiling, said with the ceiling's name."""
    if fit is None:
        return Exhausted(_too_little(what), ceiling)
    tokens, is_last = fit
    return NextCall(tokens, what, ceiling) if is_last else NextCall(tokens, "")


def _too_little(what: str) -> str:
    return f"too little is left of the ceiling ({what})"


def _fit(
    left: float, prompt: int, prompt_cost: float, reply_rate: float, wanted: int
) -> tuple[int, bool] | None:
    """The longest reply that leaves room for a last call, else the longest that fits at all.

    Gives its tokens and whether it is the last one; None when nothing fits. Costs are in the unit
    of `left`: `prompt_cost` of the whole prompt, `reply_rate` of one token of the reply, which is
    part of the next prompt too.
    """
    prompt_rate = prompt_cost / max(prompt, 1)
    last_call = prompt_cost + RESULT_TOKENS * prompt_rate + LAST_REPLY_TOKENS * reply_rate
    spare = left - prompt_cost - last_call
    rate = reply_rate + prompt_rate
    if rate == 0:
        return wanted, False
    if spare >= REPLY_TOKENS_MIN * rate:
        return min(wanted, int(spare / rate)), False
    room = left - prompt_cost
    if room >= LAST_REPLY_TOKENS_MIN * reply_rate:
        return (wanted if reply_rate == 0 else min(wanted, int(room / reply_rate))), True
    return None
