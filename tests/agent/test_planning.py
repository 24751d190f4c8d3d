"""How a planner's attempt ends: with what fits, in whatever form, or after three that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from orchestrator.core.plan import ModelPrice, Task
from orchestrator.core.products import PlanProposal
from orchestrator.core.roles import Limits
from orchestrator.core.usage import Usage
from orchestrator.messages import Message, Reply, TextBlock
from orchestrator.ports import ModelError
from tests.agent.examples import Desk, EndlessModel, ListModel, reply, role, say, use
from tests.agent.rig import results, rig

PLANNER = role("Glob", "Read", product="plan", writes=False)
PATCHER = role("Read", product="patch", writes=False)
TASK = Task(id="plan", role="tried", prompt="Plan.")
GOOD: dict[str, JsonValue] = {"tasks": [{"id": "a", "needs": [], "prompt": "Do it."}]}
FENCED = f"```json\n{json.dumps(GOOD)}\n```"
PROSE = f"I would do it so: {json.dumps(GOOD)} and no other way."
NUMBER = json.dumps({"tasks": [{"id": 1, "needs": []}]})
NO_NEEDS: dict[str, JsonValue] = {"tasks": [{"id": "a"}]}


def text_of(message: Message) -> str:
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))


@pytest.mark.asyncio
@pytest.mark.parametrize("text", [FENCED, PROSE], ids=["fenced", "prose and json"])
async def test_P05_a_plan_in_text_counts_like_a_call(tmp_path: Path, text: str) -> None:
    model = ListModel([reply(use("Glob", pattern="*")), say(text)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert (ended.accepted, ended.reason) == (True, None)
        assert attempt.desk.products == [PlanProposal.model_validate(GOOD)]
        assert ended.usage.calls == 2
        assert text_of(attempt.written().entries[-1].message) == text


@pytest.mark.asyncio
async def test_P05_the_exact_fault_goes_back_and_the_prefix_stays(tmp_path: Path) -> None:
    model = ListModel([say(NUMBER), say(FENCED)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert ended.accepted
    first, second = model.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert (second.system, second.tools) == (first.system, first.tools)
    told = text_of(second.messages[-1])
    assert "tasks.0.id: Input should be a valid string" in told
    assert told.endswith("Mend it and hand it in by a call of SubmitPlan.")


@pytest.mark.asyncio
async def test_P05_the_third_plan_that_does_not_fit_is_the_last_each_is_charged(
    tmp_path: Path,
) -> None:
    many = "500 tasks are more than 50"
    model = EndlessModel(
        lambda number: [
            say(NUMBER),
            reply(use("SubmitPlan", "", **NO_NEEDS)),
            reply(use("SubmitPlan", "", **GOOD)),
        ][number - 1]
    )
    async with rig(tmp_path, desk=Desk(many)) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert (ended.accepted, ended.reason) == (False, "planner_invalid")
        assert "refused 3 times" in ended.evidence
        assert many in ended.evidence
        assert (len(model.requests), ended.usage.calls, ended.usage.tokens) == (3, 3, 45)
        assert results(attempt.written().entries[-1].message)[0].content == many
    assert "tasks.0.needs: Field required" in results(model.requests[2].messages[-1])[0].content


@pytest.mark.asyncio
@pytest.mark.parametrize("text", [NUMBER, '{"tasks": [}'])
async def test_P05_text_alone_ends_it_too(tmp_path: Path, text: str) -> None:
    model = EndlessModel(lambda _: say(text))
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert (ended.reason, len(model.requests)) == ("planner_invalid", 3)
        assert attempt.desk.products == []


@pytest.mark.asyncio
async def test_refusals_of_one_reply_count_once(tmp_path: Path) -> None:
    two = reply(use("SubmitPlan", "1", **NO_NEEDS), use("SubmitPlan", "2", tasks=3))
    model = ListModel([two, two, reply(use("SubmitPlan", "", **GOOD))])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model, acting=PLANNER, task=TASK)).accepted


@pytest.mark.asyncio
async def test_a_patch_is_counted_alike_and_other_products_are_not(tmp_path: Path) -> None:
    bad = reply(use("SubmitPatch", add="x"))
    model = EndlessModel(lambda number: bad if number < 3 else say('{"drop": "no id!"}'))
    async with rig(tmp_path / "patch") as attempt:
        ended = await attempt.run(model, acting=PATCHER, task=TASK)
        assert (ended.reason, len(model.requests)) == ("planner_invalid", 3)
    change = ListModel([*[reply(use("SubmitChange", summary="x"))] * 4])
    async with rig(tmp_path / "change", desk=Desk("red 1", "red 2", "red 3")) as attempt:
        assert (await attempt.run(change)).accepted


@pytest.mark.asyncio
async def test_text_without_a_plan_is_reminded_once_and_counts_as_nothing(tmp_path: Path) -> None:
    model = ListModel([say("I looked at {a.txt}."), say(NUMBER), say(FENCED)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model, acting=PLANNER, task=TASK)).accepted
    assert "Nothing is handed in yet" in text_of(model.requests[1].messages[-1])


@pytest.mark.asyncio
async def test_A02_a_cut_reply_hands_in_nothing(tmp_path: Path) -> None:
    model = ListModel([say(FENCED, stop="max_tokens"), say("done"), say("done")])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert (ended.reason, attempt.desk.products) == ("nothing_handed_in", [])


@pytest.mark.asyncio
async def test_a_writer_that_shows_an_object_has_handed_in_nothing(tmp_path: Path) -> None:
    model = ListModel([say('{"summary": "done", "tasks": [], "add": []}')] * 2)
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert (ended.reason, attempt.desk.products) == ("nothing_handed_in", [])


@pytest.mark.asyncio
async def test_P13_the_first_plan_that_fits_ends_the_attempt(tmp_path: Path) -> None:
    model = EndlessModel(
        lambda _: reply(use("SubmitPlan", "", **GOOD), use("Read", file_path="a.txt"))
    )
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model, acting=PLANNER, task=TASK)).accepted
        assert (len(model.requests), len(attempt.desk.products)) == (1, 1)


# --- what failed tries cost ---------------------------------------------------------------------

PAID = Usage(input_tokens=100, usd=0.5)


@pytest.mark.asyncio
async def test_tries_without_an_answer_are_paid_for(tmp_path: Path) -> None:
    model = ListModel([reply(use("Glob", pattern="*")), ModelError("provider", "cut", usage=PAID)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=PLANNER, task=TASK)
        assert ended.reason == "provider"
        assert (ended.usage.tokens, ended.usage.usd, ended.usage.calls) == (115, 0.5, 1)


# --- prices of the plan -------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_price_of_the_plan_bounds_the_dollars_of_a_model_unknown_otherwise(
    tmp_path: Path,
) -> None:
    prices = {"model-a": ModelPrice(input=1_000, output=1_000)}
    model = EndlessModel(_costly)
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(
            model, acting=PLANNER, task=TASK, limits=Limits(usd=20.0), prices=prices
        )
        assert (ended.reason, ended.ceiling) == ("limit", "usd")
        assert ended.usage.usd <= 20.0
    # A thousand dollars a million tokens: the first call may take 20,000 tokens in all.
    assert model.requests[0].max_tokens < 16_384


def _costly(number: int) -> Reply:
    usage = Usage(input_tokens=5_000, output_tokens=500, usd=5.5, calls=1)
    return reply(use("Glob", f"id-{number}", pattern=f"*{number}"), usage=usage)
