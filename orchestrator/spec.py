"""What crosses to a worker and back: an attempt's order and its outcome, as JSON both ways.

Holds nothing that is true on one machine only: no absolute path, no handle, no secret. A local
run makes the same round trip, so that nothing leaks in unnoticed.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.core.base import ObjectId, Record, TaskId
from orchestrator.core.events import FailureReason, GateRecord
from orchestrator.core.graph import GraphView
from orchestrator.core.plan import Gate, ModelPrice, Task
from orchestrator.core.products import Decision, Product
from orchestrator.core.roles import Ceiling, Limits, Role
from orchestrator.core.usage import Usage


class Input(Record):
    """What arrives along one edge."""

    task: TaskId
    commit: ObjectId
    product: Product | None = None


class AttemptSpec(Record):
    """An order to carry out one attempt."""

    run: str
    task: Task
    attempt: int = Field(ge=1)
    started: int = 0
    """`seq` of its `AttemptStarted`: tells its try from lost ones under the same number."""
    goal: str
    """The plan's goal, for the prompt."""
    role: Role | None
    """Who acts; None merges and verifies only."""
    model: str
    """Model to ask."""
    limits: Limits
    """Ceilings of this attempt, the budget's slice."""
    base: ObjectId
    """The run's base commit."""
    started_at: int
    """Unix seconds, the date of every commit this attempt makes: the same again when repeated."""
    inputs: tuple[Input, ...]
    """Succeeded needs in merge order (topological level, then plan order)."""
    decisions: tuple[Decision, ...] = ()
    """Decisions of all its ancestors, in the order they were made."""
    start_from: ObjectId | None = None
    """The last attempt's kept commit, whose tree the workspace starts from."""
    evidence: str = ""
    """Why the last attempt failed, or what a planner task is to mend."""
    gates: tuple[Gate, ...] = ()
    """The task's gates, in order."""
    protect: tuple[str, ...]
    """Gitignore patterns of protected paths."""
    prices: dict[str, ModelPrice] = {}
    """What the plan says models cost, by name; they go before the price table's."""
    graph: GraphView | None = None
    """The graph as it stands, for a planner; its patch is checked against it at once."""


class AttemptOutcome(Record):
    """What became of an attempt."""

    status: Literal["succeeded", "failed", "lost", "paused"]
    """`paused`: the provider's hard limit; no task fails for it."""
    commit: ObjectId | None = None
    """Succeeded: the result. Failed: the work so far, where there is any."""
    tree: ObjectId | None = None
    """Tree of `commit`."""
    product: Product | None = None
    reason: FailureReason | None = None
    """Set exactly when failed."""
    ceiling: Ceiling | None = None
    """For reason `limit`: the one that was reached; None where a reply was too long."""
    until: float | None = None
    """For `paused`: Unix seconds when going on may help; None where nobody knows."""
    evidence: str = ""
    usage: Usage = Usage()
    gates: tuple[GateRecord, ...] = ()
    left_out: tuple[str, ...] = ()
