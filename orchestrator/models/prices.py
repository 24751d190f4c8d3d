"""What tokens cost: a dated table, and the sum for one call.

Not a budget and not an account of a run: one call's tokens go in, dollars come out. A model that
the table does not have costs an unknown amount (None), never nothing; whoever keeps a budget must
refuse it. The table is `prices.json`, beside this module; it is read once. What a plan says of a
model (`own`) goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.core.plan import ModelPrice
from orchestrator.core.usage import Usage

_TOKENS_PER_PRICE = 1_000_000
_SNAPSHOT = re.compile(r"-20\d{6}$")
"""A dated snapshot of a model (`claude-haiku-4-5-20251001`) costs what the model costs."""

Dollars = Annotated[float, Field(ge=0, le=100_000)]


class Tier(Record):
    """Prices of one model for prompts up to a size, in US dollars per million tokens."""

    prompt_tokens_max: int | None = Field(default=None, gt=0)
    """Largest prompt (full-price, written and read tokens together); None is any size."""
    input: Dollars
    output: Dollars
    cache_write_5m: Dollars
    cache_write_1h: Dollars
    cache_read: Dollars


class PriceTable(Record):
    """Tiers by model name, the smallest prompts first."""

    as_of: Annotated[str, Field(pattern=r"^20\d\d-\d\d$")]
    """Month in which the prices were read from the vendor's page."""
    unit: str
    models: dict[str, Annotated[tuple[Tier, ...], Field(min_length=1)]]


@cache
def price_table() -> PriceTable:
    """The bundled table."""
    text = files("orchestrator.models").joinpath("prices.json").read_text(encoding="utf-8")
    return PriceTable.model_validate_json(text)


def price(model: str, usage: Usage, own: Mapping[str, ModelPrice] = {}) -> float | None:
    """Dollars for the tokens of **one** call, or None when the model has no price.

    `usage` must not be a sum over calls: which tier holds depends on the size of one prompt.
    `own`: the plan's prices by model name.
    """
    tiers = _tiers_of(model, own)
    if tiers is None:
        return None
    tier = _tier_for(tiers, usage.tokens - usage.output_tokens)
    return (
        usage.input_tokens * tier.input
        + usage.output_tokens * tier.output
        + usage.cache_write_5m_tokens * tier.cache_write_5m
        + usage.cache_write_1h_tokens * tier.cache_write_1h
        + usage.cache_read_tokens * tier.cache_read
    ) / _TOKENS_PER_PRICE


def has_price(model: str, own: Mapping[str, ModelPrice] = {}) -> bool:
    """Whether it is known what `model` costs."""
    return _tiers_of(model, own) is not None


def _tiers_of(model: str, own: Mapping[str, ModelPrice]) -> tuple[Tier, ...] | None:
    """By the full name first, then by that of the model whose snapshot it is."""
    table = price_table().models
    for name in (model, _SNAPSHOT.sub("", model)):
        if name in own:
            return (_tier(own[name]),)
        if name in table:
            return table[name]
    return None


def _tier(own: ModelPrice) -> Tier:
    write = own.input if own.cache_write is None else own.cache_write
    return Tier(
        input=own.input,
        output=own.output,
        cache_write_5m=write,
        cache_write_1h=write,
        cache_read=own.input if own.cache_read is None else own.cache_read,
    )


def _tier_for(tiers: tuple[Tier, ...], prompt_tokens: int) -> Tier:
    """The first tier that the prompt fits in; past the last limit the last one holds."""
    for tier in tiers:
        if tier.prompt_tokens_max is None or prompt_tokens <= tier.prompt_tokens_max:
            return tier
    return tiers[-1]
