"""Messages to JSON and back: what came from a provider goes back as it came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from orchestrator.messages import (
    Message,
    OpaqueBlock,
    Request,
    TextBlock,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from orchestrator.models.wire import block_of, body_of, digest_of, strict_schema, thoughts_of
from orchestrator.tools.submit import submit_spec
from tests.models.raw_server import Raw, request

THOUGHT: Raw = {
    "type": "thinking",
    "thinking": "h\u00e9 \U0001f600",
    "signature": "c2ln",
    "n": None,
}
REDACTED: Raw = {"type": "redacted_thinking", "data": "AAAA"}
STRANGE: Raw = {"type": "server_tool_use", "id": "srv_1", "name": "x", "input": {"b": 1, "a": None}}
PLAIN: Raw = {"type": "text", "text": "I read."}
CITED: Raw = {"type": "text", "text": "So.", "citations": [{"cited_text": "x", "at": 1}]}
CALL: Raw = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "Read",
    "input": {"file_path": "a", "limit": None},
    "caller": {"type": "direct"},
}


def user(*blocks: TextBlock | ToolResult) -> Message:
    return Message(role="user", blocks=blocks)


OPENING = user(TextBlock(text="Do it."))


def content(body: dict[str, JsonValue], index: int) -> list[JsonValue]:
    messages = body["messages"]
    assert isinstance(messages, list)
    message = messages[index]
    assert isinstance(message, dict)
    blocks = message["content"]
    assert isinstance(blocks, list)
    return blocks


def reply(*raws: Raw) -> Message:
    blocks = tuple(block for raw in raws if (block := block_of(raw)) is not None)
    return Message(role="assistant", blocks=blocks)


def test_a_request_as_it_is_sent() -> None:
    made = request(
        OPENING,
        reply(CALL),
        user(ToolResult(tool_use_id="toolu_1", content="no", is_error=True), TextBlock(text="on")),
    )
    assert body_of(made, features=()) == {
        "model": "model-a",
        "max_tokens": 1_000,
        "stream": True,
        "system": [
            {"type": "text", "text": "You are an agent."},
            {"type": "text", "text": "Keep to the rules."},
        ],
        "tools": [
            {
                "name": "Read",
                "description": "Reads.",
                "input_schema": {
                    "type": "object",
                    "properties": {},
                    "additionalProperties": False,
                },
            }
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
            {"role": "assistant", "content": [CALL]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "no",
                        "is_error": True,
                    },
                    {"type": "text", "text": "on"},
                ],
            },
        ],
    }


def test_what_is_never_sent() -> None:
    body = body_of(request(task="secret-task"))
    assert "secret-task" not in json.dumps(body)
    assert {"tool_choice", "temperature", "top_p", "top_k", "metadata"}.isdisjoint(body)


def test_nothing_empty_is_sent() -> None:
    bare = request().model_copy(update={"system": (), "tools": ()})
    assert {"system", "tools"}.isdisjoint(body_of(bare))


@pytest.mark.parametrize("raw", [THOUGHT, REDACTED, STRANGE, PLAIN, CITED, CALL])
def test_L06_L15_a_block_goes_back_as_it_came(raw: Raw) -> None:
    message = reply(raw)
    stored = Message.model_validate_json(message.model_dump_json())
    assert content(body_of(request(OPENING, stored), features=()), 1) == [raw]


keys = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_L15_a_block_of_an_unknown_kind_goes_back_as_it_came(rest: dict[str, JsonValue]) -> None:
    raw: Raw = {**rest, "type": "new_block"}
    stored = Message.model_validate_json(reply(raw).model_dump_json())
    sent = content(body_of(request(OPENING, stored)), 1)[0]
    assert json.dumps(sent) == json.dumps(raw)


def test_what_says_nothing_is_dropped_from_known_blocks() -> None:
    assert block_of({**PLAIN, "citations": None}) == TextBlock(text="I read.")
    assert block_of({**CALL, "caller": None}) == ToolUse(
        id="toolu_1", name="Read", input={"file_path": "a", "limit": None}
    )


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_A25_blank_texts_are_not_kept(blank: str) -> None:
    assert block_of({"type": "text", "text": blank}) is None


def test_a_mark_that_came_in_does_not_go_out() -> None:
    marked: Raw = {**PLAIN, "cache_control": {"type": "ephemeral"}}
    assert block_of(marked) == TextBlock(text="I read.")


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "text"},
        {"type": "text", "text": 1},
        {"type": "tool_use", "id": "1", "name": "x"},
        {"type": "tool_use", "id": "1", "name": "x", "input": []},
        {"type": "tool_use", "id": "1", "input": {}},
        {"type": "tool_use", "name": "x", "input": {}},
    ],
)
def test_a_block_that_lacks_what_makes_it_one_is_no_block(raw: Raw) -> None:
    with pytest.raises(ValueError, match=r"block|arguments"):
        block_of(raw)


def test_L06_refused_thoughts_are_left_out_whole_and_nothing_else() -> None:
    made = request(OPENING, reply(THOUGHT, CALL), OPENING, reply(REDACTED, STRANGE), OPENING)
    thoughts = thoughts_of(made)
    assert thoughts == {digest_of(OpaqueBlock(raw=THOUGHT)), digest_of(OpaqueBlock(raw=REDACTED))}
    body = body_of(made, refused=thoughts)
    assert content(body, 1) == [CALL]
    assert content(body, 3) == [STRANGE]
    one = body_of(made, refused={digest_of(OpaqueBlock(raw=THOUGHT))})
    assert content(one, 3) == [REDACTED, STRANGE]


def test_L06_a_reply_of_thoughts_alone_leaves_words_behind() -> None:
    made = request(OPENING, reply(THOUGHT), OPENING)
    body = body_of(made, refused=thoughts_of(made))
    assert content(body, 1) == [{"type": "text", "text": "(no answer)"}]


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("claude-opus-5-5", True),
        ("claude-opus-5", True),
        ("claude-sonnet-5-5-20261001", True),
        ("claude-fable-5-1", True),
        ("us.anthropic.claude-opus-5-5-v1:0", True),
        ("claude-opus-5-5@20261001", True),
        ("claude-haiku-4-5", False),
        ("claude-opus-50", False),
        ("qwen3:8b", False),
    ],
)
def test_thoughts_are_asked_for_in_words_where_a_model_has_them(model: str, thinks: bool) -> None:
    body = body_of(request(model=model))
    expected = {"type": "adaptive", "display": "summarized"} if thinks else None
    assert body.get("thinking") == expected
    assert "thinking" not in body_of(request(model=model), features={"strict"})


@pytest.mark.parametrize("kind", ["report", "change", "verdict"])
def test_submit_tools_are_strict(kind: str) -> None:
    spec = submit_spec(kind)  # type: ignore[arg-type]
    body = body_of(with_tool(spec))
    tool = tool_of(body)
    assert tool["strict"] is True
    assert not problems_of_strict(tool["input_schema"])
    plain = tool_of(body_of(with_tool(spec), features=()))
    assert plain["input_schema"] == spec.input_schema
    assert "strict" not in plain


def test_a_product_with_free_form_mappings_cannot_be_strict() -> None:
    spec = submit_spec("patch")
    tool = tool_of(body_of(with_tool(spec)))
    assert "strict" not in tool
    assert tool["input_schema"] == spec.input_schema


def test_only_submit_tools_are_strict() -> None:
    assert "strict" not in tool_of(body_of(request()))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        closed := {
            "type": "object",
            "properties": {"a": {"description": "anything"}},
            "additionalProperties": False,
        },
        {**closed, "properties": {"a": {"type": ["string", "null"]}}},
        {**closed, "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
        {**closed, "properties": {"a": {"anyOf": [{"type": "object"}, {"type": "string"}]}}},
        {**closed, "properties": {f"p{n}": {"type": "string"} for n in range(25)}},
    ],
)
def test_schemas_that_cannot_be_strict(schema: dict[str, JsonValue]) -> None:
    assert strict_schema(schema) is None


def test_a_strict_schema_keeps_its_limits_as_words() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1, "description": "A line."}},
        "required": ["a"],
        "additionalProperties": False,
    }
    strict = strict_schema(schema)
    assert strict is not None
    described = strict["properties"]["a"]
    assert "minimum" not in described
    assert "A line." in described["description"]
    assert "minimum: 1" in described["description"]


def with_tool(spec: ToolSpec) -> Request:
    return request().model_copy(update={"tools": (spec,)})


def tool_of(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    tools = body["tools"]
    assert isinstance(tools, list)
    assert isinstance(tools[0], dict)
    return tools[0]


NOT_IN_STRICT = {"minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern", "default"}


def problems_of_strict(schema: JsonValue) -> list[str]:
    """What the published limits of strict tools say against a schema."""
    if isinstance(schema, list):
        return [problem for item in schema for problem in problems_of_strict(item)]
    if not isinstance(schema, dict):
        return []
    found = [key for key in schema if key in NOT_IN_STRICT]
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        found.append("open object")
    inner: list[JsonValue] = [schema[key] for key in ("items", "anyOf") if key in schema]
    for key in ("properties", "$defs"):
        named = schema.get(key, {})
        assert isinstance(named, dict)
        inner += named.values()
    return found + problems_of_strict(inner)
