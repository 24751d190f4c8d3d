"""The failure policy for one request: what is asked again, when, how often, and what it costs."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.usage import Usage
from orchestrator.messages import Reply
from orchestrator.models.backoff import LEFT_ALONE_S_MAX, Backoff, asked_for
from orchestrator.models.breaker import Breaker
from orchestrator.models.patient import PatientModel
from orchestrator.models.trouble import Trouble, TroubleKind
from orchestrator.ports import ModelError
from tests.models.answering import HALF_PAID, Down, Listed, answer, request, trouble
from tests.support.virtual_clock import WALL_AT_START, VirtualClock


def highest() -> float:
    """The draw that makes each wait (nearly) its ceiling."""
    return 1.0


def patient(server: Listed | Down, clock: VirtualClock, busy_max: int = 1_000) -> PatientModel:
    """The policy alone, unless `busy_max` is less than the failures there are."""
    breaker = Breaker(clock, jitter=highest, busy_max=busy_max)
    return PatientModel(server.once, breaker=breaker, clock=clock, jitter=highest)


async def asked(*items: Trouble | Reply) -> tuple[Listed, Reply | ModelError]:
    """What came of one request to a server that does what the list says."""
    clock = VirtualClock()
    server = Listed(clock, *items)
    try:
        return server, await patient(server, clock).complete(request())
    except ModelError as error:
        return server, error


@pytest.mark.asyncio
async def test_an_answer_is_given_on_as_it_is() -> None:
    server, reply = await asked(answer())
    assert reply == answer()
    assert server.asked_at == [0.0]


@pytest.mark.asyncio
async def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    away = Trouble("busy", "nowhere: cannot be reached", unreachable=True)
    server, error = await asked(*[away] * 4)
    assert isinstance(error, ModelError)
    assert error.reason == "pause"
    assert "check --base-url and the network" in str(error)
    assert server.gaps == [1, 2, 4]


@pytest.mark.asyncio
async def test_L04_a_server_that_has_answered_before_is_waited_for_when_it_is_away() -> None:
    clock = VirtualClock()
    away = Trouble("busy", "somewhere: cannot be reached", unreachable=True)
    server = Listed(clock, answer(), *[away] * 9, answer())
    model = patient(server, clock)
    assert await model.complete(request()) == answer()
    assert await model.complete(request()) == answer()


@pytest.mark.asyncio
async def test_L04_waits_double_up_to_a_minute() -> None:
    server, reply = await asked(*[trouble()] * 9, answer())
    assert reply == answer()
    assert server.gaps == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.asyncio
async def test_L04_the_jitter_is_full() -> None:
    clock, random = VirtualClock(), Random(7)
    server = Listed(clock, *[trouble()] * 8, answer())
    breaker = Breaker(clock, jitter=random.random, busy_max=1_000)
    model = PatientModel(server.once, breaker=breaker, clock=clock, jitter=random.random)
    await model.complete(request())
    drawn = Random(7)
    ceilings = [1, 2, 4, 8, 16, 32, 60, 60]
    assert server.gaps == pytest.approx([ceiling * drawn.random() for ceiling in ceilings])


@pytest.mark.asyncio
async def test_L11_a_servers_retry_after_is_the_least_wait() -> None:
    server, reply = await asked(
        trouble(after=30.0), trouble(after=0.0), trouble(after=-5.0), trouble(after=600.0), answer()
    )
    assert reply == answer()
    assert server.gaps == [30, 2, 4, 600]


@pytest.mark.asyncio
async def test_L03_a_far_reset_pauses_at_once_and_says_until_when() -> None:
    server, error = await asked(trouble(), trouble(after=7_200.0, usage=HALF_PAID))
    assert isinstance(error, ModelError)
    assert error.reason == "pause"
    assert error.until == WALL_AT_START + 1 + 7_200  # after the first wait, of one second
    assert str(error) == ("the server said busy; the server asks to be left alone for 120 minutes")
    assert error.usage == HALF_PAID
    assert len(server.asked_at) == 2


@pytest.mark.parametrize("after", [math.inf, 1e300])
@pytest.mark.asyncio
async def test_L03_a_reset_beyond_all_measure_is_a_year_away(after: float) -> None:
    _, error = await asked(trouble(after=after))
    assert isinstance(error, ModelError)
    assert error.until == WALL_AT_START + LEFT_ALONE_S_MAX


@pytest.mark.asyncio
async def test_L04_an_outage_outlasts_the_patience_after_half_an_hour() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, math.inf)])
    with pytest.raises(ModelError) as raised:
        await patient(server, clock).complete(request())
    assert raised.value.reason == "pause"
    assert raised.value.until is None
    assert str(raised.value) == "the server said busy; no answer for 30 minutes"
    assert 1_800 <= clock.now() <= 1_800 + 62
    # 1 + 2 + 4 + 8 + 16 + 32 s, then once a minute, and a second each.
    assert len(server.asked_at) == 36


@pytest.mark.asyncio
async def test_L04_waiting_for_others_to_probe_is_silence_too() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, math.inf)])
    breaker = Breaker(clock, jitter=highest, busy_max=1, hold=Backoff(1_900, 1_900))
    with pytest.raises(Trouble):
        await breaker.ask(lambda: server.once(request()))
    model = PatientModel(server.once, breaker=breaker, clock=clock, jitter=highest)
    with pytest.raises(ModelError, match="no answer for 30 minutes"):
        await model.complete(request())
    assert len(server.asked_at) == 2


@pytest.mark.asyncio
async def test_L04_any_answer_ends_the_silence() -> None:
    busy = [trouble(after=600.0)] * 3
    server, reply = await asked(*busy, trouble("broken"), *busy, answer())
    assert reply == answer()
    assert server.asked_at[-1] > 3_600


@pytest.mark.asyncio
async def test_L04_three_minutes_of_529_are_waited_for() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, 180)])
    assert await patient(server, clock, busy_max=5).complete(request()) == answer()
    assert 180 <= clock.now() <= 180 + 62
    assert len(server.asked_at) <= 10


@pytest.mark.parametrize("kind", ["blocked", "too_long", "invalid"])
@pytest.mark.asyncio
async def test_L11_what_asking_again_cannot_mend_is_asked_once(kind: TroubleKind) -> None:
    server, error = await asked(trouble(kind, usage=HALF_PAID))
    assert isinstance(error, ModelError)
    reasons = {"blocked": "pause", "too_long": "limit", "invalid": "provider"}
    assert error.reason == reasons[kind]
    assert str(error) == f"the server said {kind}"
    assert error.usage == HALF_PAID
    assert server.asked_at == [0.0]


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.asyncio
async def test_L16_a_key_that_is_refused_in_the_middle_pauses_for_good(before: int) -> None:
    clock = VirtualClock()
    server = Listed(clock, *[answer()] * before, trouble("blocked"))
    model = patient(server, clock)
    for _ in range(before):
        await model.complete(request())
    for _ in range(2):
        with pytest.raises(ModelError, match="the server said blocked") as raised:
            await model.complete(request())
        assert raised.value.reason == "pause"
        assert raised.value.until is None
    assert len(server.asked_at) == before + 1
    assert clock.now() == 0


@pytest.mark.asyncio
async def test_L03_a_hard_limit_says_until_when_where_the_server_does() -> None:
    _, error = await asked(trouble("blocked", after=90.0))
    assert isinstance(error, ModelError)
    assert error.until == WALL_AT_START + 90


@pytest.mark.asyncio
async def test_L10_a_prompt_that_is_too_long_is_never_sent_again_as_it_is() -> None:
    clock = VirtualClock()
    server = Listed(clock, trouble("too_long"), answer())
    model = patient(server, clock)
    with pytest.raises(ModelError) as raised:
        await model.complete(request("all the files"))
    assert raised.value.reason == "limit"
    assert await model.complete(request("a summary")) == answer()


@pytest.mark.asyncio
async def test_A16_a_broken_answer_is_asked_for_again_soon() -> None:
    server, reply = await asked(*[trouble("broken")] * 4, answer())
    assert reply == answer()
    assert server.gaps == [0.5, 1, 2, 4]


@pytest.mark.asyncio
async def test_R04_broken_answers_are_bounded_by_count_though_they_cost_nothing() -> None:
    server, error = await asked(*[trouble("broken")] * 5)
    assert isinstance(error, ModelError)
    assert error.reason == "provider"
    assert str(error) == "the server said broken; 5 answers in a row could not be used"
    assert error.usage == Usage()
    assert len(server.asked_at) == 5


@pytest.mark.asyncio
async def test_R04_busy_answers_between_do_not_make_broken_ones_new() -> None:
    mixed = [trouble("broken", usage=HALF_PAID), trouble()] * 5
    server, error = await asked(*mixed)
    assert isinstance(error, ModelError)
    assert error.reason == "provider"
    assert len(server.asked_at) == 9
    assert error.usage.usd == pytest.approx(5 * 0.004)


@pytest.mark.asyncio
async def test_what_a_failed_try_cost_is_told_before_the_next_one() -> None:
    clock = VirtualClock()
    counted = Usage(output_tokens=50, usd=0.002, calls=1)
    server = Listed(
        clock, trouble("broken", usage=HALF_PAID), trouble(usage=counted), trouble(), answer()
    )
    told: list[tuple[Usage, int]] = []

    async def spend(usage: Usage) -> None:
        told.append((usage, len(server.asked_at)))

    reply = await patient(server, clock).complete(request(), spend)
    assert reply == answer()
    assert told == [(HALF_PAID, 1), (counted.model_copy(update={"calls": 0}), 2)]


@pytest.mark.asyncio
async def test_whoever_pays_can_end_the_asking() -> None:
    clock = VirtualClock()
    server = Listed(clock, *[trouble("broken", usage=HALF_PAID)] * 3, answer())

    class Enough(Exception):
        pass

    async def spend(_usage: Usage) -> None:
        if len(server.asked_at) == 2:
            raise Enough

    with pytest.raises(Enough):
        await patient(server, clock).complete(request(), spend)
    assert len(server.asked_at) == 2


@pytest.mark.asyncio
async def test_L04_an_outage_pauses_before_it_uses_up_the_askers_time() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, math.inf)])
    with anyio.move_on_after(30) as scope, pytest.raises(ModelError) as raised:
        # The waits are virtual, so the deadline is never met; a wait of a minute is longer.
        await patient(server, clock).complete(request())
    assert not scope.cancelled_caught
    assert raised.value.reason == "pause"
    assert str(raised.value) == "the model's server has not answered for 2 minutes"
    # Waits of 1, 2, 4, 8, 16 s fit in what is left; those of 32 s and more come by chance until
    # the silence is two minutes old: 1+2+4+8+16+32+60 = 123.
    assert len(server.asked_at) == 8


@pytest.mark.asyncio
async def test_what_was_spent_before_a_pause_is_in_the_error() -> None:
    _, error = await asked(trouble("broken", usage=HALF_PAID), trouble("blocked"))
    assert isinstance(error, ModelError)
    assert error.reason == "pause"
    assert error.usage == HALF_PAID


@pytest.mark.asyncio
async def test_a_wait_can_be_cancelled() -> None:
    clock = VirtualClock()
    server = Down(clock, [(0, math.inf)])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(patient(server, clock).complete, request())
            await clock.sleep(30)
            scope.cancel()
    assert scope.cancelled_caught
    asked = len(server.asked_at)
    await clock.sleep(600)
    assert len(server.asked_at) == asked


@pytest.mark.asyncio
async def test_a_bug_is_not_retried() -> None:
    clock = VirtualClock()

    async def once(_: object, spend: object) -> Reply:
        raise RuntimeError("a bug")

    model = PatientModel(once, breaker=Breaker(clock), clock=clock)
    with pytest.raises(RuntimeError, match="a bug"):
        await model.complete(request())


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True), st.floats(0.1, 1e6))
def test_waits_never_exceed_their_cap(failures: int, draw: float, cap: float) -> None:
    backoff = Backoff(base_s=0.1, cap_s=cap)
    assert 0 <= backoff.full(failures, draw) <= cap
    assert backoff.equal(failures, 0) <= backoff.equal(failures, draw) <= cap
    ceilings = [backoff.equal(number, 1.0) for number in range(1, 80)]
    assert all(earlier <= later for earlier, later in pairwise(ceilings))


@given(st.none() | st.floats())
def test_any_retry_after_is_a_time(after: float | None) -> None:
    assert 0 <= asked_for(after) <= LEFT_ALONE_S_MAX
