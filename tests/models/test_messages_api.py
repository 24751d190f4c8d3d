"""One try at an answer: the real SDK over loopback, against a server that sends exact bytes."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable

import anyio
import pytest

from orchestrator.core.plan import ModelPrice
from orchestrator.core.usage import Usage
from orchestrator.messages import (
    Message,
    OpaqueBlock,
    TextBlock,
    ToolResult,
    ToolUse,
)
from orchestrator.models.clients import make_client
from orchestrator.models.messages_api import MessagesAPI
from orchestrator.models.servers import Server
from orchestrator.models.trouble import Trouble
from tests.models.asking import KEY, ask, assistant_content, connect, conversation, session, trouble
from tests.models.raw_server import (
    ManualClock,
    Raw,
    RawServer,
    block,
    call,
    chunked_and_cut,
    end,
    http,
    reply_events,
    request,
    start,
    status,
    stream,
    text,
    thought,
)

HELLO = stream(*reply_events(text("hello")))

pytestmark = pytest.mark.asyncio


async def test_a_reply_with_its_blocks_usage_and_model() -> None:
    blocks = (thought(), text("I ", "read.", index=1), call('{"a": 1}', index=2))
    reply = await ask(stream(*reply_events(*blocks, reason="tool_use")))
    assert reply.message.blocks == (
        OpaqueBlock(raw={"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        TextBlock(text="I read."),
        ToolUse(id="toolu_1", name="Read", input={"a": 1}),
    )
    assert reply.stop_reason == "tool_use"
    assert reply.model == "model-a"
    assert reply.usage == Usage(input_tokens=10, output_tokens=7, calls=1)


async def test_what_is_sent() -> None:
    async with RawServer([HELLO]) as server:
        api = connect(server)
        await api.once(request())
        await api.close()
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.body["stream"] is True
    assert "cache_control" in sent.raw.decode()


async def test_a_token_and_no_key_at_all() -> None:
    for environ, shown in (({"ANTHROPIC_AUTH_TOKEN": "tok"}, "Bearer tok"), ({}, "Bearer none")):
        async with RawServer([HELLO]) as server:
            place = Server(kind="anthropic", url=server.url)
            api = MessagesAPI(make_client(place, environ), clock=ManualClock())
            await api.once(request())
            await api.close()
        assert server.requests[0].headers["authorization"] == shown


@pytest.mark.parametrize(
    "reason",
    [
        "end_turn",
        "tool_use",
        "max_tokens",
        "stop_sequence",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
    ],
)
async def test_known_reasons_to_stop_are_handed_on(reason: str) -> None:
    assert (await ask(stream(*reply_events(text("a"), reason=reason)))).stop_reason == reason


@pytest.mark.parametrize("reason", ["unknown", "new_reason"])
async def test_an_unknown_reason_to_stop_is_said(reason: str) -> None:
    found = await trouble(stream(*reply_events(text("a"), reason=reason)))
    assert found.kind == "broken"
    assert reason in str(found)
    assert found.usage == Usage(input_tokens=10, output_tokens=7)


async def test_A17_a_refusal_without_content_is_a_reply() -> None:
    reply = await ask(stream(*reply_events(reason="refusal")))
    assert (reply.stop_reason, reply.message.blocks) == ("refusal", ())


async def test_A25_an_end_without_content_and_an_empty_text_are_replies_without_blocks() -> None:
    for events in (reply_events(), reply_events(text("")), reply_events(text(" \n"))):
        reply = await ask(stream(*events))
        assert (reply.stop_reason, reply.message.blocks) == ("end_turn", ())


async def test_A02_a_call_cut_by_max_tokens_is_handed_on_as_cut() -> None:
    cut = call('{"file_path": "a.py", "content": "x')
    reply = await ask(stream(*reply_events(cut, reason="max_tokens")))
    assert reply.stop_reason == "max_tokens"
    assert reply.message.calls == (ToolUse(id="toolu_1", name="Read", input={}),)


async def test_A16_broken_arguments_are_trouble_of_this_turn_with_its_cost() -> None:
    broken = reply_events(call('{"path": broken'), reason="tool_use")
    found = await trouble(stream(*broken))
    assert found.kind == "broken"
    assert "Read" in str(found)
    assert found.usage == Usage(input_tokens=10, output_tokens=7)


async def test_L15_an_unknown_block_comes_back_as_it_came() -> None:
    strange: Raw = {"type": "new_block", "payload": {"b": None, "a": ["\u00e9"]}, "text": None}
    bodies: list[Raw] = []

    async def talk(api: MessagesAPI) -> None:
        reply = await api.once(request())
        again = Message(role="user", blocks=(TextBlock(text="go on"),))
        await api.once(request(*request().messages, reply.message, again))

    bodies = await session([stream(*reply_events(block(0, strange))), HELLO], talk)
    assert assistant_content(bodies[1]) == [strange]


async def test_L06_thoughts_come_back_byte_for_byte() -> None:
    words, signature = 'h\u00e9 \U0001f600 "\\ \n', "c2ln+/=="

    async def talk(api: MessagesAPI) -> None:
        reply = await api.once(request())
        stored = Message.model_validate_json(reply.message.model_dump_json())
        again = Message(role="user", blocks=(ToolResult(tool_use_id="toolu_1", content="x"),))
        await api.once(request(*request().messages, stored, again))

    first = reply_events(thought(words, signature), call("{}", index=1), reason="tool_use")
    bodies = await session([stream(*first), HELLO], talk)
    assert assistant_content(bodies[1])[0] == {
        "type": "thinking",
        "thinking": words,
        "signature": signature,
    }


async def test_usage_by_price_bucket() -> None:
    counters: Raw = {
        "input_tokens": 1_000,
        "cache_creation_input_tokens": 5_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 3_000, "ephemeral_1h_input_tokens": 2_000},
        "cache_read_input_tokens": 40_000,
        "output_tokens": 1,
    }
    events = [start(counters, "claude-opus-5-5"), *end(usage={"output_tokens": 500})]
    usage = (await ask(stream(*events), request(model="claude-opus-5-5"))).usage
    # Per million: 4 in, 5 and 8 written, 0.20 read, 20 out.
    assert usage.usd == pytest.approx(0.004 + 0.015 + 0.016 + 0.008 + 0.010)
    assert usage.model_copy(update={"usd": 0.0}) == Usage(
        input_tokens=1_000,
        cache_write_5m_tokens=3_000,
        cache_write_1h_tokens=2_000,
        cache_read_tokens=40_000,
        output_tokens=500,
        calls=1,
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({}, {}),
        ({"input_tokens": None, "cache_creation": None}, {"output_tokens": "many"}),
        ({"input_tokens": -5, "cache_read_input_tokens": True}, {"output_tokens": 1.5}),
    ],
)
async def test_counters_that_a_server_lacks_or_makes_up_are_nothing(first: Raw, last: Raw) -> None:
    usage = (await ask(stream(start(first), *text("a"), *end(usage=last)))).usage
    assert usage == Usage(calls=1)


async def test_zeros_at_the_end_take_nothing_away() -> None:
    first: Raw = {"input_tokens": 900, "cache_read_input_tokens": 40, "output_tokens": 1}
    last: Raw = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 12.0}
    usage = (await ask(stream(start(first), *text("a"), *end(usage=last)))).usage
    assert usage == Usage(input_tokens=900, cache_read_tokens=40, output_tokens=12, calls=1)


@pytest.mark.parametrize("separator", [b"\n", b"\r\n"])
async def test_events_without_a_name_are_told_by_their_type(separator: bytes) -> None:
    body = b"".join(
        b"data: " + json.dumps(event).encode() + separator * 2
        for event in ({"type": "ping"}, *reply_events(text("hello")))
    )
    done = b"data: [DONE]" + separator * 2
    reply = await ask(http(200, body + done, content_type="text/event-stream"))
    assert (reply.message.text, reply.usage.output_tokens) == ("hello", 7)


async def test_an_error_without_a_name_is_told_by_its_type() -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
    body = f"data: {json.dumps(failed)}\n\n".encode()
    assert (await trouble(http(200, body, content_type="text/event-stream"))).kind == "busy"


async def test_writes_without_their_parts_are_five_minute_writes() -> None:
    first: Raw = {"cache_creation_input_tokens": 9}
    assert (await ask(stream(start(first), *end(usage={})))).usage.cache_write_5m_tokens == 9


async def test_the_plans_prices_are_those_of_the_name_that_was_asked_for() -> None:
    async with RawServer([HELLO]) as server:
        api = connect(server, None, mine=ModelPrice(input=100, output=1_000))
        usage = (await api.once(request(model="mine"))).usage
        await api.close()
    assert usage.usd == pytest.approx((10 * 100 + 7 * 1_000) / 1_000_000)


BEFORE_ANY_MESSAGE: dict[str, bytes] = {
    "HTML": http(200, b"<html><body>Sign in</body></html>\n\n", content_type="text/html"),
    "JSON": http(200, b'{"id": "msg_1", "content": []}', content_type="application/json"),
    "nothing": http(200, b"", content_type="text/event-stream"),
    "no type": http(200, b""),
    "no UTF-8": http(200, b"event: ping\ndata: \xff\n\n", content_type="text/event-stream"),
    "no JSON": http(200, b"event: ping\n\nevent: x\ndata: {\n\n", content_type="text/event-stream"),
    "a number": http(200, b"event: x\ndata: 1\n\n", content_type="text/event-stream"),
    "only pings": stream({"type": "ping"}, {"type": "ping"}),
    "compressed": http(
        200,
        gzip.compress(b"\n" * 100_000),
        content_type="text/event-stream",
        content_encoding="gzip",
    ),
}


@pytest.mark.parametrize("name", BEFORE_ANY_MESSAGE)
async def test_a_success_that_is_no_stream_of_a_message_is_broken(name: str) -> None:
    found = await trouble(BEFORE_ANY_MESSAGE[name])
    assert (found.kind, found.usage) == ("broken", Usage())


async def test_a_page_says_what_it_is() -> None:
    assert "text/html" in str(await trouble(BEFORE_ANY_MESSAGE["HTML"]))


WHOLE = reply_events(text("hello"))


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
@pytest.mark.parametrize("make", [stream, chunked_and_cut])
async def test_a_stream_that_ends_early_is_broken_and_keeps_its_cost(
    length: int, make: Callable[..., bytes]
) -> None:
    found = await trouble(make(*WHOLE[:length]))
    assert found.kind == "broken"
    ended = length == len(WHOLE) - 1
    assert found.usage == Usage(input_tokens=10, output_tokens=7 if ended else 1)


async def test_a_connection_that_breaks_after_the_end_does_no_harm() -> None:
    assert (await ask(chunked_and_cut(*WHOLE))).message.text == "hello"


@pytest.mark.parametrize(
    ("type_", "kind"),
    [("overloaded_error", "busy"), ("invalid_request_error", "invalid"), ("new_error", "broken")],
)
async def test_an_error_event_inside_a_stream_goes_by_its_type(type_: str, kind: str) -> None:
    failed: Raw = {"type": "error", "error": {"type": type_, "message": f"no, {KEY}"}}
    found = await trouble(stream(*WHOLE[:3], failed))
    assert found.kind == kind
    assert found.usage == Usage(input_tokens=10, output_tokens=1)
    assert "[hidden]" in str(found)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (429, "busy"),
        (500, "busy"),
        (529, "busy"),
        (524, "busy"),
        (401, "blocked"),
        (413, "too_long"),
    ],
)
async def test_L11_L16_statuses(code: int, kind: str) -> None:
    assert (await trouble(status(code, "no"))).kind == kind


async def test_nothing_is_repeated_by_the_sdk() -> None:
    async def talk(api: MessagesAPI) -> None:
        with pytest.raises(Trouble) as caught:
            await api.once(request())
        assert caught.value.retry_after_s == 3

    assert len(await session([status(429, "no", retry_after="3"), HELLO], talk)) == 1


async def test_a_redirect_is_not_followed() -> None:
    async with RawServer([]) as elsewhere:
        found = await trouble(http(307, b"", location=elsewhere.url + "/v1/messages"))
        assert found.kind == "blocked"
    assert elsewhere.requests == []


async def test_nobody_listens() -> None:
    async with RawServer([]) as server:
        pass
    api = connect(server)
    with pytest.raises(Trouble) as caught:
        await api.once(request())
    await api.close()
    assert caught.value.kind == "busy"
    assert "cannot be reached" in str(caught.value)


async def test_a_connection_that_is_closed_without_an_answer_is_busy() -> None:
    assert (await trouble(b"")).kind == "busy"


async def test_an_error_body_without_end_is_not_read_to_its_end() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    assert (await trouble(endless)).kind == "broken"


async def test_what_cannot_be_encoded_is_invalid_before_it_is_sent() -> None:
    async def talk(api: MessagesAPI) -> None:
        bad = OpaqueBlock(raw={"type": "thinking", "thinking": "\ud800", "signature": "s"})
        with pytest.raises(Trouble) as caught:
            await api.once(conversation(bad, ToolUse(id="1", name="Read", input={})))
        assert caught.value.kind == "invalid"

    assert await session([HELLO], talk) == []


async def test_L09_a_reply_of_any_length_is_asked_for_in_one_stream() -> None:
    async def talk(api: MessagesAPI) -> None:
        await api.once(request().model_copy(update={"max_tokens": 128_000}))

    (body,) = await session([HELLO], talk)
    assert (body["max_tokens"], body["stream"]) == (128_000, True)


async def test_many_conversations_at_once_do_not_meet() -> None:
    replies: dict[str, str] = {}
    answers = [stream(*reply_events(text(f"answer {number}"))) for number in range(8)]

    async with RawServer(answers) as server:
        api = connect(server)

        async def one(name: str) -> None:
            replies[name] = (await api.once(request(task=name))).message.text

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(one, f"task-{number}")
        await api.close()
    assert sorted(replies.values()) == sorted(f"answer {number}" for number in range(8))
