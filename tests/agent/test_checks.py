"""What a request must fulfil before it is sent, and what is mended in a model's message."""

from __future__ import annotations

import pytest

from orchestrator.agent.checks import (
    NOTHING_SAID,
    BrokenConversation,
    check_request,
    storable,
    well_formed,
)
from orchestrator.messages import (
    Block,
    Message,
    OpaqueBlock,
    Request,
    TextBlock,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from tests.agent.examples import use


def text(content: str) -> TextBlock:
    return TextBlock(text=content)


def user(*blocks: Block) -> Message:
    return Message(role="user", blocks=blocks)


def assistant(*blocks: Block) -> Message:
    return Message(role="assistant", blocks=blocks)


def result(call_id: str, content: str = "ok") -> ToolResult:
    return ToolResult(tool_use_id=call_id, content=content)


def request(*messages: Message, tools: tuple[str, ...] = ("Bash", "Read")) -> Request:
    return Request(
        task="t",
        attempt=1,
        model="m",
        max_tokens=10,
        tools=tuple(ToolSpec(name=name, description="", input_schema={}) for name in tools),
        system=("You work.",),
        messages=messages,
    )


CALLS = assistant(use("Read", "a"), use("Bash", "b"))
THINKING = OpaqueBlock(raw={"type": "thinking", "thinking": "", "signature": "s"})


def test_a_conversation_with_parallel_calls_passes() -> None:
    check_request(
        request(
            user(text("go")),
            assistant(THINKING, text("I look"), *CALLS.blocks),
            user(result("a"), result("b"), text("a note")),
        )
    )


def test_a_paused_reply_may_stand_last_and_be_continued() -> None:
    paused = request(user(text("go")), assistant(text("so far")))
    check_request(paused)
    longer = request(*paused.messages, assistant(text("and on")), user(text("go on")))
    check_request(longer, paused)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ((), "starts with a user message"),
        ((assistant(text("hello")),), "starts with a user message"),
        ((user(),), "message 0 is empty"),
        ((user(text(" \n")),), "an empty text"),
        ((user(text("go")), user(text("go"))), "two user messages in a row"),
        ((user(text("go")), CALLS), "tools that have no result"),
        ((user(text("go")), CALLS, user(text("no"))), "results for .., calls were"),
        ((user(text("go")), CALLS, user(result("a"))), "results for"),
        ((user(text("go")), CALLS, user(result("b"), result("a"))), "results for"),
        ((user(text("go")), CALLS, user(text("x"), result("a"), result("b"))), "stand first"),
        ((user(text("go")), CALLS, user(result("a"), result("b", " "))), "an empty text"),
        ((user(text("go")), assistant(text("x")), user(result("a"))), "results for"),
        ((user(use("Read", "a")),), "a user sends tool_use"),
        ((user(text("go")), assistant(result("a"))), "a assistant sends tool_result"),
        (
            (
                user(text("go")),
                assistant(use("Read", "a"), use("Read", "a")),
                user(result("a"), result("a")),
            ),
            "come twice",
        ),
        (
            (
                user(text("go")),
                assistant(ToolUse(id="a", name="Read", input={"x": ["\ud800"]})),
                user(result("a")),
            ),
            "well-formed",
        ),
    ],
)
def test_A01_what_a_provider_would_refuse_is_found(
    messages: tuple[Message, ...], complaint: str
) -> None:
    with pytest.raises(BrokenConversation, match=complaint):
        check_request(request(*messages))


def test_a_request_continues_the_previous_one() -> None:
    first = request(user(text("go")))
    second = request(user(text("go")), assistant(text("hm")), user(text("on")))
    check_request(second, first)
    with pytest.raises(BrokenConversation, match="no prefix"):
        check_request(request(user(text("went"))), first)
    with pytest.raises(BrokenConversation, match="no prefix"):
        check_request(first, second)
    with pytest.raises(BrokenConversation, match="tools or system differ"):
        check_request(request(user(text("go")), tools=("Bash",)), first)


def test_tools_are_sorted_and_named_once() -> None:
    for tools in (("Read", "Bash"), ("Bash", "Bash")):
        with pytest.raises(BrokenConversation, match="not sorted, or named twice"):
            check_request(request(user(text("go")), tools=tools))


def test_A25_blank_texts_are_not_stored() -> None:
    taken: set[str] = set()
    stored = storable(assistant(text("\n"), THINKING, use("Read", "a"), text("x ")), taken=taken)
    assert stored == assistant(THINKING, use("Read", "a"), text("x "))


def test_A25_a_reply_without_content_becomes_one_that_can_be_sent() -> None:
    assert storable(assistant(), taken=set()).text == NOTHING_SAID


def test_ids_that_are_empty_or_come_twice_get_their_own() -> None:
    taken: set[str] = set()
    blocks = [ToolUse(id=name, name="Read", input={}) for name in ("", "a", "a")]
    assert [call.id for call in storable(assistant(*blocks), taken=taken).calls] == [
        "call",
        "a",
        "a-2",
    ]
    assert [call.id for call in storable(assistant(blocks[1]), taken=taken).calls] == ["a-3"]


def test_thinking_stays_as_it_came() -> None:
    assert storable(assistant(THINKING), taken=set()).blocks == (THINKING,)


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_joined() -> None:
    assert well_formed({"a\udc00": ["x\ud800y", 1, None, "\ud83d\ude00"]}) == {
        "a\ufffd": ["x\ufffdy", 1, None, "\U0001f600"]
    }


def test_what_else_a_provider_put_into_a_call_goes_back_with_it() -> None:
    call = ToolUse(id="a", name="Read", input={}, extra={"caller": {"type": "direct"}})
    (stored,) = storable(assistant(call), taken=set()).calls
    assert stored == call
