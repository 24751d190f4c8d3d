"""The SDK's clients, made with what was said and nothing else.

Heavy: imports the SDK, which takes seconds; `orchestrator.models.servers` has checked by then what
can be checked without it. What the SDK would do on its own is off: retries (one policy for all
agents does that), credentials from its profiles on disk, redirects (they would carry a conversation
elsewhere), read timeouts (every wait is watched, `orchestrator.models.watch`). Proxies are taken
from the environment, but never for a server on this machine.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx2
from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex

from orchestrator.errors import UsageError
from orchestrator.models.servers import DEFAULT_URL, Server, key_of
from orchestrator.models.watch import bound_error_body

Client = AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex

CONNECT_S = 10.0
NO_KEY = "none"
"""Shown to servers that want no key: the SDK sends no request without one."""
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

_TIMEOUT = httpx2.Timeout(connect=CONNECT_S, read=None, write=None, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


def make_client(server: Server, environ: Mapping[str, str]) -> Client:
    """A client of `server`; whoever asks for it closes it.

    Raises `UsageError` where credentials are missing. For Bedrock and Vertex this may ask the
    cloud's own metadata service, hence not on an event loop.
    """
    match server.kind:
        case "anthropic":
            return _anthropic(server, environ)
        case "bedrock":
            return _bedrock(server, environ)
        case "vertex":
            return _vertex(server)


def secrets_of(client: Client) -> tuple[str, ...]:
    """What the client shows a server and nobody else may see."""
    names = ("api_key", "auth_token", "aws_secret_key", "aws_session_token", "access_token")
    values = (getattr(client, name, None) for name in names)
    return tuple(value for value in values if isinstance(value, str) and value not in ("", NO_KEY))


def _anthropic(server: Server, environ: Mapping[str, str]) -> AsyncAnthropic:
    key = key_of(environ)
    is_token = key is not None and key.name == "ANTHROPIC_AUTH_TOKEN"
    value = key.value if key is not None else NO_KEY
    return AsyncAnthropic(
        api_key=None if is_token else value,
        auth_token=value if is_token else None,
        base_url=server.url or DEFAULT_URL,
        timeout=_TIMEOUT,
        max_retries=0,
        http_client=_http(server),
    )


def _bedrock(server: Server, environ: Mapping[str, str]) -> AsyncAnthropicBedrock:
    token = environ.get("AWS_BEARER_TOKEN_BEDROCK", "").strip() or None
    region = server.region
    if token is None or region is None:
        session: Any = importlib.import_module("boto3").Session(region_name=region)
        region = session.region_name
        if token is None and session.get_credentials() is None:
            raise UsageError(
                "bedrock: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
                " AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK"
            )
    if region is None:
        raise UsageError("bedrock: no region; set AWS_REGION, or say --base-url bedrock:REGION")
    return AsyncAnthropicBedrock(
        api_key=token,
        aws_region=region,
        base_url=server.url,
        timeout=_TIMEOUT,
        max_retries=0,
        http_client=_http(server),
    )


def _vertex(server: Server) -> AsyncAnthropicVertex:
    google: Any = importlib.import_module("google.auth")
    missing: Any = importlib.import_module("google.auth.exceptions").DefaultCredentialsError
    try:
        credentials, project = google.default(scopes=[GOOGLE_SCOPE])
    except missing:
        raise UsageError(
            "vertex: no credentials; set GOOGLE_APPLICATION_CREDENTIALS, or log in with"
            " `gcloud auth application-default login`"
        ) from None
    project = server.project or project
    if not project:
        raise UsageError(
            "vertex: no project; set ANTHROPIC_VERTEX_PROJECT_ID, or say vertex:REGION/PROJECT"
        )
    return AsyncAnthropicVertex(
        region=server.region or "",
        project_id=project,
        credentials=credentials,
        base_url=server.url,
        timeout=_TIMEOUT,
        max_retries=0,
        http_client=_http(server),
    )


@cache
def _tls(trust_env: bool) -> ssl.SSLContext:
    """The certificates that are trusted: reading them takes a tenth of a second."""
    return httpx2.create_ssl_context(trust_env=trust_env)


def _http(server: Server) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        timeout=_TIMEOUT,
        limits=_LIMITS,
        follow_redirects=False,
        trust_env=not server.is_local,
        verify=_tls(not server.is_local),
        event_hooks={"response": [bound_error_body]},
    )
