"""A server on loopback that answers with exactly the bytes it is given, and a clock moved by hand.

    async with RawServer([stream(*reply_events(text("hello")))]) as server:
        ...  # server.url; then server.bodies, server.requests

Speaks HTTP/1.1 as far as the tests need it: reads a request with a `content-length`, sends the next
answer, closes the connection. An answer is bytes, or a coroutine that writes and may wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import anyio
from pydantic import JsonValue

from orchestrator.messages import Message, Request, TextBlock, ToolSpec

Raw = dict[str, JsonValue]
Answer = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

START_USAGE: Raw = {"input_tokens": 10, "output_tokens": 1}
END_USAGE: Raw = {"output_tokens": 7}


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes

    @property
    def body(self) -> Raw:
        parsed: Raw = json.loads(self.raw)
        return parsed


class RawServer:
    """Gives its answers in order, whatever is asked; `routes` are answered whenever asked for."""

    def __init__(self, answers: Sequence[Answer], routes: Mapping[str, bytes] = {}) -> None:
        self._answers = list(answers)
        self._routes = routes
        self.requests: list[Received] = []
        self.url = ""
        self._serving = 0
        self._ended = anyio.Event()

    @property
    def bodies(self) -> list[Raw]:
        return [request.body for request in self.requests]

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        with anyio.fail_after(5):
            while self._serving:
                await self._ended.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving += 1
        try:
            received = await _read(reader)
            if received.path in self._routes:
                answer: Answer = self._routes[received.path]
            else:
                self.requests.append(received)
                answer = self._answers.pop(0) if self._answers else status(500, "no more answers")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as some tests want it to
        finally:
            writer.close()
            self._serving -= 1
            ended, self._ended = self._ended, anyio.Event()
            ended.set()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, raw)


def http(code: int, body: bytes, **headers: str) -> bytes:
    """A whole response; header names with `_` for `-`."""
    lines = [f"HTTP/1.1 {code} Some Reason", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def status(code: int, message: str, kind: str = "some_error", **headers: str) -> bytes:
    """An error as the API sends it."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return http(code, json.dumps(body).encode(), content_type="application/json", **headers)


def sse(event: Raw) -> bytes:
    """One event as it stands in a stream; surrogates stay escaped."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def stream(*events: Raw) -> bytes:
    """A stream of events that ends where the connection does."""
    return http(200, b"".join(map(sse, events)), content_type="text/event-stream")


def chunked_and_cut(*events: Raw) -> bytes:
    """The same in a chunked body that is cut off."""
    body = b"".join(map(sse, events))
    head = http(200, b"", content_type="text/event-stream", transfer_encoding="chunked")
    return head + f"{len(body):x}\r\n".encode() + body + b"\r\n"


def start(usage: Raw = START_USAGE, model: str = "model-a") -> Raw:
    message: Raw = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return {"type": "message_start", "message": {**message, "model": model, "usage": usage}}


def end(reason: JsonValue = "end_turn", usage: Raw = END_USAGE) -> tuple[Raw, Raw]:
    delta: Raw = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}


def block(index: int, begin: Raw, *deltas: Raw) -> list[Raw]:
    """The events of one block."""
    events: list[Raw] = [
        {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
    ]
    return [
        {"type": "content_block_start", "index": index, "content_block": begin},
        *events,
        {"type": "content_block_stop", "index": index},
    ]


def text(*pieces: str, index: int = 0) -> list[Raw]:
    deltas: list[Raw] = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def call(*pieces: str, index: int = 0, name: str = "Read", id_: str = "toolu_1") -> list[Raw]:
    begin: Raw = {"type": "tool_use", "id": id_, "name": name, "input": {}}
    deltas: list[Raw] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, begin, *deltas)


def thought(words: str = "hm", signature: str = "c2ln", index: int = 0) -> list[Raw]:
    begin: Raw = {"type": "thinking", "thinking": "", "signature": ""}
    half = len(words) // 2
    return block(
        index,
        begin,
        {"type": "thinking_delta", "thinking": words[:half]},
        {"type": "thinking_delta", "thinking": words[half:]},
        {"type": "signature_delta", "signature": signature},
    )


def reply_events(*blocks: Sequence[Raw], reason: JsonValue = "end_turn") -> list[Raw]:
    """All events of a reply."""
    return [start(), *(event for events in blocks for event in events), *end(reason)]


def request(*messages: Message, model: str = "model-a", task: str = "work") -> Request:
    """A small request; its last user message where none is given."""
    opening = Message(role="user", blocks=(TextBlock(text="Do it."),))
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return Request(
        task=task,
        attempt=1,
        model=model,
        max_tokens=1_000,
        tools=(ToolSpec(name="Read", description="Reads.", input_schema=schema),),
        system=("You are an agent.", "Keep to the rules."),
        messages=messages or (opening,),
    )


class ManualClock:
    """A `Clock` on which no time passes but what `advance` says."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits = 0
        """How many waits have begun."""
        self._scopes: list[tuple[float, anyio.CancelScope]] = []
        self._began = anyio.Event()

    def now(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return 1_800_000_000.0 + self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def timeout(self, seconds: float) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._scopes.append((self.seconds + seconds, scope))
        self.waits += 1
        self._began.set()
        return scope

    def advance(self, seconds: float) -> None:
        """Let time pass: waits that are due end."""
        self.seconds += seconds
        for due, scope in self._scopes:
            if due <= self.seconds:
                scope.cancel()

    async def reached(self, waits: int) -> None:
        """Return when that many waits have begun."""
        while self.waits < waits:
            self._began = anyio.Event()
            await self._began.wait()
