"""Asks a model server which models it has: the cheapest question that shows that it answers.

Not part of a run, which asks nothing that it was not told to. Heavy like
`orchestrator.models.clients`: import it only where a server is asked. An answer is read up to a
size and within a time, whatever is sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import anyio
import httpx2
from anthropic import APIConnectionError, APIError, APIStatusError, AsyncAnthropic, AsyncStream
from anyio import to_thread

from orchestrator.errors import InfrastructureError
from orchestrator.models.classify import Place, trouble_of
from orchestrator.models.clients import make_client, secrets_of
from orchestrator.models.servers import Server
from orchestrator.models.watch import TooLongError, WatchedBody

SECONDS_MAX = 20.0
"""How long the answer may take."""
CLOSE_S = 5.0
MODELS_MAX = 1_000
"""Most models of one answer."""
BYTES_MAX = 4 * 1024 * 1024
"""Longest answer that is read: a thousand models take a tenth of it."""

_REFUSED = {
    401: "does not take the key; set another one",
    403: "does not allow this key to ask; set another one",
    404: "answers, but has no list of models",
}


async def list_models(server: Server, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the models of `server`, as it tells them: not cleaned.

    Raises `InfrastructureError` that says what came instead, `UsageError` where credentials are
    missing. Nothing of an answer that is not understood is repeated.
    """
    client = await to_thread.run_sync(make_client, server, environ)
    place = server.describe()
    try:
        if not isinstance(client, AsyncAnthropic):
            raise InfrastructureError(f"{place}: such a server cannot be asked for its models")
        body = await _answer(client, place)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await client.close()
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        page = None
    models = page.get("data") if isinstance(page, dict) else None
    if not isinstance(models, list):
        raise InfrastructureError(f"{place}: what answers there is no model server")
    names = (model.get("id") for model in models if isinstance(model, dict))
    return tuple(name for name in names if isinstance(name, str))[:MODELS_MAX]


async def _answer(client: AsyncAnthropic, place: str) -> bytes:
    """The body of the server's list, as it came. Raises `InfrastructureError`."""
    try:
        with anyio.fail_after(SECONDS_MAX):
            return await _read(client)
    except TimeoutError as error:
        raise InfrastructureError(f"{place}: no whole answer in {SECONDS_MAX:g} s") from error
    except TooLongError as error:
        raise InfrastructureError(f"{place}: {error}, so it is no model server") from error
    except APIStatusError as error:
        status = error.status_code
        said = _REFUSED.get(status, "cannot answer now")
        if 300 <= status < 400:
            said = "sends elsewhere; set --base-url to where it points"
        raise InfrastructureError(f"{place}: HTTP {status}: it {said}") from error
    except (APIConnectionError, httpx2.TransportError) as error:
        asked = Place(place, secrets_of(client))
        trouble = trouble_of(error, asked, wall=time.time(), answering=False)
        advice = "; is the URL right?" if trouble.kind == "busy" else ""
        raise InfrastructureError(f"{trouble}{advice}") from error
    except APIError as error:
        raise InfrastructureError(f"{place}: its answer cannot be read") from error


async def _read(client: AsyncAnthropic) -> bytes:
    # As a stream, which is read only as far as wanted, and not compressed: no answer can grow.
    stream = await client.get(
        f"/v1/models?limit={MODELS_MAX}",
        cast_to=object,
        options={"headers": {"Accept-Encoding": "identity"}},
        stream=True,
        stream_cls=AsyncStream[object],
    )
    response = stream.response
    try:
        response.stream = WatchedBody(response.stream, bytes_max=BYTES_MAX)
        return b"".join([chunk async for chunk in response.aiter_raw()])
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await stream.close()
