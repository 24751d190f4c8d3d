"""Attempts that end through no fault of their agent: what is lost, what is paused, what it cost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from orchestrator.errors import DiskFullError
from orchestrator.messages import Message, Reply, Request, ToolUse
from orchestrator.ports import Model, ModelError, Spend
from orchestrator.spec import AttemptOutcome
from tests.attempt.rig import EXPLORER, IMPLEMENTER, Rig, Watched, bash, call, gate, submit, turn
from tests.support.repositories import commit_on

USAGE: JsonValue = {"input_tokens": 100, "output_tokens": 10, "usd": 0.5}


@dataclass(slots=True)
class Before:
    """A model with something that happens before its second reply."""

    inner: Model
    happens: Callable[[], None]
    asked: int = 0

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        self.asked += 1
        if self.asked == 2:
            self.happens()
        return await self.inner.complete(request, spend)


async def with_trouble(rig: Rig, happens: Callable[[], None]) -> AttemptOutcome:
    """A writer whose first reply costs something; `happens` before it hands in."""
    rig.script(turn(bash("echo b > b"), usage=USAGE), turn(submit(), usage=USAGE))
    rig.model = Watched(Before(rig.model, happens))
    return await rig.run(rig.spec(IMPLEMENTER, gate("true")))


def out_of_credit() -> None:
    raise ModelError("pause", "the credit \x1b[31mbalance is too low")


@pytest.mark.asyncio
async def test_the_providers_hard_limit_pauses_and_fails_nothing(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    outcome = await with_trouble(rig, out_of_credit)
    assert (outcome.status, outcome.reason) == ("paused", None)
    assert "balance is too low" in outcome.evidence
    assert "\x1b" not in outcome.evidence
    assert (outcome.usage.calls, outcome.usage.usd) == (1, 0.5)
    assert rig.refs() == {}


@pytest.mark.asyncio
async def test_a_workspace_that_vanishes_loses_the_attempt_with_what_it_cost(
    tmp_path: Path,
) -> None:
    rig = await Rig.make(tmp_path)
    place = rig.state / "trees" / "r1.work.1"
    outcome = await with_trouble(rig, lambda: os.rename(place, tmp_path / "moved"))
    assert (outcome.status, outcome.reason) == ("lost", None)
    assert "the workspace is gone" in outcome.evidence
    assert (outcome.usage.calls, outcome.usage.usd) == (2, 1.0)


@pytest.mark.asyncio
async def test_a_gate_whose_output_cannot_be_kept_loses_the_attempt(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    outcome = await with_trouble(rig, (rig.state / "outputs").rmdir)
    assert outcome.status == "lost"
    assert "outputs" in outcome.evidence
    assert outcome.usage.calls == 2


@pytest.mark.asyncio
async def test_a_result_that_cannot_be_kept_is_no_result(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)

    def block() -> None:
        (rig.hub.path / "refs" / "orchestrate").write_text("in the way", encoding="utf-8")

    outcome = await with_trouble(rig, block)
    assert outcome.status == "lost"
    assert outcome.commit is None
    assert (outcome.usage.calls, outcome.usage.usd) == (2, 1.0)


@pytest.mark.asyncio
async def test_a_need_that_is_not_in_the_hub_is_the_machines_fault(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    needs = {"a": "1" * 40, "b": rig.base}
    outcome = await rig.run(rig.spec(None, inputs=needs))
    assert (outcome.status, outcome.reason, outcome.usage.calls) == ("lost", None, 0)


@pytest.mark.asyncio
async def test_a_full_disk_stops_the_run_and_is_nobodys_failure(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    output = sha256(b"ok\n").hexdigest()
    (rig.state / "outputs" / f"{output}.txt").symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="No space left"):
        await rig.run(rig.spec(None, gate("echo ok")))


@pytest.mark.asyncio
async def test_a_lost_attempt_is_repeated_under_its_number(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    place = rig.state / "trees" / "r1.work.1"
    await with_trouble(rig, lambda: os.rename(place, tmp_path / "moved"))
    outcome = await with_trouble(rig, lambda: None)
    assert (outcome.status, outcome.usage.calls) == ("succeeded", 2)
    assert rig.refs() == {"work/1": outcome.commit}
    kept = sorted(path.name for path in (rig.state / "transcripts").iterdir())
    assert kept == ["work.1.jsonl", "work.1.lost-1.jsonl"]


@dataclass(slots=True)
class Silent:
    """A model that never answers its second call."""

    inner: Model
    waits: anyio.Event
    asked: int = 0

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        self.asked += 1
        if self.asked == 2:
            self.waits.set()
            await anyio.sleep_forever()
        return await self.inner.complete(request, spend)


@pytest.mark.asyncio
async def test_cancelling_an_attempt_leaves_nothing_open_or_lying_about(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(bash("echo b > b")))
    silent = Silent(rig.model, anyio.Event())
    rig.model = Watched(silent)
    outcomes: list[AttemptOutcome] = []

    async def attempt() -> None:
        outcomes.append(await rig.run(rig.spec(IMPLEMENTER)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(attempt)
            await silent.waits.wait()
            group.cancel_scope.cancel()
    assert outcomes == []
    assert [name for name in os.listdir(rig.state / "trees") if name != ".trash"] == []
    still_open = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert [path for path in still_open if path.startswith(str(tmp_path))] == []


@pytest.mark.asyncio
async def test_a_script_that_does_not_fit_fails_the_task(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(bash("echo b > b")), turn(submit(), expect="never printed"))
    outcome = await rig.run(rig.spec(IMPLEMENTER))
    assert (outcome.status, outcome.reason) == ("failed", "script")
    assert "expected `never printed`" in outcome.evidence
    assert rig.shown(outcome.commit or "", "b") == "b"


@pytest.mark.asyncio
async def test_a_model_that_refuses_fails_the_task_at_once(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(stop_reason="refusal"))
    outcome = await rig.run(rig.spec(EXPLORER))
    assert (outcome.status, outcome.reason, outcome.usage.calls) == ("failed", "refused", 1)


@pytest.mark.asyncio
async def test_gates_of_an_attempt_get_the_tasks_environment(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    need = commit_on(rig.top, rig.base, {"b": "1\n"})
    spec = rig.spec(
        None,
        gate('echo "$A $B"', env={"B": "gate"}),
        inputs={"b": need},
        env={"A": "task", "B": "task"},
    )
    outcome = await rig.run(spec)
    assert outcome.gates[0].tail == "task gate"


@pytest.mark.asyncio
async def test_usage_of_an_agents_own_failed_calls_is_counted(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(call("NoSuchTool"), usage=USAGE), turn(say="a", usage=USAGE), turn(say="b"))
    outcome = await rig.run(rig.spec(EXPLORER))
    assert (outcome.status, outcome.usage.calls, outcome.usage.usd) == ("failed", 3, 1.0)
    assert outcome.usage.input_tokens == 200
    assert isinstance(rig.model.requests[1].messages[1], Message)
    assert isinstance(rig.model.requests[1].messages[1].blocks[0], ToolUse)
