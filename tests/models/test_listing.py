"""The list of a server's models: read up to a size, and whatever else answers is told in a line."""

from __future__ import annotations

import asyncio
import gzip
import json

import anyio
import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.models.listing import MODELS_MAX, list_models
from orchestrator.models.servers import Server
from tests.models.asking import KEY
from tests.models.raw_server import Answer, RawServer, chunked_and_cut, http, start, status

pytestmark = pytest.mark.asyncio


async def listed(answer: Answer) -> tuple[str, ...]:
    async with RawServer([answer]) as server:
        asked = Server(kind="anthropic", url=server.url)
        with anyio.fail_after(30):
            return await list_models(asked, {"ANTHROPIC_API_KEY": KEY})


async def told(answer: Answer) -> str:
    """What is said, without the place."""
    with pytest.raises(InfrastructureError) as caught:
        await listed(answer)
    line = str(caught.value)
    assert line.isprintable()
    assert KEY not in line
    place, _, said = line.partition(": ")
    assert place.startswith("127.0.0.1:")
    return said


def page(*models: object) -> bytes:
    body = json.dumps({"data": models, "has_more": False}).encode()
    return http(200, body, content_type="application/json")


async def test_names_are_those_that_are_names() -> None:
    models = ({"id": "a"}, {"id": None}, {"name": "b"}, "c", {"id": "d", "more": {}})
    assert await listed(page(*models)) == ("a", "d")
    assert await listed(page()) == ()
    many = [{"id": f"m{number}"} for number in range(MODELS_MAX + 5)]
    assert len(await listed(page(*many))) == MODELS_MAX


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b'{"data": ',
        b"[" * 200_000,
        b"\xff\xfe\xfa",
        b"[]",
        b'{"data": {}}',
        b"1" * 5_000,
        gzip.compress(b"x" * 1_000_000, mtime=0),
    ],
    ids=lambda body: repr(body[:10]),
)
async def test_a_success_that_is_no_list_is_no_model_server(kind: str, body: bytes) -> None:
    said = await told(http(200, body, content_type=kind))
    assert said == "what answers there is no model server"


async def test_what_is_compressed_is_not_unpacked() -> None:
    bomb = gzip.compress(json.dumps({"data": [{"id": "x" * 1_000_000}]}).encode())
    answer = http(200, bomb, content_type="application/json", content_encoding="gzip")
    assert await told(answer) == "what answers there is no model server"


@pytest.mark.parametrize("code", ["200 OK", "500 No"])
async def test_a_body_without_end_is_not_read_to_its_end(code: str) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"HTTP/1.1 {code}\r\ncontent-type: application/json\r\n\r\n".encode())
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    said = await told(endless)
    assert said.startswith("the answer is longer than ")
    assert said.endswith(" bytes, so it is no model server")
    # What the system's buffers take comes on top of what is read.
    assert sent < 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(401, "no"), "HTTP 401: it does not take the key; set another one"),
        (status(404, "no"), "HTTP 404: it answers, but has no list of models"),
        (status(529, "no"), "HTTP 529: it cannot answer now"),
        (
            http(302, b"", location="https://example.com/"),
            "HTTP 302: it sends elsewhere; set --base-url to where it points",
        ),
        (http(500, b"<html>"), "HTTP 500: it cannot answer now"),
    ],
    ids=lambda value: value[:15] if isinstance(value, str) else "",
)
async def test_what_the_server_refuses_is_told_by_its_status(answer: bytes, said: str) -> None:
    assert await told(answer) == said


async def test_an_answer_that_breaks_off_is_told_as_one() -> None:
    assert (await told(chunked_and_cut(start()))).startswith("the connection broke: ")


async def test_nobody_listens() -> None:
    async with RawServer([]) as server:
        pass
    with pytest.raises(InfrastructureError, match=r"cannot be reached: .*; is the URL right\?"):
        await list_models(Server(kind="anthropic", url=server.url), {})


async def test_a_port_that_speaks_no_tls_is_said_to_be_one() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(status(400, "what?"))
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(InfrastructureError, match=r"no TLS can be spoken there: .*\)$"):
            await list_models(Server(kind="anthropic", url=url), {})
