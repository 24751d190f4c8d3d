"""What a hostile stream may do: take a little time and a little memory, and be refused."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.models.stream import EVENT_BYTES_MAX as REPLY_BYTES_MAX
from orchestrator.models.stream import BrokenStreamError, ReplyStream
from orchestrator.models.watch import EVENT_BYTES_MAX, EVENT_LINES_MAX, TooLongError, WholeEvents
from tests.models.asking import ask, trouble
from tests.models.raw_server import block, http, reply_events, sse, start, stream, text

SECONDS_MAX = 20
"""Far more than what is tested takes, far less than it took when each piece was copied anew."""


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


async def _events(*pieces: bytes) -> list[bytes]:
    return [event async for event in WholeEvents(Pieces(*pieces))]


@given(
    ends=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 60), max_size=8).map(sorted),
)
def test_events_are_the_same_however_they_come(ends: bytes, cuts: list[int]) -> None:
    body = b": hm\n\nevent: a\ndata: 1\n: hm\ndata: 2\n\n\ndata: 3\n\ndata: cut".replace(
        b"\n", ends
    )
    bounds = [0, *cuts, len(body)]
    pieces = [body[here:there] for here, there in itertools.pairwise(bounds)]
    assert asyncio.run(_events(*pieces)) == [
        b"event: a\ndata: 1\ndata: 2\n\n",
        b"data: 3\nevent: message\n\n",
    ]


@pytest.mark.asyncio
async def test_an_event_has_a_longest_length_and_most_lines() -> None:
    with pytest.raises(TooLongError, match=f"{EVENT_BYTES_MAX:,} bytes"):
        await _events(*[b"x" * 1_000_000] * 17)
    with pytest.raises(TooLongError, match=f"{EVENT_LINES_MAX} lines"):
        await _events(b"data: x\n" * 65)


@pytest.mark.asyncio
async def test_comments_without_end_do_not_hold_up_the_loop() -> None:
    with anyio.fail_after(SECONDS_MAX):
        events = await _events(*[b":\n" * 50_000] * 20, b"event: a\ndata: 1\n\n")
    assert events == [b"event: a\ndata: 1\n\n"]


@pytest.mark.asyncio
async def test_a_stream_of_comments_gives_its_reply() -> None:
    events = reply_events(text("hello"))
    body = stream(*events[:2]) + b": wait\r\n" * 500_000 + b"".join(map(sse, events[2:]))
    assert (await ask(body)).message.text == "hello"


def test_many_citations_are_linear() -> None:
    reply = ReplyStream()
    reply.add(start())
    [begin] = block(0, {"type": "text", "text": ""})[:1]
    reply.add(begin)
    delta = {"type": "citations_delta", "citation": {}}
    for _ in range(100_000):  # a copy of the list for each was minutes
        reply.add({"type": "content_block_delta", "index": 0, "delta": delta})
    for event in reply_events()[1:]:
        reply.add(event)
    [cited] = reply.blocks()
    citations = cited["citations"]
    assert isinstance(citations, list)
    assert len(citations) == 100_000


def test_a_reply_is_bounded_in_bytes_not_in_characters() -> None:
    reply = ReplyStream()
    reply.add(start())
    piece = "\N{PILE OF POO}" * (REPLY_BYTES_MAX // 4 // 8)
    reply.add(block(0, {"type": "text", "text": ""})[0])
    delta = {"type": "text_delta", "text": piece}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    for _ in range(7):
        reply.add(event)
    with pytest.raises(BrokenStreamError, match="longer than"):
        reply.add(event)


@pytest.mark.asyncio
async def test_a_models_name_can_be_stored_and_printed() -> None:
    events = [start(model="m-\ud800\x1b[31m\n1" + "x" * 10_000), *reply_events(text("hello"))[1:]]
    reply = await ask(stream(*events))
    assert reply.model == "m-[31m1" + "x" * 190


@pytest.mark.asyncio
@pytest.mark.parametrize("code", [400, 500])
async def test_a_compressed_error_is_not_unpacked(code: int) -> None:
    bomb = gzip.compress(b"a" * 50_000_000)
    answer = http(code, bomb, **{"content-encoding": "gzip"})
    caught = await trouble(answer)
    assert "aaaa" not in str(caught)
    assert caught.kind == ("invalid" if code == 400 else "busy")
