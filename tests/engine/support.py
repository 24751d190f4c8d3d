"""What the engine's tests share: plans by hand, a real journal, an executor that does as told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from orchestrator.core.events import AttemptLost, Event, PlanRevised, RunResumed, RunStarted
from orchestrator.core.machine import fold
from orchestrator.core.plan import PlanSettings, Task
from orchestrator.core.roles import Role
from orchestrator.engine.engine import Engine
from orchestrator.journal import Journal
from orchestrator.journal.run_log import RunLog
from orchestrator.ports import Observer
from orchestrator.spec import AttemptOutcome, AttemptSpec
from orchestrator.state_folder import RunFolder

BASE = "b" * 40
COMMIT = "c" * 40
TREE = "d" * 40

IMPLEMENTER = Role(
    name="implementer", tools=("Read",), product="change", writes=True, prompt="Do it."
)
PLANNER = Role(name="planner", tools=("Read",), product="patch", prompt="Plan it.")

Script = Callable[[AttemptSpec], Awaitable[AttemptOutcome]]


def succeeded(commit: str = COMMIT) -> AttemptOutcome:
    return AttemptOutcome(status="succeeded", commit=commit, tree=TREE)


def task(name: str, *needs: str, attempts: int = 1) -> Task:
    return Task(
        id=name, role="implementer", prompt="x", needs=needs, attempts=attempts, on_failure="fail"
    )


class ToldExecutor:
    """An `Executor` that carries out what the test says, and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[tuple[str, int]] = []

    async def run(self, spec: AttemptSpec) -> AttemptOutcome:
        self.asked.append((spec.task.id, spec.attempt))
        return await self._script(spec)


class Branch:
    """A publisher that remembers what it was given."""

    def __init__(self) -> None:
        self.published: list[str | None] = []

    async def publish(self, commit: str | None) -> str | None:
        self.published.append(commit)
        return None if commit is None else "orchestrate/run"


class Bench:
    """One run over a real journal in a folder; opened as often as a test wants to resume it."""

    def __init__(self, folder: Path, tasks: Sequence[Task], *, workers: int = 4) -> None:
        self.folder = RunFolder(folder / "runs" / "run")
        self.database = folder / "runs.db"
        self.settings = PlanSettings(workers=workers)
        self.tasks = tuple(tasks)
        self.branch = Branch()

    def log(self) -> RunLog:
        return RunLog.acquire(self.folder, Journal.open(self.database))

    def types(self) -> list[str]:
        return [event.body.type for event in Journal.open(self.database).events("run")]

    def bodies(self) -> list[Event]:
        return [event.body for event in Journal.open(self.database).events("run")]

    async def engine(
        self, log: RunLog, executor: ToldExecutor, observers: Sequence[Observer] = ()
    ) -> Engine:
        state = fold("run", Journal.open(self.database).events("run"))
        engine = Engine(state, log, executor, self.branch, observers)
        if state.started is None:
            started = RunStarted(
                repository="/r",
                base=BASE,
                base_branch=None,
                settings=self.settings,
                roles=(IMPLEMENTER, PLANNER),
                model="told",
                sandbox="none",
                workspace="none",
            )
            revised = PlanRevised(by=None, add=self.tasks)
            await engine.append([(started, None), (revised, 1)])
            return engine
        await engine.append([(RunResumed(), None)])
        for name in sorted(state.running):
            attempt = state.tasks[name].attempt
            lost = AttemptLost(task=name, attempt=attempt, why="killed", interrupted=True)
            await engine.append([(lost, None)])
        return engine
