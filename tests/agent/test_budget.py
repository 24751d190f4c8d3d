"""An attempt's ceilings: what may still be called, when the last turn comes, when it is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent.budget import Budget, Exhausted, NextCall
from orchestrator.core.plan import ModelPrice
from orchestrator.core.roles import Limits
from orchestrator.core.usage import Usage

MAX = 16_384
PRICED = "claude-opus-5"
"""A model with a price: 25 dollars per million tokens of output, 10 of the dearest input."""


class Clock:
    """Seconds that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def budget(limits: Limits, model: str = PRICED) -> Budget:
    return Budget(limits, model, Clock())


def test_without_ceilings_every_call_fits() -> None:
    assert budget(Limits()).next_call(10_000_000, MAX) == NextCall(MAX, "")


def test_A05_the_last_turn_is_announced_and_none_follows() -> None:
    mine = budget(Limits(turns=2))
    assert mine.next_call(300, MAX) == NextCall(MAX, "")
    mine.charge(Usage(calls=1))
    assert mine.next_call(300, MAX) == NextCall(MAX, "turns: 2", "turns")
    mine.charge(Usage(calls=1))
    assert mine.next_call(300, MAX) == Exhausted("all 2 turns are used", "turns")


def test_L13_tokens_keep_room_for_the_last_turn() -> None:
    mine = budget(Limits(tokens=60_000))
    first = mine.next_call(30_000, MAX)
    assert first == NextCall(MAX, "")
    mine.charge(Usage(input_tokens=10_000, output_tokens=10_000))
    second = mine.next_call(3_000, MAX)
    # 40,000 are left and the prompt has 21,000 by now: one call fits, two would not.
    assert isinstance(second, NextCall)
    assert second.last == "tokens: 60,000"
    assert second.max_tokens <= 40_000 - 21_000


def test_tokens_that_do_not_even_hold_the_prompt_end_it() -> None:
    assert isinstance(budget(Limits(tokens=5_000)).next_call(30_000, MAX), Exhausted)


def test_dollars_bound_the_reply_by_the_price_table() -> None:
    # 3,000 bytes are 1,000 tokens: a cent at most; what is left of 20 cents buys 7,600 of output.
    call = budget(Limits(usd=0.20)).next_call(3_000, MAX)
    assert isinstance(call, NextCall)
    assert call.max_tokens * 25 / 1e6 + 0.01 <= 0.20


def test_dollars_that_do_not_hold_the_prompt_end_it() -> None:
    assert isinstance(budget(Limits(usd=0.005)).next_call(3_000, MAX), Exhausted)


def test_a_model_without_a_price_is_bounded_by_its_dearest_call() -> None:
    mine = budget(Limits(usd=1.0), model="home-made")
    assert mine.next_call(300, MAX) == NextCall(MAX, "")
    mine.charge(Usage(usd=0.4))
    assert mine.next_call(300, MAX) == NextCall(MAX, "dollars: 1", "usd")
    mine.charge(Usage(usd=0.4))
    assert isinstance(mine.next_call(300, MAX), Exhausted)


def test_minutes_announce_the_last_turn_by_the_slowest_one() -> None:
    clock = Clock()
    mine = Budget(Limits(minutes=10), PRICED, clock)
    assert mine.next_call(300, MAX) == NextCall(MAX, "")
    clock.now += 250
    assert mine.next_call(300, MAX) == NextCall(MAX, "minutes: 10", "minutes")
    assert mine.seconds_left == 350
    clock.now += 350
    assert mine.next_call(300, MAX) == Exhausted("the 10 minutes are over", "minutes")


@given(
    limit=st.integers(min_value=1_000, max_value=500_000),
    replies=st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=60),
    added=st.integers(min_value=0, max_value=60_000),
)
def test_no_way_of_using_the_room_exceeds_tokens(
    limit: int, replies: list[float], added: int
) -> None:
    mine = budget(Limits(tokens=limit))
    last = 0
    for share in replies:
        call = mine.next_call(added, MAX)
        if isinstance(call, Exhausted):
            break
        prompt = last + -(-added // 3)
        reply = int(share * call.max_tokens)
        mine.charge(Usage(cache_read_tokens=prompt, output_tokens=reply))
        last = prompt + reply
    assert mine.usage.tokens <= limit


@pytest.mark.parametrize("usd", [0.05, 0.5, 3.0])
@given(replies=st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=40))
def test_no_way_of_using_the_room_exceeds_dollars(usd: float, replies: list[float]) -> None:
    mine = budget(Limits(usd=usd))
    last = 0
    for share in replies:
        call = mine.next_call(6_000, MAX)
        if isinstance(call, Exhausted):
            break
        prompt = last + 2_000
        reply = int(share * call.max_tokens)
        # By hand, all of it at the dearest rates: written to the one-hour cache, then output.
        spent = prompt * 10 / 1e6 + reply * 25 / 1e6
        mine.charge(Usage(cache_write_1h_tokens=prompt, output_tokens=reply, usd=spent))
        last = prompt + reply
    assert mine.usage.usd <= usd + 1e-9


def test_prices_of_the_plan_go_before_the_tables() -> None:
    dear = ModelPrice(input=1_000, output=1_000)
    for model in (PRICED, "llama"):
        mine = Budget(Limits(usd=20.0), model, Clock(), {model: dear})
        call = mine.next_call(3_000, MAX)
        # 1,000 dollars a million tokens: 20 dollars are 20,000 tokens, prompts and replies.
        assert isinstance(call, NextCall)
        assert call.max_tokens + 1_000 <= 20_000
    free = Budget(Limits(usd=0.01), PRICED, Clock(), {PRICED: ModelPrice(input=0, output=0)})
    assert free.next_call(3_000_000, MAX) == NextCall(MAX, "")


def test_tries_without_a_reply_cost_but_are_no_turns() -> None:
    mine = budget(Limits(turns=2, usd=1.0))
    mine.charge_failed(Usage(input_tokens=50, usd=0.25))
    assert (mine.turns, mine.usage.usd, mine.usage.tokens) == (0, 0.25, 50)
    mine.charge_failed(Usage(usd=0.75))
    assert mine.next_call(300, MAX) == Exhausted(
        "too little is left of the ceiling (dollars: 1)", "usd"
    )
