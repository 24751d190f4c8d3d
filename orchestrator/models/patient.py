"""The failure policy: what follows from a try at an answer that came to nothing.

| trouble | what follows |
|---|---|
| `busy` | asked again after a backoff with full jitter, never before the server's `retry-after`; |
| | the run pauses when that is far away, or when an outage outlasts all patience |
| `broken` | asked again soon, a few times in a row; then the attempt fails |
| `blocked` | the run pauses: nobody asks again until a person has resumed it |
| `too_long` | the attempt ends at its ceiling; the same request is never sent again |
| `invalid` | the attempt fails |

What failed tries have cost is never forgotten: it is part of the reply's usage, or of the error's.
How often a request is asked in vain is bounded by count and by time, never by tokens, since tries
that fail early cost none. What all agents share is `orchestrator.models.breaker`. Nothing here
knows a provider: `once` makes one try and raises `Trouble`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from orchestrator.core.usage import Usage
from orchestrator.messages import Reply, Request
from orchestrator.models.backoff import Backoff, Jitter, asked_for
from orchestrator.models.breaker import Breaker, Paused
from orchestrator.models.clock import Clock
from orchestrator.models.trouble import Trouble
from orchestrator.ports import ModelError

Once = Callable[[Request], Awaitable[Reply]]
"""One try at an answer. Raises `Trouble`."""


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

    async def complete(self, request: Request) -> Reply:
        """Answer `request`, however often it has to be asked. Raises `ModelError`."""
        tries = _Tries()
        try:
            while True:
                if self._breaker.is_open:
                    tries.silent_since(self._clock.now())
                try:
                    reply = await self._breaker.ask(partial(self._once, request))
                except Trouble as trouble:
                    tries.add(trouble)
                    await self._breaker.wait(self._delay(trouble, tries))
                else:
                    usage = reply.usage + tries.spent
                    return reply.model_copy(update={"usage": usage})
        except Paused as paused:
            raise ModelError(
                "pause", str(paused), usage=tries.spent, until=paused.until
            ) from paused

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
                raise ModelError("limit", str(trouble), usage=tries.spent) from trouble
            case "invalid":
                raise ModelError("provider", str(trouble), usage=tries.spent) from trouble

    def _delay_of_busy(self, trouble: Trouble, tries: _Tries) -> float:
        policy, wait = self._policy, asked_for(trouble.retry_after_s)
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
            raise ModelError("provider", why, usage=tries.spent) from trouble
        return policy.broken.full(tries.broken, self._jitter())


class _Tries:
    """What became of the tries at one request so far."""

    def __init__(self) -> None:
        self.spent = Usage()
        """What they cost; they are no answered calls."""
        self.busy = 0
        self.broken = 0
        self._silent_since: float | None = None

    def add(self, trouble: Trouble) -> None:
        """Count a failed try."""
        self.spent = self.spent + trouble.usage.model_copy(update={"calls": 0})
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
