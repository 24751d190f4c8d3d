"""Events of a stream put together: whole replies, nothing lost, and no reply from half of one."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from orchestrator.models.stream import BLOCKS_MAX, BrokenStreamError, ErrorEvent, ReplyStream
from tests.models.raw_server import (
    Raw,
    block,
    call,
    end,
    reply_events,
    start,
    text,
    thought,
)


def fed(*events: JsonValue) -> ReplyStream:
    stream = ReplyStream()
    for event in events:
        stream.add(event)
    return stream


def blocks(*events: JsonValue) -> list[Raw]:
    return fed(*events).blocks()


def test_texts_thoughts_and_calls() -> None:
    stream = fed(
        *reply_events(
            thought("let me see", "c2ln"),
            text("I ", "read", index=1),
            call('{"file_', 'path": "a"}', index=2),
            reason="tool_use",
        )
    )
    assert stream.blocks() == [
        {"type": "thinking", "thinking": "let me see", "signature": "c2ln"},
        {"type": "text", "text": "I read"},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}},
    ]
    assert stream.stop_reason == "tool_use"
    assert stream.model == "model-a"
    assert stream.complete


@pytest.mark.parametrize(
    "later", [None, 0, 3, -9, "999", True, 10.5, float("nan"), float("inf"), 1e300, 10**20, [], {}]
)
def test_counters_only_grow_by_what_makes_sense(later: JsonValue) -> None:
    parts: Raw = {"ephemeral_1h_input_tokens": 7}
    first: Raw = {"input_tokens": 10, "output_tokens": 1, "cache_creation": parts}
    last: Raw = {
        "output_tokens": 70.0,
        "input_tokens": later,
        "cache_creation": {"ephemeral_1h_input_tokens": later},
    }
    stream = fed(start(first), *end(usage=last), *end(usage={}))
    assert stream.counters == {
        "input_tokens": 10,
        "output_tokens": 70,
        "ephemeral_1h_input_tokens": 7,
    }
    assert all(type(count) is int for count in stream.counters.values())


def test_later_counters_that_are_larger_count() -> None:
    stream = fed(start({"input_tokens": 0}), *end(usage={"input_tokens": 25.0}))
    assert stream.counters == {"input_tokens": 25}


def test_a_call_without_pieces_has_the_arguments_it_began_with() -> None:
    whole: Raw = {"type": "tool_use", "id": "1", "name": "Read", "input": {"a": 1}}
    assert blocks(*reply_events(block(0, whole))) == [whole]
    assert blocks(*reply_events(call())) == [
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    ]
    bare: Raw = {"type": "tool_use", "id": "1", "name": "Read"}
    assert blocks(*reply_events(block(0, bare))) == [{**bare, "input": {}}]


def test_citations_are_collected() -> None:
    begin: Raw = {"type": "text", "text": "", "citations": None}
    cited: list[Raw] = [
        {"type": "citations_delta", "citation": {"cited_text": "x"}},
        {"type": "text_delta", "text": "so"},
        {"type": "citations_delta", "citation": {"cited_text": "y"}},
    ]
    assert blocks(*reply_events(block(0, begin, *cited))) == [
        {"type": "text", "text": "so", "citations": [{"cited_text": "x"}, {"cited_text": "y"}]}
    ]


def test_L15_blocks_and_deltas_of_unknown_kinds_are_kept() -> None:
    begin: Raw = {"type": "new_block", "name": "n", "input": {}, "parts": [1]}
    deltas: list[Raw] = [
        {"type": "input_json_delta", "partial_json": '{"q": 1}'},
        {"type": "new_delta", "words": "a", "parts": [2], "level": 1},
        {"type": "new_delta", "words": "b", "parts": [3], "level": 2},
    ]
    assert blocks(*reply_events(block(0, begin, *deltas))) == [
        {
            "type": "new_block",
            "name": "n",
            "input": {"q": 1},
            "parts": [1, 2, 3],
            "words": "ab",
            "level": 2,
        }
    ]


def test_L15_events_of_unknown_kinds_do_no_harm_and_parts_of_blocks_in_them_are_kept() -> None:
    before, after = reply_events(text("a"))[:3], reply_events(text("a"))[3:]
    strange: list[Raw] = [
        {"type": "ping"},
        {"type": "new_event", "x": 1},
        {"type": "content_block_more", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
    ]
    assert blocks(*before, *strange, *after) == [{"type": "text", "text": "ab"}]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "ping"}],
        [{"type": "message_stop"}],
        reply_events(text("a"))[:-1],
        reply_events(text("a"))[:-2],
        [start(), {"type": "message_stop"}],
        reply_events(text("a"), reason=None),
        [*text("a"), *end()],
        [start(), start(), *end()],
        [start(), *text("a"), *text("b"), *end()],
        [start(), *text("a")[1:], *end()],
        [start(), {**text("a")[0], "index": "0"}, *end()],
        [start(), {"type": "content_block_start", "index": 0}, *end()],
        [{"type": "message_start"}, *end()],
    ],
    ids=str,
)
def test_a_stream_without_its_parts_or_its_end_is_no_reply(events: list[Raw]) -> None:
    with pytest.raises(BrokenStreamError):
        blocks(*events)


@pytest.mark.parametrize("event", [None, [], "text", 1, {}, {"type": 1}])
def test_what_is_no_event_breaks_the_stream(event: JsonValue) -> None:
    with pytest.raises(BrokenStreamError):
        fed(start(), event)


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"path": broken'],
        ['{"path": "a"'],
        ["[1]"],
        ["null"],
        ['{"a": NaN}'],
        ['{"a": 1}{'],
        ['{"a":' * 100_000],
        ['{"a": ' + "1" * 5_000 + "}"],
    ],
    ids=lambda pieces: pieces[0][:12],
)
def test_A16_arguments_that_are_no_json_object_break_the_reply(pieces: list[str]) -> None:
    with pytest.raises(BrokenStreamError, match="call of Read"):
        blocks(*reply_events(call(*pieces), reason="tool_use"))


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_A02_a_call_that_was_cut_is_still_a_call(reason: str) -> None:
    (cut,) = blocks(*reply_events(call('{"path": "a.py", "content": "x'), reason=reason))
    assert cut == {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    (parsed,) = blocks(*reply_events(call('{"path": "a.py"}'), reason=reason))
    assert parsed["input"] == {"path": "a.py"}


def test_an_error_event_is_raised_with_what_it_says() -> None:
    error: Raw = {"type": "overloaded_error", "message": "Overloaded"}
    with pytest.raises(ErrorEvent) as caught:
        fed(start(), {"type": "error", "error": error})
    assert caught.value.error == error


def test_halves_of_surrogate_pairs_are_mended_and_pairs_are_joined() -> None:
    deltas = text("a\ud83d", "\ude00b\ud800")
    arguments = call('{"\\ud800k": "\\udfff', '", "n": 1.5}', index=1)
    assert blocks(*reply_events(deltas, arguments)) == [
        {"type": "text", "text": "a\U0001f600b\ufffd"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "Read",
            "input": {"\ufffdk": "\ufffd", "n": 1.5},
        },
    ]


def test_numbers_that_json_does_not_have_break_the_reply() -> None:
    with pytest.raises(BrokenStreamError):
        blocks(*reply_events(block(0, {"type": "new_block", "x": float("nan")})))


def test_there_is_an_end_to_blocks() -> None:
    stream = fed(start())
    for index in range(BLOCKS_MAX):
        stream.add({"type": "content_block_start", "index": index, "content_block": {}})
    with pytest.raises(BrokenStreamError, match="blocks"):
        stream.add({"type": "content_block_start", "index": BLOCKS_MAX, "content_block": {}})


@given(st.text(max_size=60), st.lists(st.integers(0, 200), max_size=6))
def test_it_does_not_matter_where_a_stream_is_parted(words: str, cuts: list[int]) -> None:
    arguments = json.dumps({"words": words})

    def pieces(whole: str) -> list[str]:
        places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
        return [whole[a:b] for a, b in pairwise(places)]

    found = blocks(*reply_events(text(*pieces(words)), call(*pieces(arguments), index=1)))
    assert found[0]["text"] == words
    assert found[1]["input"] == {"words": words}


junk = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message_start", "content_block_start", "content_block_delta", "message_delta", "x"]
        )
    },
    optional={
        "index": st.integers(-1, 2) | st.none() | st.text(max_size=2),
        "message": st.none() | st.fixed_dictionaries({}, optional={"usage": st.none()}),
        "content_block": st.none() | st.dictionaries(st.text(max_size=4), st.none(), max_size=2),
        "delta": st.none()
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text_delta", "input_json_delta", "signature_delta", "y"])},
            optional={"text": st.none() | st.text(max_size=3), "partial_json": st.text(max_size=3)},
        ),
        "usage": st.none() | st.integers() | st.dictionaries(st.text(), st.none(), max_size=1),
    },
)


@given(st.lists(junk, max_size=8))
def test_whatever_comes_is_a_reply_or_a_broken_stream(events: list[Raw]) -> None:
    stream = ReplyStream()
    try:
        for event in [*events, *end()]:
            stream.add(event)
        found = stream.blocks()
    except BrokenStreamError:
        return
    assert stream.complete
    assert all(isinstance(block, dict) for block in found)


def test_what_a_cut_reply_wrote_is_guessed_high_until_the_server_counts_it() -> None:
    said = fed(start({"input_tokens": 10, "output_tokens": 1}), *text("abc" * 1_000))
    assert said.output_tokens == 1_000
    for event in end(usage={"output_tokens": 700}):
        said.add(event)
    assert said.output_tokens == 700
