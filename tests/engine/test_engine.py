"""The engine over a real journal: what it records, in which order, and what cannot harm it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator.core.events import (
    ApprovalGiven,
    AttemptFailed,
    AttemptLost,
    RunFinished,
    StoredEvent,
)
from orchestrator.core.goals import goal_plan
from orchestrator.core.products import PlanProposal
from orchestrator.core.state import RunState, TaskStatus
from orchestrator.executors.local import LocalExecutor
from orchestrator.journal import Journal
from orchestrator.spec import AttemptOutcome, AttemptSpec
from tests.engine.support import (
    COMMIT,
    IMPLEMENTER,
    PLANNER,
    TREE,
    Bench,
    ToldExecutor,
    succeeded,
    task,
)


async def _good(_spec: AttemptSpec) -> AttemptOutcome:
    return succeeded()


@pytest.mark.asyncio
async def test_a_chain_is_journaled_intent_before_outcome(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [task("a"), task("b", "a")])
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(_good))).run()
    assert state.status == "succeeded"
    assert bench.types() == [
        *("RunStarted", "PlanRevised"),
        *("AttemptStarted", "AttemptSucceeded"),
        *("AttemptStarted", "AttemptSucceeded"),
        "RunFinished",
    ]
    assert bench.branch.published == [COMMIT]


@pytest.mark.asyncio
async def test_an_event_is_durable_when_an_observer_sees_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [task("a")])
    seen: list[bool] = []

    def observe(event: StoredEvent, _state: RunState) -> None:
        stored = Journal.open(bench.database).events("run")
        seen.append(event in stored)

    with bench.log() as log:
        await (await bench.engine(log, ToldExecutor(_good), [observe])).run()
    assert len(seen) == 5
    assert all(seen)


@pytest.mark.asyncio
async def test_an_observer_that_raises_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [task("a"), task("b", "a")])
    calls: list[int] = []

    def broken(event: StoredEvent, _state: RunState) -> None:
        calls.append(event.seq)
        raise RuntimeError("no terminal")

    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(_good), [broken])).run()
    assert state.status == "succeeded"
    assert calls == [1]


@pytest.mark.asyncio
async def test_S01_a_failure_blocks_its_dependents_once_and_leaves_the_others(
    tmp_path: Path,
) -> None:
    async def script(spec: AttemptSpec) -> AttemptOutcome:
        if spec.task.id == "a":
            return AttemptOutcome(status="failed", reason="stuck", evidence="again and again")
        return succeeded()

    bench = Bench(tmp_path, [task("a"), task("b", "a"), task("c", "b"), task("d")])
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(script))).run()
    assert state.status == "failed"
    assert {name: str(held.status) for name, held in state.tasks.items()} == {
        "a": "failed",
        "b": "blocked",
        "c": "blocked",
        "d": "succeeded",
    }
    assert bench.types().count("TaskBlocked") == 2
    assert bench.branch.published == [None], "nothing joins the two ends, so nothing is whole"


@pytest.mark.asyncio
async def test_S11_a_worker_that_breaks_is_lost_not_failed_and_its_siblings_go_on(
    tmp_path: Path,
) -> None:
    tries: list[str] = []

    async def breaks_once(spec: AttemptSpec) -> AttemptOutcome:
        tries.append(spec.task.id)
        if tries.count("a") == 1 and spec.task.id == "a":
            raise MemoryError("worker ran out of memory")
        return succeeded()

    bench = Bench(tmp_path, [task("a"), task("b")])
    local = LocalExecutor(breaks_once)
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(local.run))).run()
    lost = [body for body in bench.bodies() if isinstance(body, AttemptLost)]
    assert state.status == "succeeded"
    assert [state.tasks[name].status for name in ("a", "b")] == [TaskStatus.SUCCEEDED] * 2
    assert len(lost) == 1
    assert "ran out of memory" in lost[0].why
    assert tries.count("b") == 1


@pytest.mark.asyncio
async def test_S10_the_machine_alone_counts_attempts(tmp_path: Path) -> None:
    async def script(_spec: AttemptSpec) -> AttemptOutcome:
        return AttemptOutcome(status="failed", reason="limit", evidence="turns")

    bench = Bench(tmp_path, [task("a", attempts=3).model_copy(update={"on_failure": "retry"})])
    executor = ToldExecutor(script)
    with bench.log() as log:
        state = await (await bench.engine(log, executor)).run()
    assert executor.asked == [("a", 1), ("a", 2), ("a", 3)]
    assert state.tasks["a"].status is TaskStatus.FAILED
    failed = [body for body in bench.bodies() if isinstance(body, AttemptFailed)]
    assert [body.attempt for body in failed] == [1, 2, 3]


@pytest.mark.asyncio
async def test_an_interrupt_loses_attempts_pauses_the_run_and_resume_ends_it(
    tmp_path: Path,
) -> None:
    begun = anyio.Event()

    async def waits(spec: AttemptSpec) -> AttemptOutcome:
        if spec.task.id == "a":
            return succeeded()
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    bench = Bench(tmp_path, [task("a"), task("b", "a")])
    first = ToldExecutor(waits)
    with bench.log() as log:
        engine = await bench.engine(log, first)
        async with anyio.create_task_group() as group:
            group.start_soon(engine.run)
            await begun.wait()
            engine.interrupt("SIGINT")
    assert bench.types()[-2:] == ["AttemptLost", "RunPaused"]
    assert engine.state.status == "paused"

    second = ToldExecutor(_good)
    with bench.log() as log:
        state = await (await bench.engine(log, second)).run()
    assert state.status == "succeeded"
    assert first.asked == [("a", 1), ("b", 1)]
    assert second.asked == [("b", 1)], "a finished attempt is not run again"


@pytest.mark.asyncio
async def test_L03_a_hard_limit_of_the_provider_pauses_the_run_and_fails_no_task(
    tmp_path: Path,
) -> None:
    async def script(spec: AttemptSpec) -> AttemptOutcome:
        if spec.task.id == "a":
            return AttemptOutcome(
                status="paused", evidence="credit balance is too low", until=1_700_000_000.0
            )
        return succeeded()

    bench = Bench(tmp_path, [task("a"), task("b"), task("c", "a", "b")])
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(script))).run()
    assert state.status == "paused"
    assert "credit balance" in state.pause
    assert state.pause_until == 1_700_000_000.0
    assert not any(isinstance(body, AttemptFailed | RunFinished) for body in bench.bodies())
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(_good))).run()
    assert state.status == "succeeded"


PROPOSAL = PlanProposal.model_validate(
    {
        "name": "two parts",
        "gates": ["make test"],
        "tasks": [
            {"id": "a", "role": "implementer", "prompt": "x", "needs": []},
            {"id": "b", "role": "implementer", "prompt": "x", "needs": ["a"]},
        ],
    }
)


async def _plans(spec: AttemptSpec) -> AttemptOutcome:
    """A planner that hands in its plan, and others that do their work."""
    if spec.role is not None and spec.role.product == "plan":
        return AttemptOutcome(status="succeeded", commit=COMMIT, tree=TREE, product=PROPOSAL)
    return succeeded()


@pytest.mark.asyncio
async def test_a_goal_becomes_a_plan_and_is_carried_out_in_one_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ())
    roles = {role.name: role for role in (PLANNER, IMPLEMENTER)}
    bench.tasks = goal_plan(bench.settings, roles).tasks
    executor = ToldExecutor(_plans)
    with bench.log() as log:
        state = await (await bench.engine(log, executor)).run()
    assert state.status == "succeeded"
    assert executor.asked == [("plan", 1), ("a", 1), ("b", 1), ("integrate", 1)]
    assert state.settings.name == "two parts"


@pytest.mark.asyncio
async def test_a_plan_that_waits_is_carried_out_by_the_process_that_was_told_so(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ())
    bench.settings = bench.settings.model_copy(update={"approve": ("plan",)})
    bench.tasks = goal_plan(bench.settings, {"planner": PLANNER}).tasks
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(_plans))).run()
    assert (state.status, list(state.asked)) == ("paused", ["plan"])
    with bench.log() as log:
        state = await (await bench.engine(log, ToldExecutor(_plans))).run()
    assert bench.types()[-3:] == ["RunPaused", "RunResumed", "RunPaused"]
    executor = ToldExecutor(_plans)
    with bench.log() as log:
        engine = await bench.engine(log, executor)
        await engine.append([(ApprovalGiven(task="plan"), None)])
        state = await engine.run()
    assert state.status == "succeeded"
    assert executor.asked == [("a", 1), ("b", 1), ("integrate", 1)], (
        "the planner is not asked again"
    )
