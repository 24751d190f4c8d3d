"""Makes the order for an attempt out of the run's state. Pure: the same state, the same order."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core import graph as graphs
from orchestrator.core.base import TaskId
from orchestrator.core.decide import StartAttempt
from orchestrator.core.products import Change, Decision
from orchestrator.core.state import RunState, TaskState, TaskStatus
from orchestrator.spec import AttemptSpec, Input

MODEL_UNNAMED = "unnamed"
"""Model name of tasks for which nobody named one; a scripted model needs none."""


def order(state: RunState, start: StartAttempt) -> AttemptSpec:
    """The spec of the attempt that `start` begins; the state must hold its `AttemptStarted`."""
    if state.started is None:
        raise ValueError("a run that has not started gives no orders")
    held = state.tasks[start.task]
    task = held.task
    role = state.roles[task.role] if task.role is not None else None
    if role is not None and role.product == "patch" and state.only_plans:
        role = role.model_copy(update={"product": "plan"})  # there is nothing to patch
    failed = next((item for item in state.tasks.values() if item.planner == task.id), None)
    graph = state.graph
    return AttemptSpec(
        run=state.run,
        task=task,
        attempt=start.attempt,
        started=held.cause or 0,
        goal=state.settings.goal,
        role=role,
        model=task.model or state.settings.defaults.model or MODEL_UNNAMED,
        limits=start.limits,
        base=state.started.base,
        started_at=int(state.started_at),
        inputs=tuple(_inputs(state, graph, held)),
        decisions=tuple(_decisions(state, graph, task.id)),
        start_from=held.kept,
        evidence=_evidence(held, failed),
        gates=task.gates,
        protect=state.settings.protect,
        prices=state.settings.prices,
        graph=state.view(failed.id if failed else None) if state.plans(task) else None,
    )


def _inputs(state: RunState, graph: graphs.Dag, held: TaskState) -> Iterator[Input]:
    """Succeeded needs in merge order; a skipped one is seen through to its own needs."""
    needs: dict[TaskId, None] = {}
    todo = list(reversed(held.task.needs))
    while todo:
        need = state.tasks[todo.pop()]
        if need.status is TaskStatus.SKIPPED:
            todo.extend(reversed(need.task.needs))
        elif need.status is TaskStatus.SUCCEEDED:
            needs[need.id] = None
    for need_id in graphs.merge_order(graph, tuple(needs)):
        need = state.tasks[need_id]
        if need.commit is not None:
            yield Input(task=need.id, commit=need.commit, product=need.product)


def _decisions(state: RunState, graph: graphs.Dag, task: TaskId) -> Iterator[Decision]:
    for above in graphs.ancestors(graph, task):
        product = state.tasks[above].product
        if isinstance(product, Change):
            yield from product.decisions


def _evidence(held: TaskState, failed: TaskState | None) -> str:
    if failed is None:
        return held.evidence
    return f"task `{failed.id}` has failed: {failed.reason}\n\n{failed.evidence}"
