"""The test server speaks to the real SDK as the real API does: streams, documents, faults."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from typing import Any

import anthropic
import pytest
from anthropic.types import Message

from tests.support.api.answer import Outage
from tests.support.api.conversation import (
    Conversation,
    Turn,
    call,
    say,
    script_policy,
    tasks_policy,
    think,
    thoughtful,
    turns_policy,
)
from tests.support.api.faults import KINDS, RETRY_AFTER_S, FaultKind, Faults
from tests.support.api.server import KEY, ApiServer

READ = call("Read", file_path="a.py", limit=3)
POLICY = turns_policy(
    Turn((say("I read. \u00e9\u2028\U0001f600"), READ, call("Read", {"file_path": "b.py"}))),
    Turn((say("Done."),)),
)


def client(server: ApiServer, key: str = KEY) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, timeout=10)


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    first = {"role": "user", "content": "# Task `work`\n\nDo it."}
    tool = {"name": "Read", "input_schema": {"type": "object", "properties": {}}}
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 1_000,
        "tools": [tool],
        "messages": [first, *messages],
        **more,
    }


def stream(sdk: anthropic.Anthropic, **request: Any) -> Message:
    with sdk.messages.stream(**request) as events:
        return events.get_final_message()


def answered(message: Message) -> list[dict[str, Any]]:
    """The reply, and results for its calls."""
    blocks = [
        {key: value for key, value in block.to_dict(mode="json").items() if key != "parsed_output"}
        for block in message.content
    ]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "text"}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    said: list[dict[str, Any]] = [{"role": "assistant", "content": blocks}]
    return [*said, {"role": "user", "content": results}] if results else said


def test_a_stream_gives_blocks_ids_stop_reason_and_usage() -> None:
    with ApiServer(POLICY) as server, client(server) as sdk:
        first = stream(sdk, **body())
        second = stream(sdk, **body(*answered(first)))
    assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
    assert first.content[0].to_dict()["text"] == "I read. \u00e9\u2028\U0001f600"
    calls = [block for block in first.content if block.type == "tool_use"]
    assert calls[0].input == {"file_path": "a.py", "limit": 3}
    assert len({block.id for block in calls}) == 2
    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert first.usage.input_tokens > 0
    assert first.usage.output_tokens > 5
    assert [handled.turn for handled in server.log] == [0, 1]
    assert {handled.task for handled in server.log} == {"work"}


def test_a_request_without_a_stream_gets_the_same_reply() -> None:
    with ApiServer(POLICY) as server, client(server) as sdk:
        streamed = stream(sdk, **body())
        whole = sdk.messages.create(**body())
    assert answered(whole) == answered(streamed)
    assert whole.stop_reason == "tool_use"
    assert whole._request_id is not None


def test_tokens_are_counted_and_models_listed() -> None:
    with ApiServer(POLICY) as server, client(server) as sdk:
        short = sdk.messages.count_tokens(
            model="claude-opus-5-5", messages=[{"role": "user", "content": "x"}]
        )
        long = sdk.messages.count_tokens(
            model="claude-opus-5-5", messages=[{"role": "user", "content": "x" * 400}]
        )
        models = [model.id for model in sdk.models.list()]
    assert long.input_tokens - short.input_tokens in (99, 100)
    assert "claude-opus-5-5" in models


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_the_key_is_wanted_in_either_header(header: str) -> None:
    with ApiServer(POLICY) as server:
        with client(server, "wrong") as sdk, pytest.raises(anthropic.AuthenticationError):
            stream(sdk, **body())
        value = KEY if header == "x-api-key" else f"Bearer {KEY}"
        with client(server, "wrong") as sdk:
            assert sdk.messages.create(**body(), extra_headers={header: value}).content
    assert len(server.log) == 1


def test_thoughts_come_with_a_signature_and_are_taken_back() -> None:
    with ApiServer(thoughtful(POLICY)) as server, client(server) as sdk:
        first = stream(sdk, **body())
        assert [block.type for block in first.content][:2] == ["thinking", "text"]
        assert stream(sdk, **body(*answered(first))).stop_reason == "end_turn"


def test_a_call_that_is_cut_ends_in_the_middle_of_its_arguments() -> None:
    policy = turns_policy(Turn((call("Write", file_path="a.py", content="x" * 99),), "max_tokens"))
    with ApiServer(policy) as server, client(server) as sdk:
        message = stream(sdk, **body())
    (block,) = message.content
    assert block.type == "tool_use"
    assert message.stop_reason == "max_tokens"
    assert block.input == {"file_path": "a.py"}


def test_no_output_at_all_warms_the_cache_and_is_no_turn() -> None:
    with ApiServer(POLICY, least_cached=1) as server, client(server) as sdk:
        marked = [{"type": "text", "text": "rules " * 99, "cache_control": {"type": "ephemeral"}}]
        warm = sdk.messages.create(**body(system=marked, max_tokens=0))
        read = stream(sdk, **body(system=marked)).usage.cache_read_input_tokens
    assert warm.content == []
    assert warm.usage.cache_creation_input_tokens == read


def test_scripts_are_played_by_task_attempt_and_turn() -> None:
    policy = script_policy(
        {
            "work": [{"say": "one", "calls": [{"Read": {"file_path": "a"}}]}, {"expect": "text"}],
            "work#2": [{"say": "again"}],
            "*": [{"say": "anybody"}],
        }
    )

    def text(sdk: anthropic.Anthropic, opening: str) -> str:
        content = [{"role": "user", "content": opening}]
        return str(stream(sdk, **body(messages=content)).content[0].to_dict()["text"])

    with ApiServer(policy) as server, client(server) as sdk:
        assert text(sdk, "# Task `work`\n\nx") == "one"
        assert text(sdk, "# Task `work`\n\nx\n\n## This is attempt 2; it failed") == "again"
        assert text(sdk, "# Task `other`\n\nx") == "anybody"
        assert [handled.attempt for handled in server.log] == [1, 2, 1]
        first = stream(sdk, **body())
        assert stream(sdk, **body(*answered(first))).content == []
        wrong = answered(first)
        wrong[1]["content"][0]["content"] = "something else"
        with pytest.raises(anthropic.BadRequestError, match="expected `text`"):
            stream(sdk, **body(*wrong))


def test_a_policy_may_depend_on_the_task_and_may_have_nothing_to_say() -> None:
    with ApiServer(tasks_policy({"work": POLICY})) as server, client(server) as sdk:
        assert stream(sdk, **body()).content
        other = [{"role": "user", "content": "# Task `other`"}]
        with pytest.raises(anthropic.BadRequestError, match="nobody speaks for task `other`"):
            stream(sdk, **body(messages=other))


@pytest.mark.parametrize("data", [b'{"model": "\\ud800"}', b'{"model": ', b"[]", b"\xff"])
def test_a_body_that_is_no_json_object_of_proper_text_is_refused(data: bytes) -> None:
    with ApiServer(POLICY) as server:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/messages", data, {"x-api-key": KEY})
        response = connection.getresponse()
        error = json.loads(response.read())["error"]
        connection.close()
    assert (response.status, error["type"]) == (400, "invalid_request_error")
    assert "JSON" in error["message"]


def test_a_prompt_that_is_longer_than_the_window_is_refused() -> None:
    with ApiServer(POLICY, window_tokens=50) as server, client(server) as sdk:
        long = [{"role": "user", "content": "x" * 400}]
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 50"):
            stream(sdk, **body(messages=long))


def test_an_outage_is_the_answer_to_everything() -> None:
    with ApiServer(POLICY) as server, client(server) as sdk:
        server.state.before = lambda conversation: Outage(403, "permission_error", "no")
        with pytest.raises(anthropic.PermissionDeniedError, match="no"):
            stream(sdk, **body())
        assert [handled.status for handled in server.log] == [403]


def test_somebody_elses_server_lacks_what_only_the_real_one_has() -> None:
    with ApiServer(POLICY, plain=True, least_cached=1) as server, client(server) as sdk:
        strict = {"name": "Read", "strict": True, "input_schema": {"type": "object"}}
        with pytest.raises(anthropic.BadRequestError):
            stream(sdk, **body(tools=[{**strict}]))
        with pytest.raises(anthropic.NotFoundError):
            sdk.messages.count_tokens(**{k: v for k, v in body().items() if k != "max_tokens"})
        usage = stream(sdk, **body(cache_control={"type": "ephemeral"})).usage
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (0, 0)
    assert usage.input_tokens > 0


# --- faults -----------------------------------------------------------------------------------


def outcome(kind: FaultKind, seed: int = 0) -> tuple[ApiServer, Message | str | BaseException]:
    """What the SDK makes of one faulty answer."""
    faults = Faults(seed, {kind: 1.0})
    with ApiServer(thoughtful(POLICY), faults=faults) as server, client(server) as sdk:
        try:
            return server, stream(sdk, **body())
        except Exception as error:  # noqa: BLE001 - this is the outcome
            return server, error


@pytest.mark.parametrize(
    ("kind", "status"),
    [("rate_limit", 429), ("rate_limit_after", 429), ("overloaded", 529), ("server_error", 500)],
)
def test_faults_by_status(kind: FaultKind, status: int) -> None:
    server, error = outcome(kind)
    assert isinstance(error, anthropic.APIStatusError)
    assert error.status_code == status
    wanted = str(RETRY_AFTER_S) if kind == "rate_limit_after" else None
    assert error.response.headers.get("retry-after") == wanted
    assert [(handled.fault, handled.reply) for handled in server.log] == [(kind, None)]


def test_an_error_event_inside_a_stream_has_status_200() -> None:
    _, error = outcome("error_event")
    assert isinstance(error, anthropic.APIStatusError)
    assert error.status_code == 200
    assert "overloaded_error" in str(error)


def test_cut_streams_break_with_an_error_or_end_without_a_reason() -> None:
    _, broken = outcome("cut_chunked")
    assert isinstance(broken, Exception)
    assert "incomplete chunked read" in repr(broken) + repr(broken.__cause__)
    _, short = outcome("cut_closed")
    assert isinstance(short, Message)
    assert short.stop_reason is None


def test_a_page_of_a_proxy_and_an_empty_stream_are_no_messages() -> None:
    for kind in ("html", "empty"):
        _, result = outcome(kind)
        assert not isinstance(result, Message)


def test_bad_arguments_are_no_json() -> None:
    _, error = outcome("bad_json")
    assert isinstance(error, ValueError)


def test_unknown_blocks_and_reasons_arrive_and_the_blocks_must_come_back_as_they_were() -> None:
    faults = Faults(0, {"unknown_block": 1.0})
    with ApiServer(POLICY, faults=faults) as server, client(server) as sdk:
        first = stream(sdk, **body())
        assert str(first.content[0].type) == "hologram"
        assert stream(sdk, **body(*answered(first))).stop_reason == "end_turn"
        changed = answered(first)
        changed[0]["content"][0]["n"] = [1, 2, None]
        with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
            stream(sdk, **body(*changed))
        del changed[0]["content"][0]
        with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
            stream(sdk, **body(*changed))
    _, tired = outcome("unknown_stop")
    assert isinstance(tired, Message)
    assert str(tired.stop_reason) == "tired"


def test_a_silent_stream_is_held_open_until_the_client_leaves() -> None:
    heard: list[str] = []
    silent = threading.Event()

    def on_silence(conversation: Conversation) -> None:
        heard.append(conversation.task)
        silent.set()

    faults = Faults(0, {"silence": 1.0})
    with (
        ApiServer(POLICY, faults=faults, on_silence=on_silence) as server,
        client(server) as sdk,
    ):
        with sdk.messages.stream(**body()) as events:
            next(iter(events))
            assert silent.wait(10)
        server.state.faults = Faults()
        assert stream(sdk, **body()).stop_reason == "tool_use"
    assert set(heard) == {"work"}
    assert [handled.tried for handled in server.log] == [0, 1]


def test_leaving_the_server_ends_a_silence_too() -> None:
    before = threading.active_count()
    silent = threading.Event()
    faults = Faults(0, {"silence": 1.0})
    sdk: anthropic.Anthropic
    with ApiServer(POLICY, faults=faults, on_silence=lambda _: silent.set()) as server:
        sdk = client(server)
        events = sdk.messages.stream(**body()).__enter__()
        assert silent.wait(10)
    events.close()
    sdk.close()
    assert threading.active_count() == before


def test_an_error_of_the_policy_is_raised_where_the_server_is_left() -> None:
    def broken(conversation: Conversation) -> Turn:
        raise KeyError("mistake in a test")

    with (
        pytest.raises(AssertionError, match="test server failed"),
        ApiServer(broken) as server,
        client(server) as sdk,
        pytest.raises(anthropic.APIConnectionError),
    ):
        stream(sdk, **body())


def test_faults_are_the_same_for_a_seed_and_happen_as_often_as_asked() -> None:
    mixed = Faults.mixed(3, 0.2)
    asked = [("c", turn, tried) for turn in range(300) for tried in range(10)]
    chosen = [mixed.choose(*key) for key in asked]
    assert chosen == [Faults.mixed(3, 0.2).choose(*key) for key in asked]
    assert chosen != [Faults.mixed(4, 0.2).choose(*key) for key in asked]
    assert set(chosen) == {None, *KINDS}
    assert 0.15 < sum(kind is not None for kind in chosen) / len(chosen) < 0.25


def test_a_turn_can_think_without_saying_anything() -> None:
    with ApiServer(turns_policy(Turn((think("hm"),)))) as server, client(server) as sdk:
        assert [block.type for block in stream(sdk, **body()).content] == ["thinking"]
