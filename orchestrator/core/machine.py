"""The machine: `evolve` folds an event into the state, `decide` (its neighbour) says what is next.

All rules about what an event means stand here, but for when a task may start, which is
`core.readiness`:

- Ended attempts free their slice of the budget. Failures of an agent's own making are repeated
  while the task has attempts left; conflicts, red merges and rejected reviews are not.
- A failure that stays calls for a planner task, once for each charge of the replan budget and never
  twice for the same failure; otherwise the task settles as failed and what needs it is blocked.
- What a planner hands in is due to be applied; a person may have to agree first. In a run that is
  for the plan alone it is the result.
- Succeeded tasks never move again. A patch sends failed and blocked tasks back to pending.
- An attempt that reaches a ceiling which the run's budget had lowered is not charged: it is
  repeated with a larger slice, or the run pauses for want of one.
- Lost attempts are repeated free of charge, a few times in a row.

`evolve` mutates the state it is given and returns it: the fold owns its state, and a copy for each
event would make a resume quadratic. It is deterministic, and knows neither clock nor I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core import graph as graphs
from orchestrator.core.base import TaskId
from orchestrator.core.budget import is_clamped
from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    FailureReason,
    Landed,
    PlanRejected,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    StoredEvent,
    TaskBlocked,
    TaskSkipped,
)
from orchestrator.core.plan import Task
from orchestrator.core.readiness import look, move, settle, settled
from orchestrator.core.roles import Limits
from orchestrator.core.state import InvalidTransition, RunState, TaskState, TaskStatus

LOST_MAX = 3
"""Times in a row that an attempt is repeated because infrastructure failed."""

NOT_REPEATED: frozenset[FailureReason] = frozenset({"conflict", "gate_red", "rejected", "refused"})
"""Failures that another attempt of the same task cannot mend: its inputs are what is wrong."""


def fold(run: str, events: Iterable[StoredEvent]) -> RunState:
    """The state of `run` after `events`."""
    state = RunState(run)
    for event in events:
        evolve(state, event)
    return state


def evolve(state: RunState, event: StoredEvent) -> RunState:
    """Fold one event in. Raises `InvalidTransition` when it does not fit."""
    if event.seq != state.seq + 1:
        raise InvalidTransition(f"run {state.run}: event {event.seq} follows {state.seq}")
    state.seq, before = event.seq, event.seq > 1 and state.status != "paused"
    if isinstance(event.body, Landed):
        state.landed = event.body  # the run ended before: its length stays
        return state
    if before and not isinstance(event.body, RunResumed):
        state.elapsed_s += max(0.0, event.at - state.ended_at)
    state.ended_at = event.at
    _apply(state, event.body, event)
    return state


def _apply(state: RunState, body: Event, event: StoredEvent) -> None:
    match body:
        case RunStarted():
            state.started, state.status, state.started_at = body, "running", event.at
            state.roles = {role.name: role for role in body.roles}
        case PlanRevised():
            _revise(state, body, event.seq)
        case PlanRejected():
            _reject(state, body, event.seq)
        case AttemptStarted():
            _start(state, body, event)
        case AttemptSucceeded() | AttemptFailed() | AttemptLost() | AttemptCancelled():
            _end(state, body, event)
        case TaskSkipped():
            state.to_skip.pop(body.task, None)
            _end_without_patch(state, state.tasks[body.task], TaskStatus.SKIPPED, event.seq)
        case TaskBlocked():
            state.to_block.pop(body.task, None)
            state.tasks[body.task].blocked_by = body.by
            _end_without_patch(state, state.tasks[body.task], TaskStatus.BLOCKED, event.seq)
        case ApprovalAsked():
            state.asked[body.task] = body.what
        case ApprovalGiven():
            _approve(state, body, event.seq)
        case RunPaused():
            state.status, state.pause = "paused", f"{body.reason}: {body.detail}"
            state.pause_until = body.until
        case RunResumed():
            _resume(state, body)
        case RunFinished():
            state.status, state.branch, state.commit = body.status, body.branch, body.commit


def _approve(state: RunState, body: ApprovalGiven, seq: int) -> None:
    if body.task not in state.asked:
        raise InvalidTransition(f"run {state.run}: #{seq} nobody asked about `{body.task}`")
    del state.asked[body.task]
    state.approved.add(body.task)


def _resume(state: RunState, body: RunResumed) -> None:
    state.status, state.pause, state.pause_until = "running", "", None
    changes: dict[str, object] = {}
    if body.budget is not None:
        changes["settings"] = state.settings.model_copy(update={"budget": body.budget})
    if body.sandbox is not None:
        changes["sandbox"] = body.sandbox
    if changes and state.started is not None:
        state.started = state.started.model_copy(update=changes)


def _start(state: RunState, body: AttemptStarted, event: StoredEvent) -> None:
    task = state.tasks[body.task]
    move(state, task, TaskStatus.RUNNING, event.seq, "AttemptStarted")
    state.pop_ready(task)
    state.running.add(task.id)
    task.attempt, task.limits, task.repeats = body.attempt, body.limits, False
    task.started_at = task.started_at if task.started_at is not None else event.at


def _end(
    state: RunState,
    body: AttemptSucceeded | AttemptFailed | AttemptLost | AttemptCancelled,
    event: StoredEvent,
) -> None:
    task = state.tasks[body.task]
    if task.status is not TaskStatus.RUNNING or task.attempt != body.attempt:
        task.story.append(f"#{event.seq} {body.type} of attempt {body.attempt}")
        raise InvalidTransition(f"task {task.id}:\n  " + "\n  ".join(task.story))
    state.running.discard(task.id)
    given, task.limits, task.ended_at = task.limits, Limits(), event.at
    task.usage += body.usage
    state.usage += body.usage
    match body:
        case AttemptSucceeded():
            task.commit, task.tree, task.product = body.commit, body.tree, body.product
            task.gates, task.left_out = body.gates, body.left_out
            task.reason, task.evidence, task.kept, task.lost = None, "", None, 0
            task.outgrown = None
            if state.plans(task.task) and not state.plan_only:
                state.to_apply[task.id] = None
            settle(state, task, TaskStatus.SUCCEEDED, event.seq)
        case AttemptFailed():
            _fail(state, task, body, given, event.seq)
        case AttemptLost():
            # What the last failure taught stays: the attempt is repeated as it was.
            task.lost += 0 if body.interrupted else 1
            task.repeats = True
            if task.lost > LOST_MAX:
                task.reason, task.evidence = None, body.why
                _end_without_patch(state, task, TaskStatus.FAILED, event.seq)
            else:
                _again(state, task, event.seq, body.type)
        case AttemptCancelled():
            _end_without_patch(state, task, TaskStatus.CANCELLED, event.seq)


def _fail(state: RunState, task: TaskState, body: AttemptFailed, given: Limits, seq: int) -> None:
    task.reason, task.evidence, task.signature = body.reason, body.evidence, body.signature
    task.gates, task.product, task.kept = body.gates, body.product, body.commit
    task.lost = 0
    if body.reason == "limit" and is_clamped(given, task.task.limits, body.ceiling):
        task.outgrown = given  # the run's budget fell short, not the agent
        _again(state, task, seq, body.type)
        return
    task.charged, task.outgrown = task.charged + 1, None
    once = body.reason in NOT_REPEATED and task.task.on_failure != "retry"
    if not once and task.charged < task.task.attempts:
        _again(state, task, seq, body.type)
    elif _may_replan(state, task):
        move(state, task, TaskStatus.FAILED, seq, body.type)
        state.to_replan[task.id] = None
    else:
        _end_without_patch(state, task, TaskStatus.FAILED, seq)


def _again(state: RunState, task: TaskState, seq: int, what: str) -> None:
    move(state, task, TaskStatus.READY, seq, what)
    state.push_ready(task)


def _may_replan(state: RunState, task: TaskState) -> bool:
    """Whether a planner may be asked about this failure."""
    return (
        task.task.on_failure == "replan"
        and not state.plans(task.task)
        and state.replans < state.settings.budget.replans
        and task.signature not in state.mended_signatures
        and any(role.product == "patch" for role in state.roles.values())
    )


def _end_without_patch(state: RunState, task: TaskState, status: TaskStatus, seq: int) -> None:
    """The task ends as `status`; if it is a planner, another one may be asked in its place."""
    settle(state, task, status, seq)
    if state.plans(task.task):
        _ask_again(state, task.id, seq)


def _ask_again(state: RunState, planner: TaskId, seq: int) -> None:
    """The planner has brought no patch: what it was to mend gets another one, or stays failed.

    Each planner is charged before it starts, so this ends with the budget.
    """
    for task in state.tasks.values():
        if task.planner == planner:
            task.planner = None
            if task.status is TaskStatus.FAILED and not task.settled:
                state.to_replan[task.id] = None
    _review_replans(state, seq)


def _review_replans(state: RunState, seq: int) -> None:
    """Failures that no planner may be asked about any more stay failed."""
    for key in list(state.to_replan):
        if not _may_replan(state, state.tasks[key]):
            del state.to_replan[key]
            settled(state, state.tasks[key], seq)


def _reject(state: RunState, body: PlanRejected, seq: int) -> None:
    _answered(state, body.by)
    _ask_again(state, body.by, seq)


def _answered(state: RunState, planner: TaskId) -> None:
    """What the planner handed in is applied or rejected: nothing of it is due any more."""
    state.to_apply.pop(planner, None)
    state.asked.pop(planner, None)
    state.approved.discard(planner)


def _revise(state: RunState, body: PlanRevised, seq: int) -> None:
    if body.replans is not None:
        state.replans += 1
        state.to_replan.pop(body.replans, None)
        _retire_planners(state, body.replans, seq)
        state.tasks[body.replans].planner = body.add[0].id
    if body.by is not None:
        _answered(state, body.by)
    if body.settings is not None and state.started is not None:
        state.started = state.started.model_copy(update={"settings": body.settings})
    for task in body.add:
        added = TaskState(task, index=len(state.tasks), cause=seq, mends=body.replans)
        state.tasks[task.id] = added
        state.unstarted += added.unstarted
    for dropped in body.drop:
        _unqueue(state, dropped)
        move(state, state.tasks[dropped], TaskStatus.CANCELLED, seq, body.type)
        state.tasks[dropped].settled = state.tasks[dropped].dropped = True
    for task in body.replace:
        _renew(state, task, seq)
    if body.by is not None:
        _close_mending(state, body.by)
    _relink(state, seq, renewed={task.id for task in body.replace})
    for dropped in body.drop:
        if state.plans(state.tasks[dropped].task):
            _ask_again(state, dropped, seq)
    _review_replans(state, seq)


def _retire_planners(state: RunState, mends: TaskId, seq: int) -> None:
    """A new planner takes over a failure: those that failed at it before are out of the graph."""
    for held in state.tasks.values():
        if held.mends == mends and held.status is TaskStatus.FAILED:
            move(state, held, TaskStatus.CANCELLED, seq, "another planner takes over")
            held.dropped = True


def _renew(state: RunState, task: Task, seq: int) -> None:
    """Send a task back to pending, as if it had never been tried."""
    held = state.tasks[task.id]
    _unqueue(state, task.id)
    move(state, held, TaskStatus.PENDING, seq, "PlanRevised")
    held.task, held.charged, held.lost, held.kept = task, 0, 0, None
    held.outgrown = None
    held.reason, held.evidence, held.blocked_by, held.settled = None, "", None, False
    held.product, held.gates = None, ()


def _unqueue(state: RunState, task: TaskId) -> None:
    if state.tasks[task].status is TaskStatus.READY:
        state.pop_ready(state.tasks[task])
    state.to_replan.pop(task, None)
    state.to_block.pop(task, None)
    state.to_skip.pop(task, None)


def _close_mending(state: RunState, planner: TaskId) -> None:
    """The planner's patch is in force: remember what for; what it left failed stays failed."""
    for task in state.tasks.values():
        if task.planner == planner:
            task.planner = None
            state.mended_signatures.add(task.signature)
            if task.status is TaskStatus.FAILED:
                task.settled = True


def _relink(state: RunState, seq: int, renewed: set[TaskId]) -> None:
    """Rebuild what is derived from the graph's shape, and look at every pending task anew.

    What was blocked behind a task of `renewed` is pending again, and so is what was about to start
    on its failure.
    """
    living = state.living
    graph = state.graph = graphs.build(living.values())
    for key in graphs.topological(graph) if renewed else ():
        held = state.tasks[key]
        if not renewed.isdisjoint(held.task.upstream):
            if held.status is TaskStatus.BLOCKED:
                _renew(state, held.task, seq)
                renewed.add(key)
            elif held.status is TaskStatus.READY:
                state.pop_ready(held)
                move(state, held, TaskStatus.PENDING, seq, "PlanRevised")
    state.paths = graphs.remaining_paths(graph)
    state.children = {node: list(graph.successors(node)) for node in graph}
    state.to_block.clear()
    state.to_skip.clear()
    queued, state.ready = state.ready, []
    for entry in queued:
        state.push_ready(state.tasks[entry[3]])
    state.waiting = {
        key: sum(not state.tasks[up].settled for up in task.upstream)
        for key, task in living.items()
        if state.tasks[key].status is TaskStatus.PENDING
    }
    for key in list(state.waiting):
        look(state, state.tasks[key], seq)


def result_task(state: RunState) -> TaskState | None:
    """The task whose commit is the run's result: the one writing sink, if there is one."""
    living = state.living
    sinks = graphs.writing_sinks(state.graph, living, state.roles)
    return state.tasks[sinks[0]] if len(sinks) == 1 else None
