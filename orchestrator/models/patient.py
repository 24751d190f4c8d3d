"""The failure policy: what follows from a try at an answer that came to nothing.

| trouble | what follows |
|---|---|
| `busy` | asked again after a backoff with full jitter, never before the server's `retry-after`; |
| | the run pauses when that is far away, or when an outage outlasts all patience |
| `broken` | asked again soon, a few times in a row; then the attempt fails |
| `blocked` | the run pauses: nobody asks again until a person has resumed it |
| `too_long` | the attempt ends at its ceiling; the same request is never sent again |
| `invalid` | the attempt fails |

What a failed try has cost is handed on before the next one is made, so that a budget holds.
How often a request is asked in vain is bounded by count and by time, never by tokens, since tries
that fail early cost none. What all agents share is `orchestrator.models.breaker`. Nothing here
knows a provider: `once` makes one try and raises `Trouble`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio

from orchestrator.messages import Reply, Request
from orchestrator.models.backoff import Backoff, Jitter, asked_for
from orchestrator.models.breaker import Breaker, Paused
from orchestrator.models.clock import Clock
from orchestrator.models.trouble import Trouble
from orchestrator.ports import NO_USAGE, ModelError, Spend

Once = Callable[[Request, Spend | None], Awaitable[Reply]]
"""One try at an answer. Raises `Trouble`; tells what it has cost where it is left in the middle."""


BUSY = Backoff(base_s=1.0, cap_s=60.0)
BROKEN = Backoff(base_s=0.5, cap_s=8.0)


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient to be with one request."""

    busy: Backoff = BUSY
    broken: Backoff = BROKEN
    broken_max: int = 5
    """Answers that cannot be used until the attempt fails; busy ones between them do not count."""
    outage_s_max: float = 30 * 60.0
    """Seconds without any answer until the run pauses."""
    unreachable_max: int = 4
    """Tries to reach a server that has never answered in this process, until the run pauses."""
    silence_s_min: float = 2 * 60.0
    """Seconds without any answer from which an attempt's end is the server's fault: it pauses."""
    retry_after_s_max: float = 10 * 60.0
    """Seconds that a server may ask to be left alone; the run pauses for longer ones."""


POLICY = Policy()


class PatientModel:
    """`ports.Model` over single tries, which all agents of a run share."""

    def __init__(
        self,
        once: Once,
        *,
        breaker: Breaker,
        clock: Clock,
        jitter: Jitter = random.random,
        policy: Policy = POLICY,
    ) -> None:
        self._once = once
        self._breaker = breaker
        self._clock = clock
        self._jitter = jitter
        self._policy = policy
        self._answered = False
        """Whether anything ever came from the server."""

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """Answer `request`, however often it has to be asked. Raises `ModelError`."""
        tries = _Tries()
        try:
            while True:
                if self._breaker.is_open:
                    tries.silent_since(self._clock.now())
                try:
                    reply = await self._breaker.ask(partial(self._once, request, spend))
                except Trouble as trouble:
                    self._answered = self._answered or not trouble.unreachable
                    tries.add(trouble)
                    delay = self._delay(trouble, tries)
                else:
                    self._answered = True
                    return reply
                await self._pay(tries, spend)
                self._check_time(delay, tries)
                await self._breaker.wait(delay)
        except Paused as paused:
            usage = tries.unpaid
            raise ModelError("pause", str(paused), usage=usage, until=paused.until) from paused

    async def _pay(self, tries: _Tries, spend: Spend | None) -> None:
        """Hand on what the last try has cost, so that a budget can end the asking."""
        if spend is not None and tries.unpaid != NO_USAGE:
            cost, tries.unpaid = tries.unpaid, NO_USAGE
            await spend(cost)

    def _check_time(self, delay: float, tries: _Tries) -> None:
        """Pause the run rather than let an outage use up the time of whoever asks.

        The asker's deadline is that of the scopes around it. A short wait that meets it by chance
        is let be.
        """
        left = anyio.current_effective_deadline() - anyio.current_time()
        now = self._clock.now()
        silent = now - tries.silent_since(now)
        if delay > left and silent > self._policy.silence_s_min:
            self._breaker.pause(
                f"the model's server has not answered for {silent / 60:.0f} minutes"
            )

    def _delay(self, trouble: Trouble, tries: _Tries) -> float:
        """Seconds until the next try; raises where there must be none."""
        match trouble.kind:
            case "busy":
                return self._delay_of_busy(trouble, tries)
            case "broken":
                return self._delay_of_broken(trouble, tries)
            case "blocked":
                wait = asked_for(trouble.retry_after_s)
                self._breaker.pause(str(trouble), self._clock.wall() + wait if wait else None)
                return 0.0  # the wait says so to this one, too
            case "too_long":
                raise ModelError("limit", str(trouble), usage=tries.unpaid) from trouble
            case "invalid":
                raise ModelError("provider", str(trouble), usage=tries.unpaid) from trouble

    def _delay_of_busy(self, trouble: Trouble, tries: _Tries) -> float:
        policy, wait = self._policy, asked_for(trouble.retry_after_s)
        if not self._answered and tries.busy >= policy.unreachable_max:
            mend = "check --base-url and the network, and whether the server is started"
            self._breaker.pause(f"{trouble}; {mend}")
        if wait > policy.retry_after_s_max:
            why = f"{trouble}; the server asks to be left alone for {wait / 60:,.0f} minutes"
            self._breaker.pause(why, self._clock.wall() + wait)
        now = self._clock.now()
        if now - tries.silent_since(now) >= policy.outage_s_max:
            minutes = policy.outage_s_max / 60
            self._breaker.pause(f"{trouble}; no answer for {minutes:.0f} minutes")
        return max(policy.busy.full(tries.busy, self._jitter()), wait)

    def _delay_of_broken(self, trouble: Trouble, tries: _Tries) -> float:
        policy = self._policy
        if tries.broken >= policy.broken_max:
            why = f"{trouble}; {tries.broken} answers in a row could not be used"
            raise ModelError("provider", why, usage=tries.unpaid) from trouble
        return policy.broken.full(tries.broken, self._jitter())


class _Tries:
    """What became of the tries at one request so far."""

    def __init__(self) -> None:
        self.unpaid = NO_USAGE
        """What they cost that nobody has been told of; they are no answered calls."""
        self.busy = 0
        self.broken = 0
        self._silent_since: float | None = None

    def add(self, trouble: Trouble) -> None:
        """Count a failed try."""
        self.unpaid = self.unpaid + trouble.usage.model_copy(update={"calls": 0})
        if trouble.kind == "busy":
            self.busy += 1
        else:  # something answered
            self.broken += 1
            self._silent_since = None

    def silent_since(self, now: float) -> float:
        """When the server fell silent as far as this request knows: now, or earlier."""
        if self._silent_since is None:
            self._silent_since = now
        return self._silent_since
