"""How long to wait before asking again: exponential backoff with jitter. Pure.

Neither clock nor random source here: whoever waits draws a number from 0 to 1 and hands it in, so
that a wait is a value and tests know it. The two kinds of jitter are those of M. Brooker,
"Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Jitter = Callable[[], float]
"""Draws from [0, 1), evenly; `random.random` is one."""

LEFT_ALONE_S_MAX = 366 * 24 * 3600.0
"""Longest time that a server may ask to be left alone; more than that is read as this."""

_DOUBLINGS_MAX = 60
"""From there on every ceiling is the cap; a larger exponent would not fit a float."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double with each failure in a row, up to a cap."""

    base_s: float
    """Seconds, the first ceiling."""
    cap_s: float
    """Seconds, the highest ceiling."""

    def full(self, failures: int, draw: float) -> float:
        """Anything from nothing to the ceiling: spreads callers best, and may be short.

        `failures` in a row, from 1; `draw` is from [0, 1).
        """
        return self._ceiling(failures) * draw

    def equal(self, failures: int, draw: float) -> float:
        """At least half the ceiling: for a wait that must not be skipped."""
        return self._ceiling(failures) * (1 + draw) / 2

    def _ceiling(self, failures: int) -> float:
        doublings = min(max(failures, 1) - 1, _DOUBLINGS_MAX)
        return min(self.cap_s, self.base_s * 2.0**doublings)


def asked_for(retry_after_s: float | None) -> float:
    """Seconds that a server asks to be left alone; nothing where it says nothing sensible."""
    if retry_after_s is None or math.isnan(retry_after_s):
        return 0.0
    return min(max(retry_after_s, 0.0), LEFT_ALONE_S_MAX)
