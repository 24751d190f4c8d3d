"""How the run's budget is shared out among attempts. Pure.

An attempt's slice is set aside whole when it starts and is freed when it ends; it cannot exceed
its slice, so the run cannot exceed its budget. A slice is the task's own limit, else a fair share
of what is left among the agent tasks that have yet to start, one more counted for replans.

A slice that came out smaller than the task asked for is *clamped*. An attempt that reaches such a
ceiling has not failed by its own doing: it is given a larger slice, free of charge, or the run
pauses for more money.
"""

from __future__ import annotations

from orchestrator.core.roles import Ceiling, Limits
from orchestrator.core.state import RunState, TaskState


class Purse:
    """What is left of the run's budget while attempts are being started."""

    def __init__(self, state: RunState) -> None:
        held = [state.tasks[key].limits for key in state.running]
        budget = state.settings.budget
        self.usd = _left(budget.usd, state.usage.usd, sum(item.usd or 0 for item in held))
        self.tokens = _left(
            budget.tokens, state.usage.tokens, sum(item.tokens or 0 for item in held)
        )
        self.minutes = _left(budget.minutes, state.elapsed_s / 60, 0)
        self.shares = 1 + state.unstarted
        self.short_of = ""
        """What was lacking when a slice was refused."""

    def slice(self, task: TaskState) -> Limits | None:
        """Limits for one attempt, taken off what is left; None when there is too little."""
        own = task.task.limits
        minutes = _at_most(own.minutes, self.minutes)
        if minutes is not None and minutes <= 0:
            self.short_of = "the run's minutes are used up"
            return None
        if task.task.role is None:
            return Limits(minutes=minutes)
        shares = self.shares if task.outgrown is None else 1
        usd = _share(own.usd, self.usd, shares)
        tokens = _share(own.tokens, self.tokens, shares)
        whole = None if tokens is None else int(tokens)
        if (usd is not None and usd <= 0) or (whole is not None and whole <= 0):
            self.short_of = "the run's budget is used up"
            return None
        given = Limits(usd=usd, tokens=whole, turns=own.turns, minutes=minutes)
        if task.outgrown is not None and not _roomier(given, task.outgrown):
            self.short_of = f"what is left of the run's budget is too little for `{task.id}`"
            return None
        self.usd = None if self.usd is None or usd is None else self.usd - usd
        self.tokens = None if self.tokens is None or tokens is None else self.tokens - tokens
        self.shares = max(1, self.shares - 1)
        return given


def is_clamped(given: Limits, own: Limits, ceiling: Ceiling | None) -> bool:
    """Whether a slice has less of `ceiling` than the task's own limits ask for."""
    if ceiling is None:
        return False
    got: float | None = getattr(given, ceiling)
    want: float | None = getattr(own, ceiling)
    return got is not None and (want is None or got < want)


def _roomier(given: Limits, outgrown: Limits) -> bool:
    """Whether a new slice is larger in something than the one that did not suffice."""
    pairs = (
        (given.usd, outgrown.usd),
        (given.tokens, outgrown.tokens),
        (given.minutes, outgrown.minutes),
    )
    return any(old is not None and (new is None or new > old) for new, old in pairs)


def _left(limit: float | None, spent: float, held: float) -> float | None:
    return None if limit is None else limit - spent - held


def _at_most(own: float | None, left: float | None) -> float | None:
    return min((value for value in (own, left) if value is not None), default=None)


def _share(own: float | None, left: float | None, shares: int) -> float | None:
    if left is None:
        return own
    return _at_most(own if own is not None else left / shares, left)
