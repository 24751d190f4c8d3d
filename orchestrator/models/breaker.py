"""One circuit breaker for all agents of a run: who may ask the server now, and who waits.

    closed     everybody asks; answers of any kind reset the count of busy ones
    open       after several busy ones in a row: everybody waits until a time
    half open  one probes, the others wait for what it learns; an answer closes, busy opens again
    paused     a hard limit: nobody asks any more, whoever waits is told at once

So an outage costs one call now and then, however many agents there are (the pattern is from
M. Nygard, "Release It!", 2007). Calls that were under way when it opened or paused come to their
end, and their answers count for those who asked.

Whoever leaves in the middle, cancelled or by a bug, leaves its place to the next. Nothing polls:
waits are one `clock.sleep`, or one event. Not the policy for a single request: that is
`orchestrator.models.patient`. All of it belongs to one event loop.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from orchestrator.models.backoff import Backoff, Jitter, asked_for
from orchestrator.models.clock import Clock
from orchestrator.models.trouble import Trouble

BUSY_MAX = 5
"""Busy answers in a row, of all agents together, that open it."""
HOLD = Backoff(base_s=5.0, cap_s=60.0)
"""How long it stays open, by how often in a row it has opened."""

Answer = TypeVar("Answer")
Tell = Callable[[str], None]
"""Takes one line for people. It holds a server's words: clean it before a terminal sees it."""


class Paused(Exception):
    """Nobody may ask any more in this process. The text says why."""

    def __init__(self, why: str, until: float | None) -> None:
        """`until`: Unix seconds when asking again may help; None where nobody knows."""
        self.until = until
        super().__init__(why)


def _nobody_listens(line: str) -> None:
    pass


class Breaker:
    """Stands between all agents of a run and one server."""

    def __init__(
        self,
        clock: Clock,
        *,
        jitter: Jitter = random.random,
        busy_max: int = BUSY_MAX,
        hold: Backoff = HOLD,
        tell: Tell = _nobody_listens,
    ) -> None:
        """`tell` hears when everybody has to wait, and when that is over."""
        self._clock = clock
        self._jitter = jitter
        self._busy_max = busy_max
        self._hold = hold
        self._tell = tell
        self._busy = 0
        self._holds = 0
        self._open_until: float | None = None
        self._probed = False
        self._pause: tuple[str, float | None] | None = None
        self._changed = anyio.Event()
        self._sleeps: set[anyio.CancelScope] = set()

    @property
    def is_open(self) -> bool:
        """Whether who asks now would have to wait."""
        return self._open_until is not None

    async def ask(self, once: Callable[[], Awaitable[Answer]]) -> Answer:
        """Await `once()` when it is its turn, and learn from how it ends.

        Raises `Paused` without having asked, and whatever `once` raises.
        """
        probing = await self._turn()
        try:
            answer = await once()
        except Trouble as trouble:
            if trouble.kind == "busy":
                self._was_busy(trouble, probing)
            else:
                self._was_answered(probing, of_use=trouble.kind != "blocked")
            raise
        except BaseException:
            self._leave(probing)
            raise
        self._was_answered(probing)
        return answer

    async def wait(self, seconds: float) -> None:
        """Sleep; raises `Paused` as soon as there is a pause."""
        self._check()
        with anyio.CancelScope() as scope:
            self._sleeps.add(scope)
            try:
                await self._clock.sleep(seconds)
            finally:
                self._sleeps.discard(scope)
        self._check()

    def pause(self, why: str, until: float | None = None) -> None:
        """Let nobody ask any more and wake all who wait. The first reason stays."""
        if self._pause is None:
            self._pause = (why, until)
        for scope in tuple(self._sleeps):
            scope.cancel()
        self._notify()

    async def _turn(self) -> bool:
        """Return when the caller may ask; True when it is the one that probes."""
        self._check()
        while self._open_until is not None:
            if not self._probed:
                await self._until_it_may_probe(self._open_until)
                return True
            await self._changed.wait()
            self._check()
        return False

    async def _until_it_may_probe(self, time: float) -> None:
        """Take the place of the one that probes, and hold it until `time`."""
        self._probed = True
        try:
            await self.wait(max(time - self._clock.now(), 0.0))
        except BaseException:
            self._leave(True)
            raise

    def _check(self) -> None:
        if self._pause is not None:
            raise Paused(*self._pause)

    def _was_answered(self, probing: bool, *, of_use: bool = True) -> None:
        """`of_use`: whether agents go on; after a hard limit another line says that they pause."""
        if probing:
            self._open_until, self._holds = None, 0
            self._leave(True)
            if of_use:
                self._tell("the model's server answers again")
        if not self.is_open:  # an answer to an older question does not close it
            self._busy = 0

    def _was_busy(self, trouble: Trouble, probing: bool) -> None:
        if probing:
            self._open(trouble)
            self._leave(True)
        elif not self.is_open:
            self._busy += 1
            if self._busy >= self._busy_max:
                self._open(trouble)

    def _open(self, trouble: Trouble) -> None:
        self._holds += 1
        seconds = max(
            self._hold.equal(self._holds, self._jitter()), asked_for(trouble.retry_after_s)
        )
        self._open_until = self._clock.now() + seconds
        self._tell(f"the model's server cannot answer ({trouble}); all agents wait {seconds:.0f} s")

    def _leave(self, probing: bool) -> None:
        """Make room for the next one that probes."""
        if probing:
            self._probed = False
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
