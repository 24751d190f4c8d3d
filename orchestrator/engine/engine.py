"""The engine: asks `decide`, carries out what it says, records what came of it.

The only place where the pure core meets effects. It keeps no state of its own but the attempts in
flight: everything else is the fold of the journal, so that a new process goes on where this one
died. Guarantees:

- an event is durable before anybody sees it and before its effect begins;
- each started attempt leaves exactly one outcome event;
- one attempt's failure never touches another;
- an interrupt ends all attempts, records them as lost, and leaves the run paused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from orchestrator.core.base import TaskId
from orchestrator.core.decide import Append, Command, Finish, StartAttempt, decide
from orchestrator.core.events import (
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    RunFinished,
    RunPaused,
    StoredEvent,
)
from orchestrator.core.machine import evolve
from orchestrator.core.signature import signature
from orchestrator.core.state import RunState
from orchestrator.core.usage import Usage
from orchestrator.engine.orders import order
from orchestrator.ports import Executor, Observer
from orchestrator.spec import AttemptOutcome, AttemptSpec

OUTCOMES_MAX = 1_024
"""Outcomes that may wait to be recorded; more than there are workers."""

log = logging.getLogger(__name__)


class EventLog(Protocol):
    """The journal, as the one writer of a run sees it."""

    async def append(self, entries: Sequence[tuple[Event, int | None]]) -> tuple[StoredEvent, ...]:
        """Store (event, cause) pairs; durable on return."""
        ...


class Publisher(Protocol):
    """The one branch in the user's repository."""

    async def publish(self, commit: str | None) -> str | None:
        """Move the branch to `commit` and give its name; None removes it and gives None."""
        ...


Spent = Callable[[TaskId, int, int], Awaitable[Usage]]
"""What a try of an attempt has cost so far, by its own durable records.

It is named by task, number and the `seq` of its `AttemptStarted`: a lost try has left records under
the same number, and was paid for when it was lost.
"""

Outcome = tuple[AttemptSpec, AttemptOutcome | None]
"""What came of an attempt; None when it was interrupted."""


class Engine:
    """Drives one run from where its state is to its end, a pause or an interrupt."""

    def __init__(
        self,
        state: RunState,
        journal: EventLog,
        executor: Executor,
        publisher: Publisher,
        observers: Sequence[Observer] = (),
        spent: Spent | None = None,
    ) -> None:
        """`state` must be the fold of everything in `journal`.

        `spent`: what an attempt that was interrupted had cost by then; None counts nothing.
        """
        self.state = state
        self._journal = journal
        self._executor = executor
        self._publisher = publisher
        self._observers = list(observers)
        self._spent = spent
        self._scopes: dict[TaskId, anyio.CancelScope] = {}
        self._causes: dict[TaskId, int] = {}
        self._interrupt: str | None = None
        self._send, self._receive = anyio.create_memory_object_stream[Outcome](OUTCOMES_MAX)

    async def run(self) -> RunState:
        """Go on until the run has finished or is paused and nothing is in flight."""
        async with self._send, self._receive, anyio.create_task_group() as attempts:
            while True:
                commands = () if self._interrupt else decide(self.state)
                if commands:
                    await self._carry_out(commands, attempts)
                elif self.state.running:
                    await self._record_outcome(*await self._receive.receive())
                else:
                    break
        if self._interrupt and self.state.status == "running":
            await self.append([(RunPaused(reason="signal", detail=self._interrupt), None)])
        return self.state

    def interrupt(self, why: str) -> None:
        """End all attempts and pause. Safe to call from a signal's handler task, more than once."""
        self._interrupt = self._interrupt or why
        for scope in self._scopes.values():
            scope.cancel()

    async def lost(self, task: TaskId, attempt: int, why: str) -> AttemptLost:
        """The event for an attempt that ended with its process, what it had cost included."""
        usage = Usage()
        if self._spent is not None:
            usage = await self._spent(task, attempt, self.state.tasks[task].cause or 0)
        return AttemptLost(task=task, attempt=attempt, why=why, interrupted=True, usage=usage)

    async def append(self, entries: Sequence[tuple[Event, int | None]]) -> None:
        """Record events, fold them in, and show them to the observers."""
        for stored in await self._journal.append(entries):
            evolve(self.state, stored)
            for observer in tuple(self._observers):
                self._show(observer, stored)

    def _show(self, observer: Observer, stored: StoredEvent) -> None:
        try:
            observer(stored, self.state)
        except Exception as error:  # an observer must not be able to harm the run
            log.warning("an observer failed and is not asked again: %r", error)
            log.debug("its traceback", exc_info=True)
            self._observers.remove(observer)

    async def _carry_out(self, commands: Sequence[Command], attempts: TaskGroup) -> None:
        facts = [(item.event, item.cause) for item in commands if isinstance(item, Append)]
        if facts:
            await self.append(facts)
        starts = [item for item in commands if isinstance(item, StartAttempt)]
        if starts:
            await self._start(starts, attempts)
        for item in commands:
            if isinstance(item, Finish):
                await self._finish(item)

    async def _start(self, starts: Sequence[StartAttempt], attempts: TaskGroup) -> None:
        await self.append(
            [
                (
                    AttemptStarted(task=item.task, attempt=item.attempt, limits=item.limits),
                    item.cause,
                )
                for item in starts
            ]
        )
        for item in starts:
            self._causes[item.task] = self.state.tasks[item.task].cause or 0
            self._scopes[item.task] = anyio.CancelScope()
            attempts.start_soon(self._attempt, order(self.state, item))

    async def _attempt(self, spec: AttemptSpec) -> None:
        outcome: AttemptOutcome | None = None
        scope = self._scopes[spec.task.id]
        if self._interrupt:
            scope.cancel()
        with scope:
            outcome = await self._executor.run(spec)
        await self._send.send((spec, outcome))

    async def _record_outcome(self, spec: AttemptSpec, outcome: AttemptOutcome | None) -> None:
        self._scopes.pop(spec.task.id, None)
        cause = self._causes.pop(spec.task.id, None)
        events: list[Event] = []
        if outcome is None:
            events.append(await self.lost(spec.task.id, spec.attempt, "interrupted"))
        else:
            events.append(outcome_event(spec, outcome))
            if outcome.status == "paused" and self.state.status == "running":
                events.append(
                    RunPaused(reason="provider", detail=outcome.evidence[:500], until=outcome.until)
                )
        await self.append([(event, cause) for event in events])

    async def _finish(self, finish: Finish) -> None:
        branch = await self._publisher.publish(finish.commit)
        commit = finish.commit if branch is not None else None
        event = RunFinished(status=finish.status, branch=branch, commit=commit)
        await self.append([(event, finish.cause)])


def outcome_event(spec: AttemptSpec, outcome: AttemptOutcome) -> Event:
    """The event that an attempt's outcome is recorded as."""
    task, attempt = spec.task.id, spec.attempt
    match outcome.status:
        case "succeeded":
            if outcome.commit is None or outcome.tree is None:
                return AttemptLost(task=task, attempt=attempt, why="the outcome names no commit")
            return AttemptSucceeded(
                task=task,
                attempt=attempt,
                commit=outcome.commit,
                tree=outcome.tree,
                product=outcome.product,
                usage=outcome.usage,
                gates=outcome.gates,
                left_out=outcome.left_out,
            )
        case "failed":
            reason = outcome.reason or "provider"
            return AttemptFailed(
                task=task,
                attempt=attempt,
                reason=reason,
                evidence=outcome.evidence,
                signature=signature(reason, outcome.evidence),
                commit=outcome.commit,
                product=outcome.product,
                usage=outcome.usage,
                gates=outcome.gates,
                ceiling=outcome.ceiling,
            )
        case "lost" | "paused":
            return AttemptLost(
                task=task,
                attempt=attempt,
                why=outcome.evidence,
                interrupted=outcome.status == "paused",
                usage=outcome.usage,
            )
