"""The test server refuses what the real API refuses: for each rule a request that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api.conversation import (
    Raw,
    Turn,
    call,
    finished,
    read_conversation,
    say,
    signature,
    think,
)
from tests.support.api.refusals import Memory, Refused, check, not_strict

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CLOSED: Raw = {"type": "object", "properties": {}, "additionalProperties": False}


def user(*blocks: Raw | str) -> Raw:
    return {
        "role": "user",
        "content": [say(block) if isinstance(block, str) else block for block in blocks],
    }


def assistant(*blocks: Raw) -> Raw:
    return {"role": "assistant", "content": list(blocks)}


def use(id_: str) -> Raw:
    return {"type": "tool_use", "id": id_, "name": "Read", "input": {}}


def result(id_: str, **more: object) -> Raw:
    return {"type": "tool_result", "tool_use_id": id_, "content": "text", **more}


def request(*messages: Raw, **more: Any) -> Raw:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
        "messages": list(messages) or [user("hello")],
        **more,
    }


def refusal(body: Raw) -> str:
    with pytest.raises(Refused) as caught:
        check(body)
    return str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request({"role": "user", "content": "plain text"}),
        request(user("a"), user("b")),
        request(user("a"), assistant(use("1"), use("2")), user(result("2"), result("1"), "and")),
        request(user("a"), assistant(use("1"), use("2")), user(result("1")), user(result("2"))),
        request(user("a"), assistant(say("b")), assistant(use("1")), user(result("1"))),
        request(user({**say("a"), **MARK}, {**say("b"), **MARK}), system=[{**say("s"), **HOUR}]),
        request(thinking={"type": "adaptive"}, tool_choice={"type": "auto"}, stream=True),
        request(model="claude-haiku-5-5", tool_choice={"type": "any"}),
        request(tools=[{"name": "T", "strict": True, "input_schema": CLOSED}]),
    ],
)
def test_what_the_api_takes_is_taken(body: Raw) -> None:
    check(body)


def test_a_call_without_a_result_is_refused() -> None:
    words = "`tool_use` ids were found without `tool_result` blocks immediately after: 2"
    assert words in refusal(
        request(user("a"), assistant(use("1"), use("2")), user(result("1"), "go on"))
    )
    assert words in refusal(request(user("a"), assistant(use("2")), user("go on")))
    assert words in refusal(request(user("a"), assistant(use("2"))))


def test_results_stand_first_in_the_next_message() -> None:
    late = request(user("a"), assistant(use("1")), user("text first", result("1")))
    assert "immediately after: 1" in refusal(late)
    apart = [assistant(use("1")), user("x"), assistant(say("b")), user(result("1"))]
    assert "immediately after: 1" in refusal(request(user("a"), *apart))


def test_a_result_without_a_call_is_refused() -> None:
    assert "unexpected `tool_use_id`" in refusal(request(user(result("1"))))
    twice = request(user("a"), assistant(use("1")), user(result("1"), result("1")))
    assert "single result" in refusal(twice)


def test_ids_of_calls_are_unique_in_a_conversation() -> None:
    pair = assistant(use("1")), user(result("1"))
    assert "must be unique" in refusal(request(user("a"), *pair, *pair))
    assert "must be unique" in refusal(
        request(user("a"), assistant(use("1"), use("1")), user(result("1")))
    )


def test_texts_are_not_empty() -> None:
    words = "text content blocks must be non-empty"
    assert words in refusal(request(user("")))
    assert "non-whitespace" in refusal(request(user(" \n")))
    assert words in refusal(request(user("a"), assistant(say("")), user("b")))
    assert words in refusal(request(system=[say("")]))
    assert "non-empty content" in refusal(request(user("a"), assistant(), user("b")))


def test_four_marks_at_most_and_the_long_ones_first() -> None:
    marked = user(*({**say("a"), **MARK} for _ in range(4)))
    check(request(marked))
    assert "Found 5" in refusal(request(marked, system=[{**say("s"), **MARK}]))
    assert "Found 5" in refusal(request(marked, cache_control={"type": "ephemeral"}))
    assert "must not come after" in refusal(
        request(user({**say("a"), **MARK}, {**say("b"), **HOUR}))
    )
    assert "ttl" in refusal(
        request(user({**say("a"), "cache_control": {"type": "ephemeral", "ttl": "2h"}}))
    )


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1", "claude-sonnet-5-5"])
@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "Read"}])
def test_a_forced_tool_is_refused_by_models_that_always_think(model: str, choice: Raw) -> None:
    assert "forcing a tool" in refusal(request(model=model, tool_choice=choice))


def test_parameters_are_known_and_complete() -> None:
    assert "temperature" in refusal(request(temperature=0.5))
    assert "Extra inputs" in refusal(request(wishes=1))
    for name in ("model", "max_tokens", "messages"):
        body = request()
        del body[name]
        assert refusal(body) == f"{name}: Field required"
    assert "first message must use" in refusal(request(assistant(say("a")), user("b")))
    assert "role" in refusal(request({"role": "system", "content": "a"}))
    assert "at least one" in refusal({**request(), "messages": []})


def test_blocks_stand_where_they_belong() -> None:
    assert "Input tag 'tool_use'" in refusal(request(user(use("1"))))
    thought = {**think("a"), "signature": "s"}
    assert "cache_control" in refusal(request(user("a"), assistant({**thought, **MARK}), user("b")))
    assert "signature" in refusal(request(user("a"), assistant(think("a")), user("b")))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": {}}, "additionalProperties"),
        ({**CLOSED, "properties": {"a": {"type": "object"}}}, "additionalProperties"),
        ({**CLOSED, "properties": {"a": {"type": "integer", "minimum": 1}}}, "minimum"),
        ({**CLOSED, "properties": {"a": {"type": "string", "maxLength": 1}}}, "maxLength"),
        ({**CLOSED, "$defs": {"A": {"type": "string", "minLength": 1}}}, "minLength"),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "object"}]}}}, "additionalProperties"),
    ],
)
def test_a_strict_tool_needs_a_schema_that_can_be_held_to(schema: Raw, problem: str) -> None:
    tool = {"name": "T", "strict": True, "input_schema": {"type": "object", **schema}}
    assert problem in refusal(request(tools=[tool]))
    check(request(tools=[{**tool, "strict": False}]))


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {**CLOSED, "properties": {"minimum": {"type": "integer"}}}
    assert list(not_strict(schema)) == []


# --- what was said before ---------------------------------------------------------------------

TURN = Turn((think("first"), say("I read."), think("then"), call("Read", file_path="a")))


def told(memory: Memory, turn: Turn, model: str = "claude-opus-5-5") -> tuple[Raw, ...]:
    """The blocks of a turn that the server said in answer to the first message."""
    conversation = read_conversation(request(user("# Task `t`"), model=model))
    whole = finished(turn, conversation)
    memory.keep(conversation, whole)
    return whole.blocks


def back(memory: Memory, *blocks: Raw, model: str = "claude-opus-5-5") -> None:
    """Give the blocks back and answer their calls."""
    results = [result(block["id"]) for block in blocks if block["type"] == "tool_use"]
    body = request(user("# Task `t`"), assistant(*blocks), user(*results, "go on"), model=model)
    check(body)
    memory.check(read_conversation(body))


@pytest.mark.parametrize(
    "change",
    [
        lambda blocks: blocks[1:],
        lambda blocks: (blocks[2], blocks[1], blocks[0], blocks[3]),
        lambda blocks: (blocks[0], *blocks),
        lambda blocks: (*blocks[:2], blocks[3]),
        lambda blocks: (blocks[1], blocks[3]),
    ],
    ids=["first dropped", "swapped", "doubled", "last dropped", "all dropped"],
)
def test_L06_thoughts_come_back_all_and_in_their_order(
    change: Callable[[tuple[Raw, ...]], tuple[Raw, ...]],
) -> None:
    memory = Memory()
    blocks = told(memory, TURN)
    back(memory, *blocks)
    with pytest.raises(Refused, match="cannot be modified"):
        back(memory, *change(blocks))


def test_L06_a_changed_thought_has_no_valid_signature() -> None:
    memory = Memory()
    blocks = told(memory, TURN)
    changed = {**blocks[0], "thinking": "first "}
    with pytest.raises(Refused, match="Invalid `signature`"):
        back(memory, changed, *blocks[1:])
    with pytest.raises(Refused, match="cannot be modified"):
        back(memory, *blocks[2:])
    back(memory, blocks[1], blocks[3])
    with pytest.raises(Refused, match="Invalid `signature`"):
        back(Memory(), changed, *blocks[1:])


def test_L06_thoughts_belong_to_the_model_that_had_them() -> None:
    memory = Memory()
    blocks = told(memory, TURN)
    with pytest.raises(Refused, match="Invalid `signature`"):
        back(memory, *blocks, model="claude-sonnet-5-5")
    back(memory, blocks[1], blocks[3], model="claude-sonnet-5-5")
    assert signature("a", "x") != signature("b", "x")


def test_blocks_of_unknown_kinds_come_back_as_they_were_or_not_at_all() -> None:
    memory = Memory()
    strange = {"type": "hologram", "n": [1, 2.0]}
    blocks = told(memory, Turn((strange, call("Read"))))
    back(memory, *blocks)
    with pytest.raises(Refused, match="cannot be modified"):
        back(memory, {"type": "hologram", "n": [1, 2]}, blocks[1])
    with pytest.raises(Refused, match="Input tag 'hologram'"):
        back(Memory(), *blocks)


def test_only_a_reply_that_paused_may_be_gone_on_from() -> None:
    memory = Memory()
    paused = told(memory, Turn((say("wait"),), "pause_turn"))
    body = request(user("# Task `t`"), assistant(*paused))
    memory.check(read_conversation(body))
    with pytest.raises(Refused, match="prefill"):
        memory.check(read_conversation(request(user("# Task `t`"), assistant(say("I am")))))
