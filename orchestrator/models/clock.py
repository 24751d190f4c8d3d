"""Time as waiting code sees it: a seam, so that tests can let hours pass in no time.

Waits of the failure policy go through a `Clock`; nothing else here looks at the time. `RealClock`
is anyio's clock. A test's clock need not sleep at all: its `timeout` scopes end when the test says
that a stream has gone silent.
"""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Where seconds come from."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall(self) -> float:
        """Unix seconds, for what is said to people and for dates that servers send."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed."""
        ...

    def timeout(self, seconds: float) -> anyio.CancelScope:
        """A scope that is cancelled when `seconds` have passed before it is left.

        Its `cancelled_caught` says so afterwards.
        """
        ...


class RealClock:
    """The machine's clock."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await anyio.sleep(seconds)

    def timeout(self, seconds: float) -> anyio.CancelScope:
        """A scope with a deadline."""
        return anyio.CancelScope(deadline=anyio.current_time() + seconds)
