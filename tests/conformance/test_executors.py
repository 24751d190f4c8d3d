"""What every executor must do: the promises of `ports.Executor`.

Each gets the same attempts to carry out, by a function of the test that stands for the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio import CancelScope
from pydantic import BaseModel

from orchestrator.core.events import GateRecord
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import Gate, PlanSettings, Task, When
from orchestrator.core.products import Change, Decision, Finding, Verdict
from orchestrator.core.roles import Limits, Role
from orchestrator.core.usage import Usage
from orchestrator.errors import (
    DiskFullError,
    InfrastructureError,
    OrchestratorError,
    RepositoryError,
    WorkspaceError,
)
from orchestrator.executors.local import ERROR_CHARS, TRACE_CHARS, LocalExecutor
from orchestrator.ports import Executor
from orchestrator.spec import AttemptOutcome, AttemptSpec, Input

Work = Callable[[AttemptSpec], Awaitable[AttemptOutcome]]
Make = Callable[[Work], Executor]

ROLE = Role(
    name="implementer",
    tools=("Bash", "Read"),
    product="change",
    writes=True,
    limits=Limits(usd=0.5),
    prompt="Do it. Ünïcödé.\n",
)
TASK = Task(
    id="work",
    role="implementer",
    prompt="x",
    needs=("a", "b"),
    writes=("src/",),
    gates=(Gate(name="g", run=("make", "test")),),
    check="make lint",
    env={"A": "1"},
    when=When(task="c", is_="failed"),
    require=1,
    limits=Limits(minutes=1.5),
)
SPEC = AttemptSpec(
    run="r1",
    task=TASK,
    attempt=3,
    goal="goal",
    role=ROLE,
    model="model-a",
    limits=Limits(usd=1.25, tokens=10, turns=2, minutes=0.5),
    base="b" * 40,
    started_at=1_700_000_000,
    inputs=(
        Input(
            task="a", commit="c" * 64, product=Change(summary="s", decisions=(Decision(what="w"),))
        ),
        Input(task="b", commit="d" * 40),
    ),
    decisions=(Decision(what="w", why="y", name="n"),),
    start_from="e" * 40,
    evidence="it failed",
    gates=(Gate(name="g", run="make test", timeout_s=1.5, env={"B": "2"}),),
    protect=("tests/", "*.toml"),
    graph=GraphView(
        settings=PlanSettings(name="p"),
        roles=(ROLE,),
        tasks=(TaskView(task=TASK, status="failed", summary="s"),),
        mends="work",
    ),
)
OUTCOME = AttemptOutcome(
    status="failed",
    commit="1" * 40,
    tree="2" * 40,
    product=Verdict(
        approve=False, findings=(Finding(path="a", line=1, severity="note", message="\u2028"),)
    ),
    reason="rejected",
    evidence="no\n\x00\U0001f600",
    usage=Usage(input_tokens=1, usd=0.1 + 0.2, seconds=1e-9, calls=1),
    gates=(
        GateRecord(
            name="g",
            argv=("make", "test"),
            tree="3" * 40,
            outcome="timeout",
            exit_status=None,
            seconds=2.0,
            base="passed",
            output="4",
            tail="t",
        ),
    ),
    left_out=("x: artefact",),
)


@pytest.fixture(params=[LocalExecutor], ids=["local"])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


def fails(error: Exception) -> Work:
    async def work(spec: AttemptSpec) -> AttemptOutcome:
        raise error

    return work


def unlinked(spec: AttemptSpec, other: AttemptSpec) -> bool:
    """Equal, but not the same objects: they may have crossed a wire."""
    values: list[tuple[BaseModel, BaseModel]] = [(spec, other), (spec.task, other.task)]
    return all(mine == theirs and mine is not theirs for mine, theirs in values)


@pytest.mark.asyncio
async def test_orders_and_outcomes_arrive_as_they_were(make: Make) -> None:
    arrived: list[AttemptSpec] = []

    async def work(spec: AttemptSpec) -> AttemptOutcome:
        arrived.append(spec)
        return OUTCOME

    outcome = await make(work).run(SPEC)
    assert unlinked(arrived[0], SPEC)
    assert outcome == OUTCOME
    assert outcome is not OUTCOME


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error",
    [
        InfrastructureError("git: the disk is on fire"),
        WorkspaceError("tree: the workspace is gone"),
        RepositoryError("git: not found"),
        OrchestratorError("anything else"),
    ],
)
async def test_the_machines_fault_loses_the_attempt(make: Make, error: Exception) -> None:
    outcome = await make(fails(error)).run(SPEC)
    assert outcome == AttemptOutcome(status="lost", evidence=str(error))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [KeyError("missing"), TimeoutError(), ExceptionGroup("g", [OSError(5)])]
)
async def test_S11_an_error_that_nobody_expected_loses_the_attempt(
    make: Make, error: Exception
) -> None:
    outcome = await make(fails(error)).run(SPEC)
    assert (outcome.status, outcome.reason) == ("lost", None)
    assert outcome.evidence.startswith(f"internal error: {error!r}\n")
    assert "test_executors.py" in outcome.evidence


@pytest.mark.asyncio
async def test_evidence_of_an_error_is_capped_and_can_be_stored(make: Make) -> None:
    huge = await make(fails(ValueError("x\udcff" * 100_000))).run(SPEC)
    assert huge.status == "lost"
    assert AttemptOutcome.model_validate_json(huge.model_dump_json()) == huge
    assert len(huge.evidence) <= 6 * (ERROR_CHARS + TRACE_CHARS)  # `\\udcff` for one character
    odd = await make(fails(WorkspaceError("caf\udce9: gone"))).run(SPEC)
    assert (odd.status, odd.evidence) == ("lost", "caf\\udce9: gone")


@pytest.mark.asyncio
async def test_an_outcome_that_cannot_cross_is_lost_and_reaches_nobody(make: Make) -> None:
    async def work(spec: AttemptSpec) -> AttemptOutcome:
        return OUTCOME.model_copy(update={"evidence": "half \ud800"})

    outcome = await make(work).run(SPEC)
    assert outcome.status == "lost"


@pytest.mark.asyncio
async def test_D05_a_full_disk_is_the_whole_runs_business(make: Make) -> None:
    with pytest.raises(DiskFullError, match="full"):
        await make(fails(DiskFullError("full"))).run(SPEC)


@pytest.mark.asyncio
async def test_cancellation_goes_through_and_ends_the_work(make: Make) -> None:
    ended: list[str] = []
    started = anyio.Event()

    async def work(spec: AttemptSpec) -> AttemptOutcome:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            ended.append(spec.task.id)
        raise AssertionError("unreachable")

    scope = CancelScope()
    outcomes: list[AttemptOutcome] = []

    async def attempt() -> None:
        with scope:
            outcomes.append(await make(work).run(SPEC))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(attempt)
            await started.wait()
            scope.cancel()
    assert (outcomes, ended, scope.cancelled_caught) == ([], ["work"], True)


@pytest.mark.asyncio
async def test_one_attempts_error_does_not_touch_its_siblings(make: Make) -> None:
    release = anyio.Event()

    async def work(spec: AttemptSpec) -> AttemptOutcome:
        if spec.attempt == 1:
            release.set()
            raise RuntimeError("broken")
        await release.wait()
        return OUTCOME

    executor = make(work)
    outcomes: dict[int, AttemptOutcome] = {}

    async def attempt(number: int) -> None:
        outcomes[number] = await executor.run(SPEC.model_copy(update={"attempt": number}))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in (3, 2, 1):
                group.start_soon(attempt, number)
    assert [outcomes[number].status for number in (1, 2, 3)] == ["lost", "failed", "failed"]
