"""The calls of one turn: order, concurrency, failures, caps, and what is left undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import pytest

from orchestrator.agent.calls import CALLS_PER_TURN_MAX, Accepted, Caller, Returned
from orchestrator.core.products import Product
from orchestrator.errors import WorkspaceError
from orchestrator.messages import ToolResult, ToolSpec, ToolUse
from orchestrator.ports import Tool, ToolError, Workspace
from tests.agent.examples import Desk, role, use
from tests.tools.trees import workspace_of

Work = Callable[[Mapping[str, object]], Awaitable[str]]


class MadeTool:
    """A tool that does what a test says."""

    def __init__(self, name: str, work: Work, *, read_only: bool = True) -> None:
        self._spec = ToolSpec(name=name, description="", input_schema={}, read_only=read_only)
        self._work = work

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def __call__(self, args: Mapping[str, object], workspace: Workspace) -> str:
        return await self._work(args)


async def ask(
    tmp_path: Path,
    calls: list[ToolUse],
    *tools: Tool,
    desk: Desk | None = None,
    only_submit: bool = False,
    seconds_max: float = 30,
) -> tuple[ToolResult, ...]:
    async with workspace_of(tmp_path, {"a.txt": "x"}) as workspace:
        caller = Caller(role(), tools, workspace, desk or Desk())
        turn = await caller.turn(calls, seconds_max=seconds_max, only_submit=only_submit)
    return turn.results


@pytest.mark.asyncio
async def test_reading_calls_run_together_and_keep_their_order(tmp_path: Path) -> None:
    everyone = anyio.Event()
    waiting: list[object] = []

    async def meet(args: Mapping[str, object]) -> str:
        waiting.append(args["n"])
        if len(waiting) == 3:
            everyone.set()
        with anyio.fail_after(10):
            await everyone.wait()
        return f"met {args['n']}"

    calls = [use("Meet", f"c{n}", n=n) for n in range(3)]
    answers = await ask(tmp_path, calls, MadeTool("Meet", meet))
    assert [answer.content for answer in answers] == ["met 0", "met 1", "met 2"]
    assert [answer.tool_use_id for answer in answers] == ["c0", "c1", "c2"]


@pytest.mark.asyncio
async def test_writing_calls_run_one_by_one_between_the_reading_ones(tmp_path: Path) -> None:
    log: list[str] = []

    def noted(name: str) -> Work:
        async def work(args: Mapping[str, object]) -> str:
            log.append(f"{name}{args['n']} begins")
            await anyio.lowlevel.checkpoint()
            log.append(f"{name}{args['n']} ends")
            return "ok"

        return work

    tools = [MadeTool("R", noted("r")), MadeTool("W", noted("w"), read_only=False)]
    calls = [use(name, f"c{n}", n=n) for n, name in enumerate("RRWWR")]
    await ask(tmp_path, calls, *tools)
    assert set(log[:4]) == {"r0 begins", "r1 begins", "r0 ends", "r1 ends"}
    assert log[:2] == ["r0 begins", "r1 begins"]
    assert log[4:] == ["w2 begins", "w2 ends", "w3 begins", "w3 ends", "r4 begins", "r4 ends"]


@pytest.mark.asyncio
async def test_A01_every_call_is_answered_in_order_also_when_one_raises(tmp_path: Path) -> None:
    async def fail(args: Mapping[str, object]) -> str:
        raise ToolError("try the other way")

    async def break_down(args: Mapping[str, object]) -> str:
        raise KeyError("oops")

    async def work(args: Mapping[str, object]) -> str:
        return " "

    tools = [MadeTool("Fail", fail), MadeTool("Break", break_down), MadeTool("Work", work)]
    names = ["Break", "Fail", "Nowhere", "Work", "Break"]
    answers = await ask(tmp_path, [use(name, f"c{n}") for n, name in enumerate(names)], *tools)
    assert [answer.tool_use_id for answer in answers] == ["c0", "c1", "c2", "c3", "c4"]
    assert [answer.is_error for answer in answers] == [True, True, True, False, True]
    assert answers[0].content == "Break broke down (KeyError: 'oops'); try another way"
    assert answers[1].content == "try the other way"
    assert answers[3].content == "(no output)"


@pytest.mark.asyncio
async def test_cancellation_is_not_swallowed(tmp_path: Path) -> None:
    started = anyio.Event()
    ended: list[str] = []

    async def wait(args: Mapping[str, object]) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            ended.append("cancelled")
            raise
        return "never"

    async with workspace_of(tmp_path, {"a.txt": "x"}) as workspace:
        caller = Caller(role(), [MadeTool("Wait", wait)], workspace, Desk())
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def turn() -> None:
                    await caller.turn([use("Wait")], seconds_max=60, only_submit=False)
                    ended.append("answered")

                tasks.start_soon(turn)
                await started.wait()
                tasks.cancel_scope.cancel()
    assert ended == ["cancelled"]


@pytest.mark.asyncio
async def test_a_workspace_that_is_gone_is_nobodys_failure(tmp_path: Path) -> None:
    async def vanish(args: Mapping[str, object]) -> str:
        raise WorkspaceError("the workspace has vanished")

    with pytest.raises(WorkspaceError, match="has vanished"):
        await ask(tmp_path, [use("V", "a"), use("V", "b")], MadeTool("V", vanish))


@pytest.mark.asyncio
async def test_calls_that_outlast_the_attempt_are_ended_and_answered(tmp_path: Path) -> None:
    async def wait(args: Mapping[str, object]) -> str:
        await anyio.sleep_forever()
        return "never"

    answers = await ask(
        tmp_path, [use("W", "a"), use("W", "b")], MadeTool("W", wait), seconds_max=0
    )
    assert {answer.content for answer in answers} == {"ended: the attempt's time is over"}


@pytest.mark.asyncio
async def test_the_calls_of_a_turn_share_its_time(tmp_path: Path) -> None:
    begun: list[object] = []

    async def wait(args: Mapping[str, object]) -> str:
        begun.append(args["n"])
        await anyio.sleep_forever()
        return "never"

    calls = [use("W", f"c{n}", n=n) for n in range(3)]
    answers = await ask(tmp_path, calls, MadeTool("W", wait, read_only=False), seconds_max=0.05)
    assert begun == [0], "the first used up what there was for all"
    assert {answer.content for answer in answers} == {"ended: the attempt's time is over"}


@pytest.mark.asyncio
async def test_a_product_is_not_handed_in_over_a_failed_edit(tmp_path: Path) -> None:
    async def fail(args: Mapping[str, object]) -> str:
        raise ToolError("old_string occurs 0 times")

    desk = Desk()
    calls = [use("Edit"), use("SubmitChange", summary="done")]
    answers = await ask(tmp_path, calls, MadeTool("Edit", fail, read_only=False), desk=desk)
    assert desk.products == []
    assert answers[1].is_error
    assert answers[1].content.startswith("not handed in: Edit before it in the same reply failed")


@pytest.mark.asyncio
async def test_on_the_last_turn_only_submit_counts(tmp_path: Path) -> None:
    async def work(args: Mapping[str, object]) -> str:
        return "worked"

    desk = Desk()
    calls = [use("Work", "1"), use("Work", "2"), use("SubmitChange", summary="done")]
    calls += [use("Work", "3"), use("Work", "4")]
    answers = await ask(tmp_path, calls, MadeTool("Work", work), desk=desk, only_submit=True)
    not_now = "not run: only SubmitChange counts in a last reply"
    too_late = "not run: your work was handed in and accepted"
    assert [answer.content for answer in answers] == [not_now] * 2 + ["accepted"] + [too_late] * 2
    assert len(desk.products) == 1


@pytest.mark.asyncio
async def test_results_are_capped_one_by_one_and_together(tmp_path: Path) -> None:
    async def flood(args: Mapping[str, object]) -> str:
        return "line of output\n" * 10_000

    calls = [use("Flood", f"c{n}") for n in range(CALLS_PER_TURN_MAX + 2)]
    answers = await ask(tmp_path, calls, MadeTool("Flood", flood))
    sizes = [len(answer.content) for answer in answers]
    assert max(sizes) <= 20_100
    assert sum(sizes) <= 400_000
    assert "left out here: ask again" in answers[0].content
    assert answers[-1].content.startswith(f"not run: at most {CALLS_PER_TURN_MAX} calls")


@pytest.mark.asyncio
async def test_Z11_control_and_half_characters_in_results_are_shown_as_escapes(
    tmp_path: Path,
) -> None:
    async def odd(args: Mapping[str, object]) -> str:
        raise ToolError("no file a\udcffb")

    async with workspace_of(tmp_path / "gate", {"a.txt": "x"}) as workspace:
        caller = Caller(role(), [], workspace, Desk("gate: \x1b[2J\x1b]0;owned\x07 red"))
        turn = await caller.turn(
            [use("SubmitChange", summary="s")], seconds_max=30, only_submit=False
        )
    assert turn.results[0].content == "gate: \\x1b[2J\\x1b]0;owned\\x07 red"

    answers = await ask(tmp_path, [use("Odd")], MadeTool("Odd", odd))
    assert answers[0].content == "no file a\\udcffb"


@pytest.mark.asyncio
async def test_what_handing_in_says_comes_back(tmp_path: Path) -> None:
    async def hand_in(product: Product) -> Accepted | Returned:
        return Returned("the tree has conflict markers")

    async with workspace_of(tmp_path, {"a.txt": "x"}) as workspace:
        caller = Caller(role(), [], workspace, hand_in)
        turn = await caller.turn(
            [use("SubmitChange", summary="s")], seconds_max=30, only_submit=False
        )
    assert (turn.accepted, turn.results[0].is_error) == (False, True)
    assert turn.results[0].content == "the tree has conflict markers"
