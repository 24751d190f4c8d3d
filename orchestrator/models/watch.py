"""The bytes of a response, watched: silence ends them, and so does too much of them.

A server that stops in the middle of a stream and holds the connection open would hold its agent for
ever; the HTTP client's own read timeout knows neither our clock nor pings. Every byte is a sign of
life, so the watch lies beneath the decoder: events, pings and comment lines, which some servers
send while they wait for a model, all count. A server that says nothing but those has an end, too.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import anyio
import httpx2

from orchestrator.models.clock import Clock

T = TypeVar("T")

STREAM_BYTES_MAX = 64 * 1024 * 1024
"""Longest stream that is read: the longest replies take a third of it on the wire."""
ERROR_BYTES_MAX = 1024 * 1024
"""Longest body of an error that is read."""
EVENT_BYTES_MAX = 16 * 1024 * 1024
"""Longest event of a stream that is read."""
EVENT_LINES_MAX = 64
"""Most lines of one event, comments aside; the API's have two."""
UNNAMED = b"event: message"
"""What an event without a name is called (HTML, "Server-sent events"): the SDK would drop it."""

Timeout = Callable[[float], anyio.CancelScope]
"""`Clock.timeout`."""


class SilentError(Exception):
    """Nothing came for too long; the text says how long."""


class TooLongError(Exception):
    """More came, or for longer, than any answer has; the text says what is read at most."""


class WatchedBody(httpx2.AsyncByteStream):
    """The body of a response; stands in for `response.stream`.

    `idle_s`: seconds that each wait for the next bytes may take by `clock`; `seconds_max`: how long
    bytes may come from now on. Without a clock only the size is watched.
    """

    def __init__(
        self,
        body: object,
        *,
        bytes_max: int,
        clock: Clock | None = None,
        idle_s: float = 0.0,
        seconds_max: float = math.inf,
    ) -> None:
        if not isinstance(body, httpx2.AsyncByteStream):
            raise TypeError("only the body of an asynchronous response can be watched")
        self._body = body
        self._bytes_left = bytes_max
        self._bytes_max = bytes_max
        self._clock = clock
        self._idle_s = idle_s
        self._seconds_max = seconds_max
        self._began = clock.now() if clock is not None else 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._body)
        while True:
            chunk = await self._next(chunks)
            if chunk is None:
                return
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                raise TooLongError(f"the answer is longer than {self._bytes_max:,} bytes")
            yield chunk

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        clock = self._clock
        if clock is None:
            return await anext(chunks, None)
        # Looked at between the waits: a scope around all of them would be one more to cancel.
        if clock.now() - self._began >= self._seconds_max:
            raise TooLongError(f"the answer takes longer than {self._seconds_max:,.0f} seconds")
        return await within(clock.timeout, self._idle_s, anext(chunks, None))

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()


class WholeEvents(httpx2.AsyncByteStream):
    """The events of a stream of server-sent events, each named, in one piece, without comments.

    The SDK's decoder copies all that it has of an event with each line and each piece that comes
    in: an event of a million lines would hold up everything for hours. So it gets none of those.
    """

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body
        self._line = bytearray()
        """What has come of a line that has not ended."""
        self._event: list[bytes] = []
        """What has come of an event, by lines."""
        self._bytes = 0
        """Size of both."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = b""  # a line may end with a pair of bytes, and a piece between them
        async for chunk in self._body:
            piece = held + chunk
            held = b"\r" if piece.endswith(b"\r") else b""
            for event in self._whole(piece.removesuffix(b"\r")):
                yield event
        for event in self._whole(held):
            yield event

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()

    def _whole(self, piece: bytes) -> Iterator[bytes]:
        """The events that end in `piece`."""
        *ends, begun = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for end in ends:
            self._add(end)
            line, self._line = bytes(self._line), bytearray()
            if line.startswith(b":"):
                self._bytes -= len(line)
            elif line:
                self._event.append(line)
                if len(self._event) > EVENT_LINES_MAX:
                    raise TooLongError(f"an event has more than {EVENT_LINES_MAX:,} lines")
            elif self._event:
                if not any(line.startswith(b"event:") for line in self._event):
                    self._event.append(UNNAMED)
                yield b"\n".join((*self._event, b"", b""))
                self._event, self._bytes = [], 0
        self._add(begun)

    def _add(self, part: bytes) -> None:
        self._line += part
        self._bytes += len(part)
        if self._bytes > EVENT_BYTES_MAX:
            raise TooLongError(f"an event is longer than {EVENT_BYTES_MAX:,} bytes")


async def within(watch: Timeout, seconds: float, work: Awaitable[T]) -> T:
    """What `work` gives. Raises `SilentError` when that takes longer than `seconds`."""
    with watch(seconds):
        return await work
    raise SilentError(f"nothing came for {seconds:g} seconds")


async def bound_error_body(response: httpx2.Response) -> None:
    """An event hook of the HTTP client: what is no success may not be endless either.

    Nor may it grow: nobody asked for compression, so what is compressed is left as it is.
    """
    if not response.is_success:
        response.headers.pop("content-encoding", None)
        response.stream = WatchedBody(response.stream, bytes_max=ERROR_BYTES_MAX)
