"""The simulated prompt cache keeps the published rules; all numbers here are counted by hand.

A block of text whose JSON has 400 bytes is 100 tokens: see `text`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.api.cache import Counters, PromptCache, count_tokens, least_of, tokens_of
from tests.support.api.conversation import Raw

FIVE = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(letter: str, tokens: int = 100, mark: Raw | None = None) -> Raw:
    """A block of text that is `tokens` long."""
    empty = {"type": "text", "text": ""}
    block = {**empty, "text": letter * (tokens * 4 - len('{"type": "text", "text": ""}'))}
    assert tokens_of(block) == tokens
    return {**block, **(mark or {})}


def prompt(*blocks: Raw, system: tuple[Raw, ...] = (), **more: object) -> Raw:
    return {
        "model": "claude-opus-5-5",
        "system": list(system),
        "messages": [{"role": "user", "content": list(blocks)}],
        **more,
    }


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PromptCache:
    return PromptCache(clock, least=1)


def ask(cache: PromptCache, body: Raw) -> Counters:
    lookup = cache.look(body)
    cache.begin(lookup)
    return lookup.counters


def test_without_marks_nothing_is_kept(cache: PromptCache) -> None:
    for _ in range(2):
        assert ask(cache, prompt(text("a"))) == Counters(input=100)


def test_the_prefix_up_to_the_mark_is_written_then_read(cache: PromptCache) -> None:
    body = prompt(text("a", 100, FIVE), text("b", 50))
    assert ask(cache, body) == Counters(input=50, write_5m=100)
    assert ask(cache, body) == Counters(input=50, read=100)


def test_a_longer_prompt_reads_what_is_kept_and_writes_what_is_new(cache: PromptCache) -> None:
    ask(cache, prompt(text("a", 100, FIVE)))
    longer = prompt(text("a"), text("b", 30), text("c", 20, FIVE))
    assert ask(cache, longer) == Counters(write_5m=50, read=100)


def test_any_change_before_the_mark_is_a_miss(cache: PromptCache) -> None:
    system = (text("s", 100, FIVE),)
    ask(cache, prompt(text("a", 100, FIVE), system=system))
    assert ask(cache, prompt(text("b", 100, FIVE), system=system)).read == 100
    other = (text("t", 100, FIVE),)
    assert ask(cache, prompt(text("a", 100, FIVE), system=other)).read == 0
    tools = [{"name": "T", "input_schema": {}}]
    assert ask(cache, prompt(text("a", 100, FIVE), system=system, tools=tools)).read == 0
    haiku = prompt(text("a", 100, FIVE), system=system, model="claude-haiku-5-5")
    assert ask(cache, haiku).read == 0


def test_tools_stand_first_and_moving_a_mark_changes_nothing(cache: PromptCache) -> None:
    tools = [{"name": "T", "input_schema": {}, **FIVE}]
    first = ask(cache, prompt(text("a", 100, FIVE), system=(text("s"),), tools=tools))
    size = first.prompt - 200
    other = prompt(text("b"), system=(text("t"),), tools=tools)
    assert ask(cache, other) == Counters(input=200, read=size)
    unmarked = [{"name": "T", "input_schema": {}}]
    moved = prompt(text("a", 100, FIVE), system=(text("s"),), tools=unmarked)
    assert ask(cache, moved).read == first.prompt


def test_a_mark_for_the_whole_request_stands_at_its_last_block(cache: PromptCache) -> None:
    ask(cache, prompt(text("a"), text("b"), cache_control={"type": "ephemeral"}))
    longer = prompt(text("a"), text("b"), text("c"), cache_control={"type": "ephemeral"})
    assert ask(cache, longer) == Counters(write_5m=100, read=200)


@pytest.mark.parametrize(("added", "read"), [(19, 10), (20, 0)])
def test_the_look_back_is_twenty_places_with_the_marks_own(
    cache: PromptCache, added: int, read: int
) -> None:
    ask(cache, prompt(text("a", 10, FIVE)))
    more = [text(chr(ord("b") + number), 10) for number in range(added)]
    longer = prompt(text("a", 10), *more[:-1], {**more[-1], **FIVE})
    assert ask(cache, longer).read == read


def test_each_mark_looks_back_for_itself(cache: PromptCache) -> None:
    ask(cache, prompt(text("a", 10, FIVE)))
    more = [text(chr(ord("b") + number), 10) for number in range(24)]
    more[12] = {**more[12], **FIVE}
    assert ask(cache, prompt(text("a", 10), *more[:-1], {**more[-1], **FIVE})).read == 10


def test_what_is_kept_lives_five_minutes_from_its_last_use(
    cache: PromptCache, clock: Clock
) -> None:
    body = prompt(text("a", 100, FIVE))
    ask(cache, body)
    for _ in range(3):
        clock.now += 299
        assert ask(cache, body).read == 100
    clock.now += 301
    assert ask(cache, body) == Counters(write_5m=100)


def test_an_hour_is_counted_apart(cache: PromptCache, clock: Clock) -> None:
    body = prompt(text("a", 60, FIVE), system=(text("s", 100, HOUR),))
    assert ask(cache, body) == Counters(write_1h=100, write_5m=60)
    clock.now += 3_000
    assert ask(cache, body) == Counters(read=100, write_5m=60)
    clock.now += 3_601
    assert ask(cache, body) == Counters(write_1h=100, write_5m=60)


def test_nothing_can_be_read_before_its_response_has_begun(cache: PromptCache) -> None:
    body = prompt(text("a", 100, FIVE))
    together = [cache.look(body) for _ in range(3)]
    assert [lookup.counters.read for lookup in together] == [0, 0, 0]
    cache.begin(together[0])
    assert cache.look(body).counters.read == 100


def test_short_prefixes_are_not_kept(clock: Clock) -> None:
    cache = PromptCache(clock)
    assert (least_of("claude-opus-5-5"), least_of("claude-haiku-4-5-20251001")) == (512, 4_096)
    assert least_of("somebody-elses") == 1_024
    assert ask(cache, prompt(text("a", 511, FIVE))) == Counters(input=511)
    assert ask(cache, prompt(text("b", 512, FIVE))) == Counters(write_5m=512)


def test_tokens_of_a_prompt_are_those_of_its_blocks() -> None:
    assert count_tokens(prompt(text("a", 7), text("b", 8), system=(text("s", 9),))) == 24
    counters = Counters(1, 2, 3, 4)
    assert counters.prompt == 10
    assert counters.usage(5) == {
        "input_tokens": 1,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
        "output_tokens": 5,
    }
