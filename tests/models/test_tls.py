"""Where no TLS can be spoken, waiting does not help; where it was cut, it may."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.models.clients import make_client
from orchestrator.models.messages_api import MessagesAPI
from orchestrator.models.servers import Server
from orchestrator.models.trouble import Trouble
from tests.models.asking import KEY
from tests.models.raw_server import ManualClock, request, status

pytestmark = pytest.mark.asyncio

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that does this with each connection."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def trouble_at(url: str) -> Trouble:
    client = make_client(Server(kind="anthropic", url=url), {"ANTHROPIC_API_KEY": KEY})
    api = MessagesAPI(client, clock=ManualClock())
    with anyio.fail_after(20), pytest.raises(Trouble) as caught:
        await api.once(request())
    await api.close()
    assert str(caught.value).isprintable()
    return caught.value


async def test_a_port_that_speaks_no_tls_blocks() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(status(400, "what?"))
        writer.close()

    async with listening(plain) as port:
        found = await trouble_at(f"https://127.0.0.1:{port}")
    assert found.kind == "blocked"
    assert str(found).startswith(f"127.0.0.1:{port}: no TLS can be spoken there: ")
    assert "check --base-url" in str(found)


async def test_a_connection_that_is_cut_while_tls_is_spoken_is_busy() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with listening(cut) as port:
        assert (await trouble_at(f"https://127.0.0.1:{port}")).kind == "busy"


async def test_a_certificate_of_its_own_making_blocks(tmp_path: Path) -> None:
    async def unused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(unused, self_signed(tmp_path)) as port:
        found = await trouble_at(f"https://127.0.0.1:{port}")
    assert found.kind == "blocked"
    assert str(found).startswith(f"127.0.0.1:{port}: its certificate is not trusted: ")
    assert "SSL_CERT_FILE" in str(found)


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's TLS with a new certificate that nobody has signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -keyout {key}"
    subprocess.run(
        [openssl, *made.split(), "-out", str(certificate), "-subj", "/CN=127.0.0.1"],
        check=True,
        capture_output=True,
        timeout=30,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
