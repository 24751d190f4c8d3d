"""When a task may start: what it waits for, and what it means to the others that one has ended.

The part of the machine (`orchestrator.core.machine`) that moves single tasks; what events mean is
there. A task is ready when all it waits for have settled, enough of its needs are done (succeeded
or skipped) and its condition holds; it never starts on a failed input. What can never start is
noted in `to_block`, what need not in `to_skip`.
"""

from __future__ import annotations

from orchestrator.core.base import TaskId
from orchestrator.core.plan import Task, When
from orchestrator.core.state import RunState, TaskState, TaskStatus


def move(state: RunState, task: TaskState, to: TaskStatus, seq: int, what: str) -> None:
    """Move a task by the table, and count the agent tasks that have yet to start."""
    before = task.unstarted
    task.move(to, seq, what)
    state.unstarted += task.unstarted - before


def settle(state: RunState, task: TaskState, status: TaskStatus, seq: int) -> None:
    """The task ends as `status`, for good."""
    move(state, task, status, seq, status.value)
    settled(state, task, seq)


def settled(state: RunState, task: TaskState, seq: int) -> None:
    """Tell those that wait for the task that it will not move any more."""
    task.settled = True
    state.waiting.pop(task.id, None)
    for child in state.children.get(task.id, ()):
        if child in state.waiting:
            state.waiting[child] -= 1
            if state.waiting[child] == 0 or not task.done:  # else nothing new can follow
                look(state, state.tasks[child], seq)


def look(state: RunState, task: TaskState, seq: int) -> None:
    """Decide what a pending task is waiting for: nothing (ready), the impossible, or more."""
    if task.status is not TaskStatus.PENDING or task.id in state.to_block:
        return
    dead = [need for need in task.task.needs if _dead(state, need)]
    done = sum(state.tasks[need].done for need in task.task.needs)
    wanted = _wanted(task.task)
    if len(task.task.needs) - len(dead) < wanted:
        root = state.tasks[dead[0]].blocked_by or dead[0]
        state.to_block[task.id] = root
        return
    if state.waiting[task.id] > 0 or done < wanted:
        return
    if task.task.when is not None and not _holds(state, task.task.when):
        state.to_skip[task.id] = f"`{task.task.when.task}` did not end as `when` asks"
        return
    del state.waiting[task.id]
    move(state, task, TaskStatus.READY, seq, "needs met")
    state.push_ready(task)


def _dead(state: RunState, need: TaskId) -> bool:
    held = state.tasks[need]
    return held.settled and not held.done


def _wanted(task: Task) -> int:
    """How many needs must be done before the task may start."""
    if task.require == "all":
        return len(task.needs)
    return min(1, len(task.needs)) if task.require == "any" else task.require


def _holds(state: RunState, when: When) -> bool:
    looked_at = state.tasks[when.task]
    if when.is_ is not None:
        return looked_at.status.value == when.is_
    return getattr(looked_at.product, when.field or "", None) == when.equals
