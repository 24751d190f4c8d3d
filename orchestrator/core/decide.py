"""What is next: a pure function from the state to commands.

`decide` looks only at what `evolve` left due, so it costs what it finds, not what the graph holds.
It is asked again after every event. Its answers, in order of precedence:

1. `Append`: facts that follow from the state alone (skipped, blocked, a planner task, its patch, a
   person's approval that is called for). They are recorded before anything is started, and then it
   is asked again.
2. `StartAttempt`: ready tasks, longest remaining path first, while workers and budget allow.
3. `Finish`, or `Append(RunPaused)`, when nothing runs and nothing can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from orchestrator.core import machine
from orchestrator.core.base import TaskId
from orchestrator.core.budget import Purse
from orchestrator.core.events import (
    ApprovalAsked,
    Event,
    PlanRejected,
    PlanRevised,
    RunPaused,
    TaskBlocked,
    TaskSkipped,
)
from orchestrator.core.goals import planner_task
from orchestrator.core.patches import apply_patch
from orchestrator.core.plan import Approval
from orchestrator.core.products import PlanPatch, PlanProposal
from orchestrator.core.proposals import apply_plan
from orchestrator.core.roles import Limits
from orchestrator.core.state import RunState, TaskState, TaskStatus


@dataclass(frozen=True, slots=True)
class Append:
    """Record a fact. Has no effect outside the journal."""

    event: Event
    cause: int | None


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin an attempt: journal the intent, then carry it out."""

    task: TaskId
    attempt: int
    limits: Limits
    """Its slice of the budget."""
    cause: int | None


@dataclass(frozen=True, slots=True)
class Finish:
    """Write the branch, then end the run."""

    status: Literal["succeeded", "failed"]
    commit: str | None
    """Commit to integrate; None when there is nothing."""
    cause: int | None


Command = Append | StartAttempt | Finish


def decide(state: RunState) -> tuple[Command, ...]:
    """The next commands; empty while only waiting helps, or when the run has ended or is paused."""
    if state.status != "running":
        return ()
    facts = tuple(_facts(state))
    if facts:
        return facts
    starts, short_of = _starts(state)
    if starts or state.running:
        return starts
    if state.to_apply:
        who = " and ".join(f"`{planner}`" for planner in state.to_apply)
        detail = f"what {who} handed in waits for a person"
        return (Append(RunPaused(reason="approval", detail=detail), state.seq),)
    if short_of:
        return (Append(RunPaused(reason="budget", detail=short_of), state.seq),)
    return (_finish(state),)


def _facts(state: RunState) -> Iterator[Append]:
    for planner in state.to_apply:
        what = _approval(state, planner)
        if what is None:
            yield Append(_patched(state, planner), state.tasks[planner].cause)
            return  # a patch may change everything else that is due
        if planner not in state.asked:
            yield Append(ApprovalAsked(what=what, task=planner), state.tasks[planner].cause)
    for task, why in state.to_skip.items():
        yield Append(TaskSkipped(task=task, why=why), state.tasks[task].cause)
    for task, root in state.to_block.items():
        yield Append(TaskBlocked(task=task, by=root), state.tasks[root].cause)
    for failed in state.to_replan:
        yield Append(_planner_for(state, state.tasks[failed]), state.tasks[failed].cause)
        return  # charges the budget, on which the next one depends


def _approval(state: RunState, planner: TaskId) -> Approval | None:
    """The approval without which what the planner handed in is not applied; None: it can be."""
    first = isinstance(state.tasks[planner].product, PlanProposal)
    what: Approval = "plan" if first else "replans"
    return what if what in state.settings.approve and planner not in state.approved else None


def _patched(state: RunState, planner: TaskId) -> PlanRevised | PlanRejected:
    product = state.tasks[planner].product
    mends = next((task.id for task in state.tasks.values() if task.planner == planner), None)
    match product:
        case PlanProposal():
            revised = apply_plan(state.view(mends), product, planner)
        case PlanPatch():
            revised = apply_patch(state.view(mends), product, planner)
        case _:
            return PlanRejected(by=planner, problems=("no patch was handed in",))
    if isinstance(revised, PlanRevised):
        return revised
    return PlanRejected(by=planner, problems=tuple(str(problem) for problem in revised))


def _planner_for(state: RunState, failed: TaskState) -> PlanRevised:
    """A planner task for a failure: it sees the failed merge, or the base when there is none."""
    number = next(n for n in range(state.replans + 1, 10**6) if f"replan-{n}" not in state.tasks)
    done = [need for need in failed.task.needs if state.tasks[need].done]
    task = planner_task(
        f"replan-{number}",
        f"Task `{failed.id}` has failed ({failed.reason})."
        " Patch the graph so that the goal is reached.",
        state.settings,
        state.roles,
        needs=() if failed.reason == "conflict" else tuple(done),
    )
    why = f"`{failed.id}` has failed: {failed.reason}"
    return PlanRevised(by=None, replans=failed.id, add=(task,), why=why)


def _starts(state: RunState) -> tuple[tuple[StartAttempt, ...], str]:
    """Ready tasks that may start now, and what is lacking when one may not."""
    room = state.settings.workers - len(state.running)
    starts: list[StartAttempt] = []
    planning = bool(state.to_apply) or any(
        state.plans(state.tasks[key].task) for key in state.running
    )
    budget = Purse(state)
    for *_, key in state.ready:
        if len(starts) >= room:
            break
        task = state.tasks[key]
        if budget.short_of and task.task.role is not None:
            continue  # what costs nothing may still start
        if state.plans(task.task) and planning:
            continue  # two patches made side by side would not know of each other
        limits = budget.slice(task)
        if limits is None:
            continue
        planning = planning or state.plans(task.task)
        starts.append(StartAttempt(key, _number(task), limits, task.cause))
    return tuple(starts), budget.short_of


def _number(task: TaskState) -> int:
    """A lost attempt keeps its number, so that a script or a fingerprint means the same attempt."""
    return task.attempt if task.repeats else task.attempt + 1


def _finish(state: RunState) -> Finish:
    good = _has_result(state) and all(task.done or task.dropped for task in state.tasks.values())
    result = machine.result_task(state)
    commit = result.commit if result is not None and result.status is TaskStatus.SUCCEEDED else None
    base = state.started.base if state.started is not None else None
    return Finish("succeeded" if good else "failed", commit if commit != base else None, state.seq)


def _has_result(state: RunState) -> bool:
    """Whether there was more to do than planning, or a plan where that is all that was wanted."""
    if state.plan_only:
        return any(isinstance(task.product, PlanProposal) for task in state.tasks.values())
    return not state.only_plans
