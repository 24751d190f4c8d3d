"""The bytes of a response, watched: silence ends them, and so does too much of them.

A server that stops in the middle of a stream and holds the connection open would hold its agent for
ever; the HTTP client's own read timeout knows neither our clock nor pings. Every byte is a sign of
life, so the watch lies beneath the decoder: events, pings and comment lines, which some servers
send while they wait for a model, all count.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import anyio
import httpx2

T = TypeVar("T")

STREAM_BYTES_MAX = 64 * 1024 * 1024
"""Longest stream that is read: the longest replies take a third of it on the wire."""
ERROR_BYTES_MAX = 1024 * 1024
"""Longest body of an error that is read."""

Timeout = Callable[[float], anyio.CancelScope]
"""`Clock.timeout`."""


class SilentError(Exception):
    """Nothing came for too long; the text says how long."""


class TooLongError(Exception):
    """More came than any answer has; the text says how much is read at most."""


class WatchedBody(httpx2.AsyncByteStream):
    """The body of a response; stands in for `response.stream`.

    `idle_s`: seconds that each wait for the next bytes may take by `timeout`. None watches only
    the size.
    """

    def __init__(
        self,
        body: object,
        *,
        bytes_max: int,
        timeout: Timeout | None = None,
        idle_s: float = 0.0,
    ) -> None:
        if not isinstance(body, httpx2.AsyncByteStream):
            raise TypeError("only the body of an asynchronous response can be watched")
        self._body = body
        self._bytes_left = bytes_max
        self._bytes_max = bytes_max
        self._timeout = timeout
        self._idle_s = idle_s

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
        if self._timeout is None:
            return await anext(chunks, None)
        return await within(self._timeout, self._idle_s, anext(chunks, None))

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()


async def within(watch: Timeout, seconds: float, work: Awaitable[T]) -> T:
    """What `work` gives. Raises `SilentError` when that takes longer than `seconds`."""
    with watch(seconds):
        return await work
    raise SilentError(f"nothing came for {seconds:g} seconds")


async def bound_error_body(response: httpx2.Response) -> None:
    """An event hook of the HTTP client: what is no success may not be endless either."""
    if not response.is_success:
        response.stream = WatchedBody(response.stream, bytes_max=ERROR_BYTES_MAX)
