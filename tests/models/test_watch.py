"""Silence ends a try, and every byte is a sign of life; what is left is let go of."""

from __future__ import annotations

import asyncio

import anyio
import httpx2
import pytest

from orchestrator.core.usage import Usage
from orchestrator.models.trouble import Trouble
from orchestrator.models.watch import TooLongError, WatchedBody
from tests.models.asking import connect
from tests.models.raw_server import (
    ManualClock,
    RawServer,
    reply_events,
    request,
    sse,
    start,
    stream,
    text,
)

WHOLE = reply_events(text("hello"))

pytestmark = pytest.mark.asyncio


async def test_L02_a_stream_that_goes_silent_is_broken_with_its_cost() -> None:
    clock = ManualClock()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(stream(*WHOLE[:3]))
        await clock.reached(3)  # it waits for the request, the first bytes, and now for more
        clock.advance(89)
        assert len(server.requests) == 1
        clock.advance(1)

    async with RawServer([silent]) as server:
        api = connect(server, clock)
        with anyio.fail_after(20), pytest.raises(Trouble) as caught:
            await api.once(request())
        await api.close()
    assert caught.value.kind == "broken"
    assert "nothing came for 90 seconds" in str(caught.value)
    assert caught.value.usage == Usage(input_tokens=10, output_tokens=1)


async def test_L02_a_server_that_never_begins_is_busy() -> None:
    clock = ManualClock()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock.advance(90)

    async with RawServer([silent]) as server:
        api = connect(server, clock)
        with anyio.fail_after(20), pytest.raises(Trouble) as caught:
            await api.once(request())
        await api.close()
    assert caught.value.kind == "busy"


@pytest.mark.parametrize("sign", [sse({"type": "ping"}), b": still at it\n\n"])
async def test_L02_every_byte_is_a_sign_of_life(sign: bytes) -> None:
    clock = ManualClock()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(stream(start()))
        await clock.reached(3)
        for _ in range(5):
            clock.advance(60)
            waits = clock.waits
            writer.write(sign)
            await clock.reached(waits + 1)
        writer.write(b"".join(map(sse, WHOLE[1:])))

    async with RawServer([slow]) as server:
        api = connect(server, clock)
        with anyio.fail_after(20):
            reply = await api.once(request())
        await api.close()
    assert reply.message.text == "hello"
    assert clock.seconds == 300


@pytest.mark.parametrize("sign", [sse({"type": "ping"}), b": still at it\n\n"])
async def test_L02_a_stream_that_only_pretends_to_live_is_broken_after_an_hour(sign: bytes) -> None:
    clock = ManualClock()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(stream(*WHOLE[:3]))
        await clock.reached(3)
        for minute in range(60):
            assert clock.seconds == 60 * minute
            clock.advance(60)
            waits = clock.waits
            writer.write(sign)
            if minute < 59:
                await clock.reached(waits + 1)
        assert await reader.read() == b""

    async with RawServer([endless]) as server:
        api = connect(server, clock)
        with anyio.fail_after(20), pytest.raises(Trouble) as caught:
            await api.once(request())
        await api.close()
    assert caught.value.kind == "broken"
    assert "takes longer than 3,600 seconds" in str(caught.value)
    assert caught.value.usage == Usage(input_tokens=10, output_tokens=1)


class HastyClock(ManualClock):
    """A clock on which a second is over at once."""

    def timeout(self, seconds: float) -> anyio.CancelScope:
        scope = super().timeout(seconds)
        if seconds <= 1:
            scope.cancel()
        return scope


async def test_a_server_that_holds_the_connection_after_the_end_is_left() -> None:
    async def holds(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(stream(*WHOLE))
        assert await reader.read() == b""

    async with RawServer([holds]) as server:
        api = connect(server, HastyClock())
        with anyio.fail_after(20):
            assert (await api.once(request())).message.text == "hello"
        await api.close()


async def test_cancelling_lets_go_of_the_connection_and_is_paid_for() -> None:
    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(stream(start()))
        await clock.reached(3)
        scope.cancel()
        assert await reader.read() == b""
        gone.set()

    told: list[Usage] = []

    async def spend(usage: Usage) -> None:
        told.append(usage)

    clock, gone = ManualClock(), anyio.Event()
    async with RawServer([waits]) as server:
        api = connect(server, clock)
        with anyio.fail_after(20):
            with anyio.CancelScope() as scope:
                await api.once(request(), spend)
            assert scope.cancelled_caught
            await gone.wait()
        await api.close()
    assert told == [Usage(input_tokens=10, output_tokens=1)]


async def test_a_body_has_a_longest_length() -> None:
    body = WatchedBody(httpx2.ByteStream(b"x" * 10), bytes_max=10)
    assert [chunk async for chunk in body] == [b"x" * 10]
    too_long = WatchedBody(httpx2.ByteStream(b"x" * 11), bytes_max=10)
    with pytest.raises(TooLongError, match="10 bytes"):
        await anext(aiter(too_long))


async def test_a_connection_is_used_again() -> None:
    """What is left of a body after the end of its reply is read: a new connection takes time."""
    body = b"".join(map(sse, WHOLE))
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for remaining in (1, 0):
            writer.write(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
            if remaining:
                await reader.readuntil(b"\r\n\r\n")

    async with RawServer([twice]) as server:
        api = connect(server)
        with anyio.fail_after(20):
            for _ in range(2):
                assert (await api.once(request())).message.text == "hello"
        await api.close()
    assert len(server.requests) == 1  # the second came over the connection of the first
