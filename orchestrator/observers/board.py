"""What the live table shows of a run: immutable snapshots, built event by event.

The machine mutates the state of a run, so nobody but an observer may read it, and only while it is
called. `BoardKeeper` is such an observer: from the event and the state it makes a `Board`, which
another thread may draw whenever it likes. No clock, no I/O, no terminal.

An event costs what the board shows, not what the plan holds: statuses are counted as they change,
and no more than `ROWS_MAX` rows are looked at (a new plan is counted whole, which is rare).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from orchestrator.core.base import TaskId
from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    AttemptStarted,
    PlanRejected,
    PlanRevised,
    RunResumed,
    RunStarted,
    StoredEvent,
)
from orchestrator.core.plan import RunBudget
from orchestrator.core.state import RunState, TaskState, TaskStatus
from orchestrator.core.usage import Usage
from orchestrator.observers.lines import OUTCOMES
from orchestrator.observers.summary import resume_command, task_line
from orchestrator.observers.text import clean_line, tail

ROWS_MAX = 100
"""Tasks that a board shows, those that run or wait for a person aside: they are always there."""
NAMES_MAX = 3
"""Tasks that are named where somebody waits for many."""
NEEDS_LOOKED_AT = 100
"""Needs of a waiting task that are looked through for those names."""
CHAIN_MAX = 6
"""Tasks that are named of the longest chain."""
TAIL_LINES_MAX = 4
"""Last lines of a red gate."""
TEXT_CHARS_MAX = 300
NEEDS_YOU = "needs you"
"""Stands for the status of a task whose product a person has to agree to."""

_WAITING = (TaskStatus.PENDING, TaskStatus.READY)
_GONE = ("skipped", "cancelled", "dropped")


@dataclass(frozen=True, slots=True)
class Row:
    """One task."""

    task: TaskId
    index: int
    """Position in plan order."""
    status: str
    """A task's status, `dropped`, or `needs you`."""
    role: str
    """Empty for a merge or gate node."""
    attempt: int
    usage: Usage
    """Of the attempts that have ended."""
    text: str
    """What came out, what went wrong, or what it waits for."""
    since: float | None = None
    """Unix seconds when the attempt that runs began; None when none runs."""
    started: int = 0
    """`seq` of the event by which that attempt began."""


@dataclass(frozen=True, slots=True)
class Board:
    """A run at one moment."""

    run: str = ""
    status: str = "new"
    pause: str = ""
    """Why it is paused; empty when it is not."""
    go_on: str = ""
    """The command that goes on with a paused run."""
    at: float = 0.0
    """Unix seconds of the last event."""
    elapsed_s: float = 0.0
    """Seconds until then in which the run was not paused."""
    usage: Usage = field(default_factory=Usage)
    """Of the attempts that have ended."""
    budget: RunBudget = field(default_factory=RunBudget)
    replans: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    """How many tasks have which status, in the order of rows; none that nobody has."""
    rows: tuple[Row, ...] = ()
    """Who needs a person, runs, failed, is next; then the rest, newest results first."""
    chain: tuple[TaskId, ...] = ()
    """The beginning of the longest chain of tasks that is left."""
    chain_tasks: int = 0
    """How long that chain is."""
    trouble: str = ""
    """Whose output `tail` is."""
    tail: tuple[str, ...] = ()
    """The last lines of the newest failure that has not been mended."""

    @property
    def total(self) -> int:
        """How many tasks there are, dropped ones too."""
        return sum(count for _, count in self.counts)

    @property
    def ended(self) -> int:
        """How many of them will not move any more, as far as one knows."""
        ends = ("succeeded", *_GONE)
        return sum(count for status, count in self.counts if status in ends)


class BoardKeeper:
    """Makes boards. For one run and one thread, which may read its state while it calls."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TaskId, None]] = {}
        """Tasks by status, in the order they came to it; those that wait are not in it."""
        self._place: dict[TaskId, str] = {}
        """Task -> its group."""
        self._asked: dict[TaskId, None] = {}
        self._since: dict[TaskId, float] = {}
        self._trouble: TaskId | None = None
        self._rows: dict[TaskId, tuple[object, Row]] = {}
        """Rows, each with what it was made of."""
        self._chains: dict[TaskId, tuple[TaskId, ...]] = {}

    def catch_up(self, state: RunState, history: Iterable[StoredEvent]) -> Board:
        """The board of a run that others have seen the beginning of.

        `history` is what `state` is the fold of.
        """
        for event in history:
            self._remember(event)
            if isinstance(event.body, AttemptFailed):
                self._trouble = event.body.task
        self._count(state)
        return self._board(state)

    def see(self, event: StoredEvent, state: RunState) -> Board:
        """The board after `event`, which is folded into `state`."""
        self._remember(event)
        body = event.body
        if isinstance(body, PlanRevised | RunStarted | RunResumed):
            self._count(state)
        elif (task := getattr(body, "task", None)) in state.tasks:
            self._put(state.tasks[task])
            if isinstance(body, AttemptFailed):
                self._trouble = task
        return self._board(state)

    def _remember(self, event: StoredEvent) -> None:
        match event.body:
            case AttemptStarted(task=task):
                self._since[task] = event.at
            case ApprovalAsked(task=task):
                self._asked[task] = None
            case ApprovalGiven(task=task) | PlanRejected(by=task) | PlanRevised(by=str() as task):
                self._asked.pop(task, None)

    def _count(self, state: RunState) -> None:
        """Look at every task anew: the plan has changed."""
        self._chains.clear()
        self._rows.clear()
        for task in sorted(state.tasks.values(), key=lambda task: task.cause or 0):
            self._put(task)

    def _put(self, task: TaskState) -> None:
        status = "dropped" if task.dropped else task.status.value
        if self._place.get(task.id) == status:
            return
        if (old := self._place.pop(task.id, None)) is not None:
            del self._groups[old][task.id]
        if task.status not in _WAITING:
            self._place[task.id] = status
            self._groups.setdefault(status, {})[task.id] = None

    def _board(self, state: RunState) -> Board:
        trouble, lines = self._newest_failure(state)
        path, length = self._chain(state)
        return Board(
            run=state.run,
            status=state.status,
            pause=clean_line(state.pause, TEXT_CHARS_MAX) if state.status == "paused" else "",
            go_on=resume_command(state) if state.status == "paused" else "",
            at=state.ended_at,
            elapsed_s=state.elapsed_s,
            usage=state.usage,
            budget=state.settings.budget,
            replans=state.replans,
            counts=tuple(self._counts(state)),
            rows=tuple(self._row(state, key) for key in self._picked(state)),
            chain=path,
            chain_tasks=length,
            trouble=trouble,
            tail=lines,
        )

    def _counts(self, state: RunState) -> Iterator[tuple[str, int]]:
        waiting = len(state.tasks) - len(self._place)
        amounts = {status: len(group) for status, group in self._groups.items()}
        amounts |= {"ready": len(state.ready), "pending": waiting - len(state.ready)}
        for status in ("running", "failed", "ready", "pending", "blocked", "succeeded", *_GONE):
            if count := amounts.get(status, 0):
                yield status, count

    def _picked(self, state: RunState) -> Iterator[TaskId]:
        """The tasks to show, the most urgent first."""
        urgent = [*self._asked, *sorted(state.running, key=lambda key: state.tasks[key].index)]
        yield from urgent
        others = chain(
            self._group("failed"),
            (entry[3] for entry in state.ready),
            state.waiting,
            self._group("blocked"),
            reversed(self._group("succeeded")),
            *(reversed(self._group(status)) for status in _GONE),
        )
        unasked = (key for key in others if key not in self._asked)
        yield from islice(unasked, max(0, ROWS_MAX - len(urgent)))

    def _group(self, status: str) -> dict[TaskId, None]:
        return self._groups.get(status, {})

    def _row(self, state: RunState, key: TaskId) -> Row:
        """The task's row, made anew only when something about it has changed."""
        task = state.tasks[key]
        made_of = (task.cause, task.status, key in self._asked, state.waiting.get(key))
        held = self._rows.get(key)
        if held is not None and held[0] == made_of:
            return held[1]
        running = task.status is TaskStatus.RUNNING
        status = "dropped" if task.dropped else task.status.value
        row = Row(
            task=key,
            index=task.index,
            status=NEEDS_YOU if key in self._asked else status,
            role=task.task.role or "",
            attempt=task.attempt,
            usage=task.usage,
            text=clean_line(self._text(state, task), TEXT_CHARS_MAX),
            since=self._since.get(key, task.started_at) if running else None,
            started=(task.cause or 0) if running else 0,
        )
        self._rows[key] = (made_of, row)
        return row

    def _text(self, state: RunState, task: TaskState) -> str:
        if task.id in self._asked:
            return f"waits for you to agree: {task_line(task)}"
        match task.status:
            case TaskStatus.RUNNING:
                gates = ", ".join(gate.name for gate in task.task.gates)
                return "" if task.task.role is not None else f"gates: {gates}" if gates else "merge"
            case TaskStatus.READY if task.repeats:
                return "again, since the last try was lost"
            case TaskStatus.READY if task.reason is not None:
                return f"again after {task.reason}"
            case TaskStatus.READY:
                return "waits for a worker"
            case TaskStatus.PENDING:
                return _waits_for(state, task)
            case TaskStatus.FAILED:
                mending = f"{task.planner} is to mend it; " if task.planner is not None else ""
                return f"{mending}{_failure(task)}: {' '.join(_output(task)[-1:])}"
        return task_line(task)

    def _newest_failure(self, state: RunState) -> tuple[str, tuple[str, ...]]:
        task = state.tasks.get(self._trouble) if self._trouble is not None else None
        if task is None or task.reason is None or task.dropped:
            return "", ()
        return clean_line(f"{task.id}: {_failure(task)}", TEXT_CHARS_MAX), tuple(_output(task))

    def _chain(self, state: RunState) -> tuple[tuple[TaskId, ...], int]:
        """The longest chain that is left, and its length. It begins with a task that can run."""
        # Ready tasks stand by length, behind the planners, of which few are ready at a time.
        heads = [*state.running, *(entry[3] for entry in state.ready[:CHAIN_MAX])]
        heads = [key for key in heads if key in state.paths]
        if not heads:
            return (), 0
        head = max(heads, key=lambda key: (state.paths[key], -state.tasks[key].index))
        if head not in self._chains:
            self._chains[head] = tuple(islice(_longest(state, head), CHAIN_MAX))
        return self._chains[head], state.paths[head]


def _longest(state: RunState, head: TaskId) -> Iterator[TaskId]:
    """A longest chain from `head` on; of children of one length the first."""
    yield head
    while children := state.children.get(head):
        head = max(children, key=state.paths.__getitem__)
        yield head


def _waits_for(state: RunState, task: TaskState) -> str:
    """Whom it waits for: a few names and how many more."""
    count = state.waiting.get(task.id, 0)
    looked_at = islice(task.task.upstream, NEEDS_LOOKED_AT)
    open_ones = (need for need in looked_at if not state.tasks[need].settled)
    names = [*islice(open_ones, NAMES_MAX)]
    if count > len(names):
        names.append(f"{count - len(names):,} more" if names else f"{count:,} tasks")
    if not names:
        return ""
    *most, last = names
    return f"waits for {', '.join(most)} and {last}" if most else f"waits for {last}"


def _failure(task: TaskState) -> str:
    """What failed in it: its red gate, if there is one."""
    red = next((gate for gate in task.gates if not gate.passed), None)
    return f"gate {red.name} {OUTCOMES[red.outcome]}" if red else task.reason or "infrastructure"


def _output(task: TaskState) -> list[str]:
    """The last lines of its red gate, else of what is known of its failure."""
    red = next((gate.tail for gate in task.gates if not gate.passed), "")
    lines = tail(red, TAIL_LINES_MAX) or tail(task.evidence, TAIL_LINES_MAX)
    return [clean_line(line, TEXT_CHARS_MAX) for line in lines]
