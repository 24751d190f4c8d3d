"""Prices: each bucket has its own, a prompt's size picks the tier, unknown models are unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.plan import ModelPrice
from orchestrator.core.usage import Usage
from orchestrator.models.prices import has_price, price, price_table

MILLION = 1_000_000

# As published in November 2026, dollars per million tokens:
# input, output, 5-minute write, 1-hour write, read.
PUBLISHED = {
    "claude-fable-5-1": (10, 50, 12.5, 20, 0.25),
    "claude-opus-5-5": (4, 20, 5, 8, 0.20),
    "claude-opus-5": (5, 25, 6.25, 10, 0.50),
    "claude-sonnet-5-5": (2, 10, 2.5, 4, 0.10),
    "claude-sonnet-5": (2, 10, 2.5, 4, 0.20),
    "claude-haiku-4-5": (1, 5, 1.25, 2, 0.10),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_each_bucket_has_its_published_price(model: str) -> None:
    prices = (
        price(model, Usage(input_tokens=MILLION)),
        price(model, Usage(output_tokens=MILLION)),
        price(model, Usage(cache_write_5m_tokens=MILLION)),
        price(model, Usage(cache_write_1h_tokens=MILLION)),
        price(model, Usage(cache_read_tokens=MILLION)),
    )
    assert prices == pytest.approx(PUBLISHED[model])


def test_the_table_has_nothing_else_and_a_date() -> None:
    assert set(price_table().models) == {*PUBLISHED, "claude-haiku-5-5"}
    assert price_table().as_of == "2026-11"


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(input_tokens=100_000), 0.01),
        (Usage(input_tokens=100_001), 0.0500005),
        # What counts is the whole prompt: 1 new token after 100,000 read ones is past the limit.
        (Usage(input_tokens=1, cache_read_tokens=100_000), 0.0050005),
        (Usage(cache_read_tokens=60_000, cache_write_5m_tokens=40_000), 0.0056),
        (Usage(cache_read_tokens=60_000, cache_write_1h_tokens=40_001), 0.043001),
        # Output is no part of the prompt.
        (Usage(input_tokens=100_000, output_tokens=100_000), 0.06),
    ],
)
def test_a_long_prompt_pays_the_second_tier_for_all_of_it(usage: Usage, dollars: float) -> None:
    assert price("claude-haiku-5-5", usage) == pytest.approx(dollars)


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    assert price("claude-haiku-4-5-20251001", Usage(input_tokens=MILLION)) == pytest.approx(1)


@pytest.mark.parametrize("model", ["", "gpt-9", "claude-opus", "claude-opus-5-5-fast", "qwen3:8b"])
def test_an_unknown_model_has_no_price_rather_than_none_to_pay(model: str) -> None:
    assert price(model, Usage(input_tokens=1)) is None
    assert not has_price(model)


def test_the_plans_price_goes_before_the_tables() -> None:
    own = {"claude-opus-5-5": ModelPrice(input=1, output=2)}
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    assert price("claude-opus-5-5", usage, own) == 3
    assert price("claude-opus-5", usage, own) == 30


def test_the_plans_price_without_cache_prices_takes_the_inputs() -> None:
    own = {"local": ModelPrice(input=2, output=8)}
    assert price("local", Usage(cache_read_tokens=MILLION), own) == 2
    assert price("local", Usage(cache_write_1h_tokens=MILLION), own) == 2
    dearer = {"local": ModelPrice(input=2, output=8, cache_write=3, cache_read=0.5)}
    assert price("local", Usage(cache_read_tokens=MILLION), dearer) == 0.5
    assert price("local", Usage(cache_write_5m_tokens=MILLION), dearer) == 3


def test_nothing_is_a_price_too() -> None:
    own = {"qwen3:8b": ModelPrice(input=0, output=0)}
    assert price("qwen3:8b", Usage(input_tokens=MILLION), own) == 0
    assert has_price("qwen3:8b", own)
    assert not has_price("qwen3", own)


@given(st.integers(0, MILLION), st.integers(0, MILLION), st.integers(0, MILLION))
def test_more_tokens_never_cost_less(prompt: int, output: int, more: int) -> None:
    for model in price_table().models:
        less = price(model, Usage(input_tokens=prompt, output_tokens=output))
        grown = price(model, Usage(input_tokens=prompt + more, output_tokens=output))
        assert less is not None
        assert grown is not None
        assert less <= grown
