"""Where cache marks stand: at most four, on the same places for the same request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from orchestrator.models.cache_marks import STRIDE, WireBlock, WireMessage, with_marks

TEXT: WireBlock = {"type": "text", "text": "t"}
RESULT: WireBlock = {"type": "tool_result", "tool_use_id": "1", "content": "c"}
CALL: WireBlock = {"type": "tool_use", "id": "1", "name": "Read", "input": {}}
THOUGHT: WireBlock = {"type": "thinking", "thinking": "t", "signature": "s"}
STRANGE: WireBlock = {"type": "new_block", "x": [1]}
EMPTY: WireBlock = {"type": "text", "text": ""}
LOOK_BACK = 20

SYSTEM = [TEXT, TEXT]


def message(role: str, *blocks: WireBlock) -> WireMessage:
    content: list[JsonValue] = [*blocks]
    return {"role": role, "content": content}


def blocks_of(wire: WireMessage) -> list[WireBlock]:
    content = wire["content"]
    assert isinstance(content, list)
    return [block for block in content if isinstance(block, dict)]


def marks(system: list[WireBlock], messages: list[WireMessage]) -> list[str]:
    """`system.1` or `message.block` of each mark, in the order of the request."""
    found = [f"system.{place}" for place, block in enumerate(system) if "cache_control" in block]
    for index, wire in enumerate(messages):
        for place, block in enumerate(blocks_of(wire)):
            if "cache_control" in block:
                assert block["cache_control"] == {"type": "ephemeral"}
                found.append(f"{index}.{place}")
    return found


def without_marks(blocks: list[WireBlock]) -> list[WireBlock]:
    return [
        {key: value for key, value in block.items() if key != "cache_control"} for block in blocks
    ]


def marked(*messages: WireMessage, system: list[WireBlock] = SYSTEM) -> list[str]:
    return marks(*with_marks(system, messages))


def test_the_ends_of_the_system_prompt_and_of_the_last_two_user_messages() -> None:
    opening, reply = message("user", TEXT), message("assistant", THOUGHT, CALL)
    answer = message("user", RESULT, TEXT)
    assert marked(opening) == ["system.1", "0.0"]
    assert marked(opening, reply, answer) == ["system.1", "0.0", "2.1"]
    assert marked(opening, reply, answer, reply, answer) == ["system.1", "2.1", "4.1"]


def test_a_long_message_of_results_has_a_second_mark_within_the_look_back() -> None:
    opening, reply = message("user", TEXT), message("assistant", *[CALL] * 30)
    assert marked(opening, reply, message("user", *[RESULT] * 30)) == [
        "system.1",
        "0.0",
        "2.14",
        "2.29",
    ]
    assert STRIDE < LOOK_BACK
    # The long message is no longer the newest one: its end is enough, the next mark is near.
    later = marked(opening, reply, message("user", *[RESULT] * 30), reply, message("user", RESULT))
    assert later == ["system.1", "2.29", "4.0"]


def test_without_a_system_prompt_and_after_a_paused_reply() -> None:
    opening, paused = message("user", TEXT), message("assistant", TEXT)
    assert marked(opening, paused, system=[]) == ["0.0"]


def test_thoughts_strange_blocks_and_empty_texts_carry_none() -> None:
    assert marked(message("user", TEXT, STRANGE, EMPTY, THOUGHT)) == ["system.1", "0.0"]
    assert marked(message("user", STRANGE)) == ["system.1"]


def test_the_originals_are_left_alone() -> None:
    messages = [message("user", *[RESULT] * 40)]
    with_marks(SYSTEM, messages)
    assert "cache_control" not in repr((SYSTEM, messages))


any_block = st.sampled_from([TEXT, RESULT, CALL, THOUGHT, STRANGE, EMPTY])
conversations = st.lists(
    st.tuples(st.lists(any_block, max_size=45), st.lists(any_block, max_size=45)), max_size=6
).map(
    lambda turns: [
        wire
        for user, assistant in turns
        for wire in (message("user", *user), message("assistant", *assistant))
    ]
)


@given(conversations, st.integers(0, 3))
def test_L08_never_more_than_four_marks_and_always_the_same(
    messages: list[WireMessage], system_blocks: int
) -> None:
    system = [TEXT] * system_blocks
    found = marks(*with_marks(system, messages))
    assert len(found) <= 4
    assert with_marks(system, messages) == with_marks(system, messages)
    for place in found:
        where, _, number = place.partition(".")
        if where != "system":
            assert messages[int(where)]["role"] == "user"
            block = blocks_of(messages[int(where)])[int(number)]
            assert block in (TEXT, RESULT)


@given(conversations, st.integers(0, 12))
def test_L08_a_request_is_a_prefix_of_the_next_one_but_for_its_marks(
    messages: list[WireMessage], length: int
) -> None:
    shorter, longer = messages[:length], messages
    _, first = with_marks(SYSTEM, shorter)
    _, second = with_marks(SYSTEM, longer)
    for before, after, original in zip(first, second[: len(first)], shorter, strict=True):
        assert without_marks(blocks_of(before)) == without_marks(blocks_of(after))
        assert without_marks(blocks_of(after)) == blocks_of(original)


def test_L08_six_parallel_calls_over_three_turns() -> None:
    messages = [message("user", TEXT)]
    for _ in range(3):
        messages += [message("assistant", *[CALL] * 6), message("user", *[RESULT] * 6)]
        assert len(marked(*messages)) <= 4
    assert marked(*messages) == ["system.1", "4.5", "6.5"]
