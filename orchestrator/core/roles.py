"""A role: who acts in a task, with which tools, and what it hands in.

Only the value. Reading role files, and who may override whom, is `orchestrator.roles`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.core.base import Count, Record, Usd

ProductKind = Literal["report", "change", "verdict", "patch", "plan"]
"""What an agent can hand in; `patch` and `plan` are the planner's."""

SUBMIT_TOOLS: dict[ProductKind, str] = {
    "report": "SubmitReport",
    "change": "SubmitChange",
    "verdict": "SubmitVerdict",
    "patch": "SubmitPatch",
    "plan": "SubmitPlan",
}
"""The tool that hands in a product of each kind."""


Ceiling = Literal["usd", "tokens", "turns", "minutes"]
"""Which of an attempt's limits."""


class Limits(Record):
    """Ceilings of one attempt. None means that the run's own limits are the only ones."""

    usd: Usd | None = None
    """Dollars, by the price table."""
    tokens: Count | None = None
    """Tokens of all price buckets together."""
    turns: Count | None = None
    """Model replies."""
    minutes: float | None = Field(default=None, gt=0, le=7 * 24 * 60)
    """Wall-clock minutes of the attempt."""

    def over(self, other: Limits) -> Limits:
        """These limits, with the other's wherever this one has none."""
        return Limits(
            usd=self.usd if self.usd is not None else other.usd,
            tokens=self.tokens if self.tokens is not None else other.tokens,
            turns=self.turns if self.turns is not None else other.turns,
            minutes=self.minutes if self.minutes is not None else other.minutes,
        )


class Role(Record):
    """A role as the run uses it: frozen in the journal when the run starts."""

    name: str
    description: str = ""
    tools: tuple[str, ...]
    """Tools it may call, in alphabetical order, the Submit tool not among them."""
    model: str | None = None
    """Model name; None takes the task's, the plan's or the command line's."""
    product: ProductKind
    """What it hands in."""
    writes: bool = False
    """Whether its changes to the tree are sealed into a commit."""
    resolves: bool = False
    """Whether it is given conflicted merges to repair."""
    limits: Limits = Limits()
    """Ceilings that hold where the task has none."""
    prompt: str
    """The system prompt, Markdown."""

    @property
    def submit_tool(self) -> str:
        """Name of the tool that hands in this role's product."""
        return SUBMIT_TOOLS[self.product]
