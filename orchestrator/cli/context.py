"""What agents of a plan are told before their first call, measured: `check --context`.

Estimated offline from the very requests that a run would open with: no model is asked, no command
of the repository run, nothing written; git reads the base commit. What only a run can know (what
earlier tasks hand in, evidence, a reviewer's diff) is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.agent.parts import PromptParts
from orchestrator.agent.prompt import PARTS, part_bytes
from orchestrator.attempt.briefing import read_parts, rules_digests
from orchestrator.core.decide import StartAttempt
from orchestrator.core.events import Event, PlanRevised, RunStarted, StoredEvent
from orchestrator.core.machine import fold
from orchestrator.core.plan import Plan
from orchestrator.core.roles import Limits, Role
from orchestrator.core.state import RunState
from orchestrator.engine.orders import order
from orchestrator.errors import RepositoryError
from orchestrator.observers.summary import table
from orchestrator.observers.text import clean_line, plural
from orchestrator.spec import AttemptSpec
from orchestrator.tools.registry import build_tools
from orchestrator.tools.submit import submit_spec
from orchestrator.workspace.reading import CommitReader
from orchestrator.workspace.repository import Repository

BYTES_PER_TOKEN = 4
"""Near the mean of code and English; other scripts take more tokens a byte."""
TASKS_MAX = 200
"""Most tasks that are measured."""


async def missing_context(plan: Plan, folder: Path) -> list[str]:
    """Warnings about context files that the plan names and its base does not have."""
    named = [path for task in plan.tasks for path in task.context]
    if not named:
        return []
    try:
        repository = await Repository.open(folder)
        base = await repository.resolve(plan.base)
        missing = await repository.missing(base, named)
    except RepositoryError as error:
        return [f"context files were not looked up: {clean_line(str(error))}"]
    return [f"context: {clean_line(path)} is no file of {base[:12]}" for path in missing]


async def context_lines(plan: Plan, roles: Mapping[str, Role], folder: Path) -> list[str]:
    """The table of tokens by task and part, a line at a time. Raises `RepositoryError`."""
    repository = await Repository.open(folder)
    base = await repository.resolve(plan.base)
    measure = _Measure(repository.reader, base)
    orders = [spec for spec in _orders(plan, roles, base) if spec.role is not None]
    rows = [await measure.row(spec) for spec in orders[:TASKS_MAX]]
    rules = ", ".join(clean_line(path) for path in await rules_digests(repository.reader, base))
    lines = [f"tokens before the first call, about ({BYTES_PER_TOKEN} bytes each), at {base[:12]}:"]
    lines += _aligned(rows) if rows else ["no task has an agent"]
    if len(orders) > TASKS_MAX:
        lines.append(f"and {plural(len(orders) - TASKS_MAX, 'task')} more")
    lines.append(f"rules files: {rules or 'none'}")
    lines.append("what earlier tasks hand in, evidence and diffs come on top")
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    names = ["prompt" if part == "task" else part for part in PARTS]
    head = ["task", *names, "total", "role"]
    right = frozenset(range(1, len(head) - 1))
    return ["  ".join(cells).rstrip() for cells in table([head, *rows], right=right)]


@dataclass(slots=True)
class _Measure:
    """Sizes of requests; what several tasks share is read once."""

    reader: CommitReader
    base: str
    _parts: dict[tuple[object, ...], PromptParts] = field(default_factory=dict)

    async def row(self, spec: AttemptSpec) -> list[str]:
        """A task's cells."""
        role = spec.role
        assert role is not None
        key = (role.writes, role.product, spec.task.writes, spec.task.context)
        if key not in self._parts:
            self._parts[key] = await read_parts(self.reader, spec, role, start=self.base)
        tools = [*(tool.spec for tool in build_tools(role.tools)), submit_spec(role.product)]
        sizes = part_bytes(spec, role, self._parts[key], tools)
        counts = [-(-sizes[part] // BYTES_PER_TOKEN) for part in PARTS]
        return [spec.task.id, *(f"{count:,}" for count in (*counts, sum(counts))), role.name]


def _orders(plan: Plan, roles: Mapping[str, Role], base: str) -> Iterator[AttemptSpec]:
    """The orders that a run of the plan would give, as they are before anything has ended."""
    state = _begun(plan, roles, base)
    for task in plan.tasks:
        yield order(state, StartAttempt(task=task.id, attempt=1, limits=Limits(), cause=None))


def _begun(plan: Plan, roles: Mapping[str, Role], base: str) -> RunState:
    """A run of the plan that has just begun."""
    run = "check"
    started = RunStarted(
        repository="",
        base=base,
        base_branch=None,
        settings=plan.settings,
        roles=tuple(roles.values()),
        model="",
        sandbox="",
        workspace="",
    )
    events: list[Event] = [started, PlanRevised(by=None, add=plan.tasks, why="the plan")]
    return fold(
        run,
        [
            StoredEvent(seq=seq, run=run, at=0.0, cause=None, body=body)
            for seq, body in enumerate(events, start=1)
        ],
    )
