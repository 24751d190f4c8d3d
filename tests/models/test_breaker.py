"""The shared breaker: many agents, one server that is down for a while, and few calls to it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.messages import Reply
from orchestrator.models.breaker import Breaker
from orchestrator.models.patient import PatientModel
from orchestrator.models.trouble import Trouble
from orchestrator.ports import ModelError, Spend
from tests.models.answering import Down, Listed, answer, request, trouble
from tests.support.virtual_clock import WALL_AT_START, VirtualClock

SEEDS = st.integers(0, 2**32)


class Site:
    """Agents, one server, one breaker."""

    def __init__(self, clock: VirtualClock, once: Callable[..., Awaitable[Reply]], seed: int = 0):
        random = Random(seed)
        self.said: list[str] = []
        self.breaker = Breaker(clock, jitter=random.random, tell=self.said.append)
        self.model = PatientModel(once, breaker=self.breaker, clock=clock, jitter=random.random)
        self.replies = 0
        self.errors: list[ModelError] = []

    async def agent(self, turns: int) -> None:
        """Ask so many times in a row, or until there is no answer."""
        try:
            for _ in range(turns):
                await self.model.complete(request())
                self.replies += 1
        except ModelError as error:
            self.errors.append(error)


@pytest.mark.asyncio
async def test_L04_many_agents_do_not_hammer_a_server_that_is_down() -> None:
    clock = VirtualClock()
    server = Down(clock, [(10, 190)])
    site = Site(clock, server.once)
    async with anyio.create_task_group() as group:
        for _ in range(32):
            group.start_soon(site.agent, 20)
    assert site.replies == 32 * 20
    assert site.errors == []
    # Those that were under way when it went down, then one at a time: after 5, 10, 20, 40, 60 s
    # or half of that.
    assert server.asked_between(9, 11) <= 64
    assert server.asked_between(11, 190) <= 12
    assert site.said[0].startswith("the model's server cannot answer (the server said busy); all")
    assert site.said[-1] == "the model's server answers again"


@pytest.mark.asyncio
async def test_L04_while_it_is_open_one_probes_and_the_others_wait() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, 100)])
    site = Site(clock, server.once)
    for _ in range(5):
        with pytest.raises(Trouble):
            await site.breaker.ask(lambda: server.once(request()))
    assert site.breaker.is_open
    server.most_at_once = 0
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(site.agent, 1)
    assert site.replies == 20
    assert server.most_at_once == 1
    assert not site.breaker.is_open


@pytest.mark.asyncio
async def test_it_opens_after_five_busy_answers_in_a_row_of_anybody() -> None:
    clock = VirtualClock()
    server = Listed(clock, *[trouble()] * 4, answer(), *[trouble()] * 5)
    breaker = Breaker(clock)
    for number in range(10):
        assert not breaker.is_open, number
        with suppress(Trouble):
            await breaker.ask(lambda: server.once(request()))
    assert breaker.is_open
    assert len(server.asked_at) == 10


@pytest.mark.parametrize("kind", ["broken", "too_long", "invalid"])
@pytest.mark.asyncio
async def test_a_probe_that_is_answered_somehow_closes_it(kind: str) -> None:
    clock = VirtualClock()
    server = Listed(clock, *[trouble()] * 5, trouble(kind))  # type: ignore[arg-type]
    breaker = Breaker(clock)
    for _ in range(6):
        with pytest.raises(Trouble):
            await breaker.ask(lambda: server.once(request()))
    assert not breaker.is_open


@pytest.mark.asyncio
async def test_a_probe_that_meets_a_hard_limit_does_not_say_that_all_is_well() -> None:
    clock = VirtualClock()
    server = Listed(clock, *[trouble()] * 5, trouble("blocked"))
    site = Site(clock, server.once)
    await site.agent(1)
    assert [str(error) for error in site.errors] == ["the server said blocked"]
    assert [line for line in site.said if "answers again" in line] == []
    assert len(site.said) == 1


@pytest.mark.asyncio
async def test_it_stays_open_as_long_as_the_server_asks_for() -> None:
    clock = VirtualClock()
    server = Listed(clock, *[trouble(after=300.0)] * 5, answer())
    breaker = Breaker(clock)
    for _ in range(5):
        with pytest.raises(Trouble):
            await breaker.ask(lambda: server.once(request()))
    assert await breaker.ask(lambda: server.once(request())) == answer()
    assert server.asked_at[5] == 300


@pytest.mark.asyncio
async def test_L03_a_hard_limit_ends_every_wait_and_nobody_asks_again() -> None:
    clock = VirtualClock()
    open_for_long = [trouble(after=500.0)] * 5
    server = Listed(clock, *open_for_long)
    site = Site(clock, server.once)
    for _ in range(5):
        with pytest.raises(Trouble):
            await site.breaker.ask(lambda: server.once(request()))
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(site.agent, 1)
        await clock.sleep(1)
        site.breaker.pause("your credit is used up", WALL_AT_START + 3_600)
    assert clock.now() < 500
    assert [error.reason for error in site.errors] == ["pause"] * 8
    assert {str(error) for error in site.errors} == {"your credit is used up"}
    assert {error.until for error in site.errors} == {WALL_AT_START + 3_600}
    await site.agent(1)
    assert len(site.errors) == 9
    assert len(server.asked_at) == 5


@pytest.mark.asyncio
async def test_L03_a_hard_limit_also_ends_the_wait_for_a_probe() -> None:
    clock = VirtualClock()
    probes, go_on = anyio.Event(), anyio.Event()
    calls = 0

    async def once(asked: object, spend: Spend | None = None) -> Reply:
        nonlocal calls
        calls += 1
        if calls <= 5:
            raise trouble()
        probes.set()
        await go_on.wait()
        return answer()

    site = Site(clock, once)
    for _ in range(5):
        with pytest.raises(Trouble):
            await site.breaker.ask(lambda: once(request()))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as probe:
            probe.start_soon(site.agent, 1)
            await probes.wait()
            async with anyio.create_task_group() as others:
                for _ in range(3):
                    others.start_soon(site.agent, 1)
                await anyio.lowlevel.checkpoint()
                site.breaker.pause("no key")
            assert len(site.errors) == 3
            go_on.set()
    assert (site.replies, calls) == (1, 6)


@pytest.mark.asyncio
async def test_after_an_outage_the_next_one_is_probed_for_as_soon_as_the_first() -> None:
    clock = VirtualClock()
    outage = [trouble()] * 8
    server = Listed(clock, *outage, answer(), *outage, answer())
    breaker = Breaker(clock, jitter=lambda: 0.0)
    for _ in range(18):
        with suppress(Trouble):
            await breaker.ask(lambda: server.once(request()))
    waits = [0, 0, 0, 0, 2.5, 5, 10, 20]  # half of 5, 10, 20 and 40 s
    assert server.gaps == [*waits, 0, *waits]


@pytest.mark.asyncio
async def test_L03_answers_that_are_under_way_still_come_in() -> None:
    clock = VirtualClock()
    under_way, go_on = anyio.Event(), anyio.Event()

    async def once(asked: object, spend: Spend | None = None) -> Reply:
        if under_way.is_set():
            raise trouble("blocked")
        under_way.set()
        await go_on.wait()
        return answer()

    site = Site(clock, once)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(site.agent, 2)
            await under_way.wait()
            await site.agent(1)
            go_on.set()
    assert site.replies == 1
    assert [error.reason for error in site.errors] == ["pause", "pause"]


@pytest.mark.asyncio
async def test_L03_the_first_reason_for_a_pause_stays() -> None:
    site = Site(VirtualClock(), Listed(VirtualClock()).once)
    site.breaker.pause("no credit")
    site.breaker.pause("no key", 1.0)
    await site.agent(1)
    assert (str(site.errors[0]), site.errors[0].until) == ("no credit", None)


@pytest.mark.parametrize("when", ["it waits to probe", "it probes"])
@pytest.mark.asyncio
async def test_a_prober_that_is_cancelled_leaves_its_place_to_the_next(when: str) -> None:
    clock = VirtualClock()
    probes, hang = anyio.Event(), when == "it probes"
    calls = 0

    async def once(asked: object, spend: Spend | None = None) -> Reply:
        nonlocal calls
        calls += 1
        if calls <= 5:
            raise trouble()
        if calls == 6 and hang:
            probes.set()
            await anyio.sleep_forever()
        return answer()

    site = Site(clock, once)
    for _ in range(5):
        with pytest.raises(Trouble):
            await site.breaker.ask(lambda: once(request()))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def first() -> None:
                with scope:
                    await site.agent(1)

            group.start_soon(first)
            await anyio.lowlevel.checkpoint()
            for _ in range(3):
                group.start_soon(site.agent, 1)
            if hang:
                await probes.wait()
            scope.cancel()
    assert site.replies == 3
    assert calls == (9 if hang else 8)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_L04_whatever_goes_down_when_all_end_answered_by_few_calls(seed: int) -> None:
    random = Random(seed)
    agents, turns = random.randint(1, 24), random.randint(1, 6)
    start, length = random.uniform(0, 5), random.uniform(1, 1_500)

    async def run() -> tuple[Down, Site]:
        clock = VirtualClock()
        server = Down(clock, [(start, start + length)])
        site = Site(clock, server.once, seed)
        async with anyio.create_task_group() as group:
            for _ in range(agents):
                group.start_soon(site.agent, turns)
        return server, site

    server, site = anyio.run(run)
    assert site.errors == []
    assert site.replies == agents * turns
    # Up to five tries of each before it opens, and what was under way; then one at a time, the
    # fifth and later ones half a minute or more apart.
    at_first, probes = 2 * agents + 5, 6 + length / 30
    assert server.asked_between(start, start + length) <= at_first + probes


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_cancelled_at_any_time_the_breaker_stays_usable(seed: int) -> None:
    random = Random(seed)

    async def run() -> tuple[Site, Down, int]:
        clock = VirtualClock()
        server = Down(clock, [(2, 60), (70, 200)])
        site = Site(clock, server.once, seed)

        async def interrupted(until: float) -> None:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(site.agent, 100)
                    await clock.sleep(until)
                    scope.cancel()

        async with anyio.create_task_group() as group:
            for _ in range(random.randint(1, 12)):
                group.start_soon(interrupted, random.uniform(0, 300))
        before = site.replies
        await site.agent(3)
        return site, server, before

    site, _, before = anyio.run(run)
    assert site.replies == before + 3
    assert site.errors == []
    assert not site.breaker.is_open


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_L03_an_endless_outage_pauses_everybody_soon_after_half_an_hour(seed: int) -> None:
    async def run() -> tuple[Site, Down, float]:
        clock = VirtualClock()
        server = Down(clock, [(0, math.inf)])
        site = Site(clock, server.once, seed)
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(site.agent, 1)
        return site, server, clock.now()

    site, server, ended = anyio.run(run)
    assert [error.reason for error in site.errors] == ["pause"] * 6
    assert 1_800 <= ended <= 2_000
    assert len(server.asked_at) <= 6 + 5 + 70


def test_the_same_draws_make_the_same_run() -> None:
    async def run() -> list[float]:
        clock = VirtualClock()
        server = Down(clock, [(3, 400)])
        site = Site(clock, server.once, seed=5)
        async with anyio.create_task_group() as group:
            for _ in range(7):
                group.start_soon(site.agent, 4)
        return server.asked_at

    assert anyio.run(run) == anyio.run(run)
