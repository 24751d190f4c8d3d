"""The run's log: what happened, in the past tense. State is a fold of these (`core.machine`).

Each event is small and final. `StoredEvent` adds what the journal knows (sequence number, time,
cause); `Event` is the body alone, a union told apart by `type`. An intent (`AttemptStarted`) is
journaled before its effect, and exactly one outcome follows it: succeeded, failed, lost or
cancelled. Fields are only ever added, with defaults: old journals must fold for ever.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from orchestrator.core.base import ObjectId, Record, TaskId
from orchestrator.core.plan import Approval, PlanSettings, RunBudget, Task
from orchestrator.core.products import Product
from orchestrator.core.roles import Ceiling, Limits, Role
from orchestrator.core.usage import Usage

SCHEMA_VERSION = 1
"""Version of the event schema; a journal with a greater one is refused."""

FailureReason = Literal[
    "conflict",
    "gate_red",
    "rejected",
    "own_gate_red",
    "limit",
    "stuck",
    "nothing_handed_in",
    "refused",
    "script",
    "provider",
    "planner_invalid",
]
"""Why an attempt failed.

`conflict` inputs do not merge · `gate_red` red gate on a tree no agent of the task made ·
`rejected` a reviewer did not approve · `own_gate_red` the agent ended with its own gates red ·
`limit` turns, tokens, dollars or minutes ran out · `stuck` the same call again and again ·
`nothing_handed_in` it stopped without its product · `refused` the model refused or seal did ·
`script` a scripted model broke its script · `provider` an answer that cannot be used ·
`planner_invalid` the planner handed in nothing that fits, again and again.
"""

GateOutcome = Literal["passed", "failed", "timeout", "environment"]
"""How a gate ended; `environment` is a tool that is missing or cannot run (126, 127)."""


class GateRecord(Record):
    """Evidence of one gate on one tree."""

    name: str
    argv: tuple[str, ...]
    tree: ObjectId
    """The tree it ran on."""
    outcome: GateOutcome
    exit_status: int | None
    """None when it was ended by the time limit."""
    seconds: float = Field(ge=0)
    base: GateOutcome | None = None
    """How the same gate ends on the run's base; None where nobody had to ask."""
    output: str = ""
    """Digest of its output, which is kept under `outputs/`."""
    tail: str = ""
    """The end of its output, cleaned of control characters."""

    @property
    def passed(self) -> bool:
        """Whether work may build on the tree."""
        return self.outcome == "passed"


class RunStarted(Record):
    """A run begins. Everything that must not change under it is frozen here."""

    type: Literal["RunStarted"] = "RunStarted"
    schema_version: int = SCHEMA_VERSION
    repository: str
    """Absolute path of the target's common git folder."""
    base: ObjectId
    """The commit that work starts from."""
    base_branch: str | None
    """The branch that the user was on, None when detached."""
    settings: PlanSettings
    roles: tuple[Role, ...]
    model: str
    """Where answers come from, for reports: `scripted:NAME`, or the model's name."""
    sandbox: str
    """Level of isolation that commands run in."""
    workspace: str
    """How workspaces are made."""
    versions: dict[str, str] = {}
    rules: dict[str, str] = {}
    """Digests of the rules files of the base, by path: what agents were told to keep to."""
    plan_only: bool = False
    """The planner's plan is the result: it is not carried out."""


class PlanRevised(Record):
    """The graph changed: the first plan, a planner's patch, or a planner task the machine adds."""

    type: Literal["PlanRevised"] = "PlanRevised"
    by: TaskId | None
    """The planner task whose patch this is; None for the plan file and the machine itself."""
    replans: TaskId | None = None
    """The failed task that a planner task in `add` is there for: this charges one replan."""
    add: tuple[Task, ...] = ()
    """New tasks, in plan order, after the ones there are."""
    replace: tuple[Task, ...] = ()
    """Tasks with new needs or texts; failed ones among them are pending again."""
    drop: tuple[TaskId, ...] = ()
    why: str = ""
    settings: PlanSettings | None = None
    """The plan's settings from here on; None leaves them as they are."""


class PlanRejected(Record):
    """A patch did not fit the graph any more; the old one stays in force."""

    type: Literal["PlanRejected"] = "PlanRejected"
    by: TaskId
    problems: tuple[str, ...]


class AttemptStarted(Record):
    """The intent to run a task's attempt."""

    type: Literal["AttemptStarted"] = "AttemptStarted"
    task: TaskId
    attempt: int = Field(ge=1)
    """Counts the task's attempts that ended; a lost one is started again under its number."""
    limits: Limits
    """The slice of the budget that is set aside for it."""


class AttemptSucceeded(Record):
    """The task is done: its commit and product can be built on."""

    type: Literal["AttemptSucceeded"] = "AttemptSucceeded"
    task: TaskId
    attempt: int = Field(ge=1)
    commit: ObjectId
    """What flows along its edges: its own commit, or the merge of its needs."""
    tree: ObjectId
    product: Product | None = None
    usage: Usage = Usage()
    gates: tuple[GateRecord, ...] = ()
    left_out: tuple[str, ...] = ()
    """Paths that seal left out of the commit, with the reason."""


class AttemptFailed(Record):
    """The attempt ended without a usable result."""

    type: Literal["AttemptFailed"] = "AttemptFailed"
    task: TaskId
    attempt: int = Field(ge=1)
    reason: FailureReason
    evidence: str
    """What a planner or the next attempt needs to know, capped."""
    signature: str
    """Digest of the evidence without times, paths and addresses: equal for the same failure."""
    commit: ObjectId | None = None
    """The work so far, kept; the next attempt goes on from its tree."""
    product: Product | None = None
    """What was handed in, if anything: a reviewer's verdict."""
    usage: Usage = Usage()
    gates: tuple[GateRecord, ...] = ()
    ceiling: Ceiling | None = None
    """The limit that was reached, for reason `limit`; None where it was none of these."""


class AttemptLost(Record):
    """The attempt's worker, disk or git failed; nobody is charged, it is started again."""

    type: Literal["AttemptLost"] = "AttemptLost"
    task: TaskId
    attempt: int = Field(ge=1)
    why: str
    interrupted: bool = False
    """The orchestrator itself ended: does not count against the cap of lost attempts."""
    usage: Usage = Usage()


class AttemptCancelled(Record):
    """A running attempt was ended by name."""

    type: Literal["AttemptCancelled"] = "AttemptCancelled"
    task: TaskId
    attempt: int = Field(ge=1)
    why: str
    usage: Usage = Usage()


class TaskSkipped(Record):
    """The task's condition does not hold."""

    type: Literal["TaskSkipped"] = "TaskSkipped"
    task: TaskId
    why: str


class TaskBlocked(Record):
    """The task can never start: what it needs has failed for good."""

    type: Literal["TaskBlocked"] = "TaskBlocked"
    task: TaskId
    by: TaskId
    """The failed task at the root of it."""


class ApprovalAsked(Record):
    """A planner's product waits for a person before it changes the graph."""

    type: Literal["ApprovalAsked"] = "ApprovalAsked"
    what: Approval
    task: TaskId
    """The planner task that handed it in."""


class ApprovalGiven(Record):
    """A person agreed to what was asked."""

    type: Literal["ApprovalGiven"] = "ApprovalGiven"
    task: TaskId


class RunPaused(Record):
    """Nothing more is started until `resume`."""

    type: Literal["RunPaused"] = "RunPaused"
    reason: Literal["budget", "provider", "signal", "approval"]
    detail: str
    until: float | None = None
    """Unix seconds when going on may help; None where nobody knows."""


class RunResumed(Record):
    """The run goes on, in a new process."""

    type: Literal["RunResumed"] = "RunResumed"
    versions: dict[str, str] = {}
    budget: RunBudget | None = None
    """The run's budget from here on; None leaves it as it is."""
    sandbox: str | None = None
    """Level of isolation from here on; None leaves it as it was."""


class RunFinished(Record):
    """The run is over. `branch` and `commit` are None where nothing was integrated."""

    type: Literal["RunFinished"] = "RunFinished"
    status: Literal["succeeded", "failed"]
    branch: str | None = None
    commit: ObjectId | None = None


class Landed(Record):
    """The run's result is in the branch that the user started from."""

    type: Literal["Landed"] = "Landed"
    branch: str
    """Short name of the branch it was brought into."""
    before: ObjectId
    """Where that branch was."""
    commit: ObjectId
    """Where it is now."""
    gates: tuple[GateRecord, ...] = ()
    """Gates that were run again because the branch had moved."""


Event = Annotated[
    RunStarted
    | PlanRevised
    | PlanRejected
    | AttemptStarted
    | AttemptSucceeded
    | AttemptFailed
    | AttemptLost
    | AttemptCancelled
    | TaskSkipped
    | TaskBlocked
    | ApprovalAsked
    | ApprovalGiven
    | RunPaused
    | RunResumed
    | RunFinished
    | Landed,
    Field(discriminator="type"),
]
"""Any event."""

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
"""Reads and writes one event body as JSON."""


class StoredEvent(Record):
    """An event as the journal keeps it."""

    seq: int = Field(ge=1)
    """Position in the run's log, from 1, without gaps."""
    run: str
    at: float
    """Unix seconds when it was recorded."""
    cause: int | None
    """`seq` of the event it follows from; None for what came from outside."""
    body: Event
