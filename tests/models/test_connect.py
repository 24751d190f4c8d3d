"""A model behind a server, put together: it answers, and lets go of its connections at the end."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from orchestrator.models.connect import open_model
from orchestrator.models.servers import server_of
from tests.models.asking import KEY
from tests.models.raw_server import (
    ManualClock,
    RawServer,
    reply_events,
    request,
    sse,
    text,
)

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("cancelled", [False, True])
async def test_it_answers_and_lets_go_of_its_connections(cancelled: bool) -> None:
    gone = anyio.Event()
    body = b"".join(map(sse, reply_events(text("hello"))))

    async def keeps(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)
        assert await reader.read() == b""
        gone.set()

    async with RawServer([keeps]) as server:
        environ = {"ANTHROPIC_API_KEY": KEY}
        opened = open_model(
            server_of(server.url, environ),
            environ,
            clock=ManualClock(),
            prices={},
            tell=lambda line: None,
        )
        with anyio.fail_after(20):
            with anyio.CancelScope() as scope:
                async with opened as model:
                    assert (await model.complete(request())).message.text == "hello"
                    assert not gone.is_set()
                    if cancelled:
                        scope.cancel()
            await gone.wait()
