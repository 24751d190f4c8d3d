"""The state of a run: what the log adds up to. Data and its transition table, no rules.

`RunState` is folded by `core.machine.evolve`, its only writer, and read by everybody else.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.core.base import TaskId
from orchestrator.core.events import FailureReason, GateRecord, Landed, RunStarted
from orchestrator.core.graph import Dag, GraphView, TaskView, build
from orchestrator.core.plan import Approval, PlanSettings, Task
from orchestrator.core.products import Product
from orchestrator.core.roles import Limits, Role
from orchestrator.core.usage import Usage

STORY_MAX = 30
"""Last events of a task that an invalid transition prints."""


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


_S = TaskStatus
TRANSITIONS: dict[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.PENDING, _S.READY, _S.BLOCKED, _S.SKIPPED, _S.CANCELLED}),
    _S.READY: frozenset({_S.RUNNING, _S.PENDING, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.READY, _S.CANCELLED}),
    _S.FAILED: frozenset({_S.PENDING, _S.CANCELLED}),
    _S.BLOCKED: frozenset({_S.PENDING, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.SKIPPED: frozenset(),
    _S.CANCELLED: frozenset(),
}
"""Every allowed move. The docs' diagram is drawn from this table."""


class InvalidTransition(Exception):
    """An event does not fit the state: a bug, or a damaged journal. Tells the task's story."""


@dataclass(slots=True)
class TaskState:
    """One task and all that happened to it."""

    task: Task
    index: int
    """Position in plan order."""
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    """Number of the newest attempt; a lost one is repeated under its number."""
    charged: int = 0
    """Failures that count against the task's `attempts`, since it was last rewired."""
    lost: int = 0
    """Times in a row that infrastructure failed under it."""
    usage: Usage = field(default_factory=Usage)
    limits: Limits = field(default_factory=Limits)
    """Budget set aside while running."""
    outgrown: Limits | None = None
    """A clamped slice that did not suffice: the next one has to be larger."""
    commit: str | None = None
    tree: str | None = None
    product: Product | None = None
    gates: tuple[GateRecord, ...] = ()
    left_out: tuple[str, ...] = ()
    reason: FailureReason | None = None
    evidence: str = ""
    signature: str = ""
    kept: str | None = None
    """Commit of a failed attempt's work, for the next one to go on from."""
    repeats: bool = False
    """The newest attempt was lost: the next one has its number."""
    dropped: bool = False
    """Taken out of the graph by a patch."""
    blocked_by: TaskId | None = None
    mends: TaskId | None = None
    """Of a planner task that the machine added: the failed task it is there for."""
    planner: TaskId | None = None
    """The planner task that is to mend its failure."""
    settled: bool = False
    """Ended for good as far as its dependents are concerned."""
    cause: int | None = None
    """Event that last moved it."""
    started_at: float | None = None
    ended_at: float | None = None
    story: list[str] = field(default_factory=list)

    @property
    def id(self) -> TaskId:
        """The task's id."""
        return self.task.id

    @property
    def done(self) -> bool:
        """Whether what depends on it may build on it."""
        return self.status in (TaskStatus.SUCCEEDED, TaskStatus.SKIPPED)

    @property
    def unstarted(self) -> bool:
        """Whether an agent has yet to begin on it, or to begin again."""
        waits = self.status in (TaskStatus.PENDING, TaskStatus.READY)
        return waits and self.task.role is not None

    def move(self, to: TaskStatus, cause: int | None, what: str) -> None:
        """Change status by the table, or tell the story and raise."""
        self.story.append(f"#{cause} {what}: {self.status} -> {to}")
        del self.story[:-STORY_MAX]
        if to not in TRANSITIONS[self.status]:
            raise InvalidTransition(f"task {self.id}:\n  " + "\n  ".join(self.story))
        self.status = to
        self.cause = cause


@dataclass(slots=True)
class RunState:
    """A run at one moment."""

    run: str
    started: RunStarted | None = None
    tasks: dict[TaskId, TaskState] = field(default_factory=dict)
    """In plan order; dropped tasks stay, since ids are never used again."""
    roles: dict[str, Role] = field(default_factory=dict)
    status: str = "new"
    """new, running, paused, succeeded or failed."""
    pause: str = ""
    """Why it is paused."""
    pause_until: float | None = None
    """Unix seconds when going on may help; None where it is not paused or nobody knows."""
    replans: int = 0
    """Charged planner tasks."""
    branch: str | None = None
    commit: str | None = None
    landed: Landed | None = None
    """Where the result was brought to; None while it is in the run's branch alone."""
    seq: int = 0
    """Last event folded in."""
    started_at: float = 0.0
    ended_at: float = 0.0
    """Time of the last event."""
    elapsed_s: float = 0.0
    """Seconds in which the run was not paused."""

    usage: Usage = field(default_factory=Usage)
    """What all ended attempts cost."""

    graph: Dag = field(default_factory=lambda: build(()), compare=False)
    """The living tasks and their edges."""
    children: dict[TaskId, list[TaskId]] = field(default_factory=dict)
    """Who waits for whom, forwards."""
    waiting: dict[TaskId, int] = field(default_factory=dict)
    """For each pending task, how many of those it waits for have not settled."""
    paths: dict[TaskId, int] = field(default_factory=dict)
    """Longest remaining path of each task."""
    ready: list[tuple[int, int, int, TaskId]] = field(default_factory=list)
    """Ready tasks, first to start first: planners, then longest path, then plan order."""
    unstarted: int = 0
    """How many agent tasks are pending or ready: they share what is left of the budget."""
    running: set[TaskId] = field(default_factory=set)
    to_skip: dict[TaskId, str] = field(default_factory=dict)
    """Pending tasks whose condition does not hold, and why."""
    to_block: dict[TaskId, TaskId] = field(default_factory=dict)
    """Pending tasks that can never start, and the failed task at the root."""
    to_replan: dict[TaskId, None] = field(default_factory=dict)
    """Failed tasks that a planner task is due for."""
    to_apply: dict[TaskId, None] = field(default_factory=dict)
    """Succeeded planner tasks whose plan or patch has not been applied or rejected."""
    asked: dict[TaskId, Approval] = field(default_factory=dict)
    """Those of them that a person has been asked about and has not answered."""
    approved: set[TaskId] = field(default_factory=set)
    """Those of them that a person has agreed to."""
    mended_signatures: set[str] = field(default_factory=set)
    """Failures that a patch was meant to mend; seen again, they end the replanning."""

    @property
    def settings(self) -> PlanSettings:
        """The plan without its tasks."""
        return self.started.settings if self.started is not None else PlanSettings()

    @property
    def living(self) -> dict[TaskId, Task]:
        """Tasks of the graph, dropped ones left out, in plan order."""
        return {key: state.task for key, state in self.tasks.items() if not state.dropped}

    @property
    def plan_only(self) -> bool:
        """Whether the planner's plan is the result and is not carried out."""
        return self.started is not None and self.started.plan_only

    @property
    def only_plans(self) -> bool:
        """Whether the graph has nothing in it yet but planners."""
        return all(self.plans(task) for task in self.living.values())

    def plans(self, task: Task) -> bool:
        """Whether the task's product is a plan or a patch to the graph."""
        role = self.roles.get(task.role) if task.role is not None else None
        return role is not None and role.product == "patch"

    def push_ready(self, state: TaskState) -> None:
        """Queue a ready task by priority."""
        bisect.insort(self.ready, self._priority(state))

    def pop_ready(self, state: TaskState) -> None:
        """Take a task out of the queue; it must be there."""
        entry = self._priority(state)
        at = bisect.bisect_left(self.ready, entry)
        if self.ready[at : at + 1] != [entry]:
            raise InvalidTransition(
                f"task {state.id} is not queued:\n  " + "\n  ".join(state.story)
            )
        del self.ready[at]

    def _priority(self, state: TaskState) -> tuple[int, int, int, TaskId]:
        first = 0 if self.plans(state.task) else 1
        return (first, -self.paths[state.id], state.index, state.id)

    def view(self, mends: TaskId | None = None) -> GraphView:
        """The graph as a planner is shown it."""
        return GraphView(
            settings=self.settings,
            roles=tuple(self.roles.values()),
            tasks=tuple(
                TaskView(task=state.task, status=state.status.value, summary=_summary(state))
                for state in self.tasks.values()
            ),
            mends=mends,
        )


def _summary(state: TaskState) -> str:
    """A line or two for a planner: what came out, or what went wrong."""
    if state.status is TaskStatus.FAILED:
        return f"{state.reason or 'infrastructure'}: {state.evidence[:500]}"
    return getattr(state.product, "summary", "")[:500]
