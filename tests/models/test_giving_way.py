"""What a server refuses is left out, at once and from then on; nothing is asked for ever."""

from __future__ import annotations

import json

import pytest

from orchestrator.messages import Message, OpaqueBlock, TextBlock, ToolUse
from orchestrator.models.messages_api import MessagesAPI
from orchestrator.models.trouble import Trouble
from tests.models.asking import assistant_content, conversation, session
from tests.models.raw_server import Raw, reply_events, request, status, stream, text

HELLO = stream(*reply_events(text("hello")))
THOUGHT: Raw = {"type": "thinking", "thinking": "h\u00e9", "signature": "c2ln"}

pytestmark = pytest.mark.asyncio


def refuses(message: str, code: int = 400) -> bytes:
    return status(code, message, "invalid_request_error")


async def test_a_feature_that_is_refused_is_left_out_at_once_and_for_good() -> None:
    opus = request(model="claude-opus-5-5")
    refusals = [
        refuses("messages.0.content.0.text.cache_control: Extra inputs are not permitted"),
        refuses("thinking.adaptive.display: Extra inputs are not permitted", 422),
    ]

    async def talk(api: MessagesAPI) -> None:
        await api.once(opus)
        await api.once(opus)
        await api.once(request(model="another"))

    bodies = await session([*refusals, HELLO, HELLO, HELLO], talk)
    assert ["cache_control" in json.dumps(body) for body in bodies] == [
        True,
        False,
        False,
        False,
        True,  # it is the model's server that refused, not every server behind this URL
    ]
    assert ["thinking" in body for body in bodies] == [True, True, False, False, False]
    assert {key: bodies[3][key] for key in bodies[3]} == bodies[2]


@pytest.mark.parametrize(
    "message",
    [
        "tools.0.custom.strict: Extra inputs are not permitted",
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
        "The compiled grammar is too large",
        "tools.0: JSON schema is invalid",
    ],
)
async def test_strict_tools_give_way(message: str) -> None:
    schema = {
        "type": "object",
        "properties": {"summary": {"type": "string", "maxLength": 9}},
        "required": ["summary"],
        "additionalProperties": False,
    }
    tool = request().tools[0].model_copy(update={"name": "SubmitChange", "input_schema": schema})
    made = request().model_copy(update={"tools": (tool,)})

    async def talk(api: MessagesAPI) -> None:
        await api.once(made)

    first, second = await session([refuses(message), HELLO], talk)
    assert '"strict": true' in json.dumps(first)
    assert '"strict"' not in json.dumps(second)
    assert '"maxLength": 9' in json.dumps(second)


async def test_a_server_that_refuses_everything_is_not_asked_for_ever() -> None:
    said = "strict thinking signature cache_control schema"

    async def talk(api: MessagesAPI) -> None:
        made = conversation(
            OpaqueBlock(raw=THOUGHT),
            ToolUse(id="1", name="Read", input={}),
            model="claude-opus-5-5",
        )
        for _ in range(2):
            with pytest.raises(Trouble) as caught:
                await api.once(made)
            assert caught.value.kind == "invalid"

    bodies = await session([refuses(said)] * 9, talk)
    assert len(bodies) == 5 + 1


async def test_other_refusals_are_not_repeated() -> None:
    async def talk(api: MessagesAPI) -> None:
        with pytest.raises(Trouble):
            await api.once(request())

    assert len(await session([refuses("messages: roles must alternate"), HELLO], talk)) == 1


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: `redacted_thinking` blocks in the latest assistant message cannot"
        + " be modified; nor can `thinking` ones.",
    ],
)
async def test_L06_refused_thoughts_are_left_out_once_and_from_then_on(message: str) -> None:
    use = ToolUse(id="1", name="Read", input={})
    made = conversation(OpaqueBlock(raw=THOUGHT), use)
    newer = OpaqueBlock(raw={**THOUGHT, "signature": "bmV3"})

    async def talk(api: MessagesAPI) -> None:
        await api.once(made)
        longer = (
            *made.messages,
            Message(role="assistant", blocks=(newer, TextBlock(text="so"))),
            Message(role="user", blocks=(TextBlock(text="go on"),)),
        )
        await api.once(made.model_copy(update={"messages": longer}))
        with pytest.raises(Trouble) as caught:
            await api.once(made)
        assert caught.value.kind == "invalid"

    bodies = await session(
        [refuses(message), HELLO, HELLO, refuses(message), refuses(message)], talk
    )
    wire_use = {"type": "tool_use", "id": "1", "name": "Read", "input": {}}
    assert assistant_content(bodies[0]) == [THOUGHT, wire_use]
    assert assistant_content(bodies[1]) == [wire_use]
    assert assistant_content(bodies[2]) == [wire_use]
    assert newer.raw in json.loads(json.dumps(bodies[2]["messages"]))[3]["content"]
