"""How an attempt ends that goes on too long, or round in circles."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator.core.roles import Limits
from orchestrator.core.usage import Usage
from orchestrator.messages import Reply, Request, TextBlock
from orchestrator.ports import Spend
from tests.agent.examples import Desk, EndlessModel, ListModel, reply, say, use
from tests.agent.rig import results, rig

SUBMIT = use("SubmitChange", summary="done")


def bash(number: int, command: str) -> Reply:
    return reply(TextBlock(text="fine"), use("Bash", f"b{number}", command=command))


@pytest.mark.asyncio
async def test_A05_turns_that_run_out_are_no_success(tmp_path: Path) -> None:
    model = EndlessModel(lambda number: bash(number, f"echo {number} >> log"))
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(turns=2))
        assert await attempt.content("log") == "1\n"
    assert (ended.accepted, ended.reason) == (False, "limit")
    assert "turns: 2" in ended.evidence
    assert "The agent's last words: fine" in ended.evidence
    assert len(model.requests) == 2


@pytest.mark.asyncio
async def test_L13_the_last_turn_asks_to_hand_in(tmp_path: Path) -> None:
    model = ListModel([bash(1, "echo on"), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(turns=2))
    assert ended.accepted
    assert "last turn" not in model.requests[0].messages[0].text
    asked = model.requests[1].messages[2]
    assert asked.text.startswith("This is your last turn (turns: 2). Call SubmitChange now")


@pytest.mark.asyncio
async def test_A05_a_product_returned_on_the_last_turn_is_a_failure(tmp_path: Path) -> None:
    model = ListModel([reply(SUBMIT)])
    async with rig(tmp_path, desk=Desk("1 failed, 5 passed")) as attempt:
        ended = await attempt.run(model, limits=Limits(turns=1))
    assert ended.reason == "limit"
    assert "1 failed, 5 passed" in ended.evidence


@pytest.mark.asyncio
async def test_L13_tokens_end_it_within_the_ceiling(tmp_path: Path) -> None:
    def cost(request: Request) -> Usage:
        prompt = len(request.model_dump_json(exclude={"task", "attempt"})) // 4
        return Usage(input_tokens=prompt, output_tokens=1_000, calls=1)

    class Dear:
        """Bills each request by its size."""

        def __init__(self) -> None:
            self.requests: list[Request] = []

        async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
            self.requests.append(request)
            number = len(self.requests)
            call = use("Bash", f"b{number}", command=f"echo {number}")
            return reply(call, usage=cost(request))

    model = Dear()
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(tokens=60_000))
    assert ended.reason == "limit"
    assert "tokens: 60,000" in ended.evidence
    assert 20_000 < ended.usage.tokens <= 60_000
    assert "This is your last turn" in model.requests[-1].messages[-1].text


@pytest.mark.asyncio
async def test_minutes_end_a_model_that_never_answers(tmp_path: Path) -> None:
    class Silent:
        """Never answers."""

        async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
            await anyio.sleep_forever()
            raise AssertionError

    async with rig(tmp_path) as attempt:
        with anyio.fail_after(20):
            ended = await attempt.run(Silent(), limits=Limits(minutes=0.005))
    assert ended.reason == "limit"
    assert "the time was over" in ended.evidence


@pytest.mark.asyncio
async def test_minutes_are_measured_by_the_clock_that_is_given(tmp_path: Path) -> None:
    now = [1_000.0]

    def slow(number: int) -> Reply:
        now[0] += 50
        return bash(number, f"echo {number}")

    model = EndlessModel(slow)
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(minutes=5), clock=lambda: now[0])
    assert ended.reason == "limit"
    # After 200 of 300 seconds two turns of 50 s just fit; after 250 the last one is announced.
    assert "last turn (minutes: 5)" in model.requests[-1].messages[-1].text
    assert ended.usage.seconds == 50 * len(model.requests) <= 300


@pytest.mark.asyncio
async def test_A09_a_repeated_call_is_nudged_at_three_and_stopped_at_five(tmp_path: Path) -> None:
    model = EndlessModel(lambda number: bash(number, "echo no such file; exit 1"))
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        written = attempt.written()
    assert (ended.accepted, ended.reason) == (False, "stuck")
    assert "Bash(command='echo no such file; exit 1') ended 5 times like this" in ended.evidence
    assert len(model.requests) == 5
    answers = [results(entry.message) for entry in written.entries if entry.message.role == "user"]
    nudged = ["time that this call ends like this" in answer[0].content for answer in answers[1:]]
    assert nudged == [False, False, True, True, True]
    assert "This is the 3rd time" in answers[3][0].content


@pytest.mark.asyncio
async def test_A09_a_drifting_call_is_stopped_too(tmp_path: Path) -> None:
    model = EndlessModel(
        lambda number: reply(use("Read", f"r{number}", file_path="a.txt", offset=100 + number))
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
    assert (ended.reason, len(model.requests)) == ("stuck", 5)


@pytest.mark.asyncio
async def test_A09_a_product_returned_for_the_same_reason_five_times_is_stuck(
    tmp_path: Path,
) -> None:
    model = EndlessModel(lambda number: reply(use("SubmitChange", f"s{number}", summary="done")))
    async with rig(tmp_path, desk=Desk(*["1 failed in 0.31s"] * 20)) as attempt:
        ended = await attempt.run(model)
    assert (ended.reason, len(model.requests)) == ("stuck", 5)


@pytest.mark.asyncio
async def test_A21_waiting_on_output_that_changes_is_not_stuck(tmp_path: Path) -> None:
    def wait(number: int) -> Reply:
        if number == 9:
            return reply(SUBMIT)
        return bash(number, "echo x >> job.log; wc -l < job.log")

    async with rig(tmp_path) as attempt:
        ended = await attempt.run(EndlessModel(wait))
    assert ended.accepted


@pytest.mark.asyncio
async def test_a_long_run_of_different_work_is_left_alone(tmp_path: Path) -> None:
    def work(number: int) -> Reply:
        if number == 31:
            return reply(SUBMIT)
        if number % 2:
            return reply(
                use("Write", f"w{number}", file_path=f"f{number}.txt", content=f"{number}")
            )
        return bash(number, "ls missing")

    async with rig(tmp_path) as attempt:
        ended = await attempt.run(EndlessModel(work))
    assert ended.accepted


@pytest.mark.asyncio
async def test_a_chat_that_never_calls_ends_after_one_reminder(tmp_path: Path) -> None:
    model = EndlessModel(lambda _: say("Shall I go on?"))
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(turns=50))
    assert (ended.reason, len(model.requests)) == ("nothing_handed_in", 2)


@pytest.mark.asyncio
async def test_R04_tries_that_bring_no_answer_are_paid_for_and_end_at_the_ceiling(
    tmp_path: Path,
) -> None:
    class Broken:
        """Never brings an answer, and bills each try."""

        def __init__(self) -> None:
            self.tries = 0

        async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
            assert spend is not None
            while True:
                self.tries += 1
                await spend(Usage(input_tokens=10_000))

    model = Broken()
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, limits=Limits(tokens=60_000))
    assert (ended.reason, ended.ceiling) == ("limit", "tokens")
    assert "after tries that brought no answer" in ended.evidence
    # A small prompt and the longest reply, 16,384 tokens, have to fit each time: they do in the
    # 20,000 that are left after four tries, and not in 10,000.
    assert model.tries == 5
    assert ended.usage.tokens == 10_000 * model.tries
    assert attempt.written().usage == ended.usage.model_copy(update={"seconds": 0.0})
