"""The tests' own clock: who wakes when, and how a server ends a wait."""

from __future__ import annotations

import threading

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.messages import Reply, Request
from orchestrator.models.clock import Clock
from orchestrator.ports import Model, Spend
from tests.models.answering import answer, request
from tests.support.virtual_clock import Labelled, VirtualClock, conversation_of


@pytest.mark.asyncio
async def test_hours_pass_in_no_time() -> None:
    clock = VirtualClock()
    as_seam: Clock = clock
    before = as_seam.wall()
    with anyio.fail_after(10):
        await as_seam.sleep(3_600)
        await as_seam.sleep(-1)
    assert (clock.now(), clock.wall() - before, clock.slept) == (3_600, 3_600, 3_600)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=6), min_size=1, max_size=8))
def test_sleepers_wake_in_order_of_time(naps: list[list[float]]) -> None:
    async def run() -> tuple[list[float], list[float]]:
        clock, woke, ended = VirtualClock(), list[float](), list[float]()

        async def sleeper(mine: list[float]) -> None:
            for nap in mine:
                before = clock.now()
                await clock.sleep(nap)
                assert clock.now() >= before + nap
                woke.append(clock.now())
            ended.append(clock.now())

        async with anyio.create_task_group() as group:
            for mine in naps:
                group.start_soon(sleeper, mine)
        return woke, ended

    woke, ended = anyio.run(run)
    assert woke == sorted(woke)
    assert sorted(ended) == pytest.approx(sorted(sum(mine) for mine in naps))


@pytest.mark.asyncio
async def test_one_that_is_cancelled_holds_up_nobody() -> None:
    clock = VirtualClock()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def first() -> None:
                with scope:
                    await clock.sleep(5)

            group.start_soon(first)
            group.start_soon(clock.sleep, 50)
            await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert clock.now() == 50


class Silent:
    """Says nothing until its time is over; a thread stands for the server that knows it."""

    def __init__(self, clock: VirtualClock, silent_for: set[str]) -> None:
        self.clock = clock
        self.silent_for = silent_for
        self.expired: list[str] = []

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        text = request.messages[0].text
        if text in self.silent_for:
            threading.Thread(target=self.clock.expire, args=(conversation_of(text),)).start()
            with self.clock.timeout(90) as scope:
                await anyio.sleep_forever()
            assert scope.cancelled_caught
            self.expired.append(text)
        with self.clock.timeout(90) as scope:
            await anyio.lowlevel.checkpoint()
        assert not scope.cancelled_caught
        return answer(text)


@pytest.mark.parametrize("labelled", [True, False], ids=["labelled", "by the stack"])
@pytest.mark.asyncio
async def test_a_thread_ends_the_waits_of_one_conversation(labelled: bool) -> None:
    clock = VirtualClock()
    silent = Silent(clock, {"one", "three"})
    model: Model = Labelled(silent) if labelled else silent
    replies: list[str] = []

    async def ask(text: str) -> None:
        replies.append((await model.complete(request(text))).message.text)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for text in ("one", "two", "three"):
                group.start_soon(ask, text)
    assert sorted(silent.expired) == ["one", "three"]
    assert sorted(replies) == ["one", "three", "two"]


@pytest.mark.asyncio
async def test_what_expires_before_it_is_waited_for_ends_the_next_wait() -> None:
    clock = VirtualClock()
    clock.expire("")
    scopes = []
    for _ in range(2):
        with anyio.move_on_after(0.05), clock.timeout(90) as scope:
            await anyio.sleep_forever()
        scopes.append(scope.cancelled_caught)
    assert scopes == [True, False]
