"""Asks a raw server through the adapter and the SDK's real client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from pydantic import JsonValue

from orchestrator.core.plan import ModelPrice
from orchestrator.messages import (
    Message,
    OpaqueBlock,
    Reply,
    Request,
    TextBlock,
    ToolResult,
    ToolUse,
)
from orchestrator.models.clients import make_client
from orchestrator.models.messages_api import MessagesAPI
from orchestrator.models.servers import Server
from orchestrator.models.trouble import Trouble
from tests.models.raw_server import Answer, ManualClock, Raw, RawServer, request

KEY = "sk-test-secret"


def connect(
    server: RawServer, clock: ManualClock | None = None, **prices: ModelPrice
) -> MessagesAPI:
    client = make_client(Server(kind="anthropic", url=server.url), {"ANTHROPIC_API_KEY": KEY})
    return MessagesAPI(client, clock=clock or ManualClock(), prices=prices)


async def ask(answer: Answer, made: Request | None = None) -> Reply:
    """The reply that one answer gives."""
    async with RawServer([answer]) as server:
        api = connect(server)
        with anyio.fail_after(20):
            try:
                return await api.once(made or request())
            finally:
                await api.close()


async def trouble(answer: Answer, made: Request | None = None) -> Trouble:
    with pytest.raises(Trouble) as caught:
        await ask(answer, made)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert KEY not in str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


async def session(
    answers: Sequence[Answer], talk: Callable[[MessagesAPI], Awaitable[None]]
) -> list[Raw]:
    """The bodies of the requests that `talk` led to."""
    async with RawServer(answers) as server:
        api = connect(server)
        with anyio.fail_after(20):
            await talk(api)
        await api.close()
    return server.bodies


def assistant_content(body: Raw) -> list[JsonValue]:
    messages = body["messages"]
    assert isinstance(messages, list)
    for message in messages:
        assert isinstance(message, dict)
        if message["role"] == "assistant":
            content = message["content"]
            assert isinstance(content, list)
            return content
    raise AssertionError("nobody answered yet")


def conversation(*assistant: TextBlock | ToolUse | OpaqueBlock, model: str = "model-a") -> Request:
    opening = Message(role="user", blocks=(TextBlock(text="Do it."),))
    reply = Message(role="assistant", blocks=assistant)
    results = tuple(
        ToolResult(tool_use_id=item.id, content="done")
        for item in assistant
        if isinstance(item, ToolUse)
    )
    return request(opening, reply, Message(role="user", blocks=results), model=model)
