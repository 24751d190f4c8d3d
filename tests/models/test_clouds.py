"""Bedrock and Vertex: the SDK's real clients over loopback, where their extras are installed."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from orchestrator.core.usage import Usage
from orchestrator.errors import UsageError
from orchestrator.messages import Reply, TextBlock, ToolUse
from orchestrator.models.clients import make_client
from orchestrator.models.messages_api import MessagesAPI
from orchestrator.models.servers import server_of
from orchestrator.models.trouble import Trouble
from tests.models.raw_server import (
    ManualClock,
    Raw,
    RawServer,
    call,
    http,
    reply_events,
    request,
    status,
    stream,
    text,
)

NEEDS_BEDROCK = pytest.mark.skipif(find_spec("boto3") is None, reason="boto3 is not installed")
NEEDS_VERTEX = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("google", "google.auth", "cryptography")),
    reason="google-auth with cryptography is not installed",
)
AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
MODEL = "anthropic.claude-haiku-4-5-20251001-v1:0"
REPLY = reply_events(text("so"), call('{"a": 1}', index=1), reason="tool_use")


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """A message of Amazon's event-stream format: lengths, headers, payload, each with a CRC."""
    head = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def chunk(event: JsonValue) -> bytes:
    inner = {"bytes": base64.b64encode(json.dumps(event).encode()).decode()}
    headers = {
        ":event-type": "chunk",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return frame(headers, json.dumps(inner).encode())


def exception(name: str, message: str) -> bytes:
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, json.dumps({"message": message}).encode())


def frames(events: Sequence[Raw], *rest: bytes) -> bytes:
    body = b"".join([*map(chunk, events), *rest])
    return http(200, body, content_type="application/vnd.amazon.eventstream")


async def ask_bedrock(server: RawServer, environ: dict[str, str]) -> Reply:
    place = server_of("bedrock:eu-central-1", {"ANTHROPIC_BEDROCK_BASE_URL": server.url, **environ})
    api = MessagesAPI(make_client(place, environ), clock=ManualClock())
    try:
        with anyio.fail_after(20):
            return await api.once(request(model=MODEL))
    finally:
        await api.close()


TOKEN = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-token"}


@NEEDS_BEDROCK
@pytest.mark.asyncio
async def test_bedrock_answers_in_frames() -> None:
    async with RawServer([frames(REPLY)]) as server:
        reply = await ask_bedrock(server, TOKEN)
    assert reply.message.blocks == (
        TextBlock(text="so"),
        ToolUse(id="toolu_1", name="Read", input={"a": 1}),
    )
    assert reply.stop_reason == "tool_use"
    assert reply.usage == Usage(input_tokens=10, output_tokens=7, calls=1)
    (sent,) = server.requests
    assert sent.path.endswith("/invoke-with-response-stream")
    assert "claude-haiku-4-5" in sent.path
    assert sent.headers["authorization"] == "Bearer bedrock-token"
    assert "model" not in sent.body


@NEEDS_BEDROCK
@pytest.mark.asyncio
async def test_bedrock_signs_with_keys_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret")
    async with RawServer([frames(REPLY)]) as server:
        await ask_bedrock(server, {})
    signed = server.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-central-1/bedrock/" in signed
    assert "aws-secret" not in signed


@NEEDS_BEDROCK
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "kind", "usage"),
    [
        (
            frames(REPLY[:3], exception("throttlingException", "Too many tokens")),
            "busy",
            Usage(input_tokens=10, output_tokens=1),
        ),
        (frames([], exception("validationException", "bad field")), "invalid", Usage()),
        (frames(REPLY[:3]), "broken", Usage(input_tokens=10, output_tokens=1)),
        (frames([]), "broken", Usage()),
        (frames(REPLY[:3])[:-3], "broken", Usage(input_tokens=10, output_tokens=1)),
        (frames([], b"\x00" * 64), "broken", Usage()),
        (http(200, b"<html>", content_type="text/html"), "broken", Usage()),
        (status(429, "Too many requests"), "busy", Usage()),
        (status(403, "The security token included in the request is expired"), "blocked", Usage()),
    ],
    ids=[
        "throttled",
        "refused",
        "cut",
        "empty",
        "cut in a frame",
        "broken frame",
        "html",
        "429",
        "403",
    ],
)
async def test_what_goes_wrong_with_bedrock(answer: bytes, kind: str, usage: Usage) -> None:
    async with RawServer([answer]) as server:
        with pytest.raises(Trouble) as caught:
            await ask_bedrock(server, TOKEN)
    assert (caught.value.kind, caught.value.usage) == (kind, usage)


def no_aws(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Take away every place that AWS credentials could come from."""
    for name in (*AWS_KEYS, "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@NEEDS_BEDROCK
def test_bedrock_without_credentials_or_region_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_aws(monkeypatch, tmp_path)
    with pytest.raises(UsageError, match="AWS_ACCESS_KEY_ID"):
        make_client(server_of("bedrock:eu-central-1", {}), {})
    with pytest.raises(UsageError, match="AWS_REGION"):
        make_client(server_of("bedrock:", {}), TOKEN)


def service_account(folder: Path, token_url: str) -> Path:
    """Credentials of a service account, whose token server is `token_url`."""
    from_crypto = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serial = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = from_crypto.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(serial.Encoding.PEM, serial.PrivateFormat.PKCS8, serial.NoEncryption())
    path = folder / "account.json"
    account = {
        "type": "service_account",
        "project_id": "its-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "agent@its-project.example",
        "token_uri": token_url,
    }
    path.write_text(json.dumps(account), encoding="utf-8")
    return path


@NEEDS_VERTEX
@pytest.mark.asyncio
@pytest.mark.parametrize(("place", "project"), [("/my-project", "my-project"), ("", "its-project")])
async def test_vertex_answers_with_google_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, project: str
) -> None:
    token = {"access_token": "google-token", "expires_in": 3_600, "token_type": "Bearer"}
    routes = {"/token": http(200, json.dumps(token).encode(), content_type="application/json")}
    async with RawServer([stream(*REPLY)], routes) as server:
        account = service_account(tmp_path, f"{server.url}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        named = server_of(
            f"vertex:europe-west1{place}", {"ANTHROPIC_VERTEX_BASE_URL": f"{server.url}/v1"}
        )
        api = MessagesAPI(make_client(named, {}), clock=ManualClock())
        with anyio.fail_after(20):
            reply = await api.once(request(model="claude-haiku-4-5@20251001"))
        await api.close()
    assert reply.message.text == "so"
    (sent,) = server.requests
    assert sent.headers["authorization"] == "Bearer google-token"
    assert sent.path.startswith(f"/v1/projects/{project}/locations/europe-west1/publishers/")
    assert sent.path.endswith(":streamRawPredict")


@NEEDS_VERTEX
@pytest.mark.asyncio
async def test_vertex_credentials_that_are_refused_block(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = http(400, b'{"error": "invalid_grant"}', content_type="application/json")
    async with RawServer([], {"/token": refused}) as server:
        account = service_account(tmp_path, f"{server.url}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        named = server_of("vertex:global/p", {"ANTHROPIC_VERTEX_BASE_URL": server.url})
        api = MessagesAPI(make_client(named, {}), clock=ManualClock())
        with anyio.fail_after(20), pytest.raises(Trouble) as caught:
            await api.once(request())
        await api.close()
    assert caught.value.kind == "blocked"
    assert "invalid_grant" in str(caught.value)


@NEEDS_VERTEX
@pytest.mark.asyncio
async def test_a_token_server_that_cannot_be_reached_is_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with RawServer([]) as server:
        pass
    account = service_account(tmp_path, f"{server.url}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    named = server_of("vertex:global/p", {"ANTHROPIC_VERTEX_BASE_URL": server.url})
    api = MessagesAPI(make_client(named, {}), clock=ManualClock())
    with anyio.fail_after(20), pytest.raises(Trouble) as caught:
        await api.once(request())
    await api.close()
    assert caught.value.kind == "busy"


@NEEDS_VERTEX
def test_vertex_without_credentials_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(UsageError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        make_client(server_of("vertex:europe-west1/p", {}), {})
