"""Asks a model server which models it has: the cheapest question that shows that it answers.

Not part of a run, which asks nothing that it was not told to. Heavy like
`orchestrator.models.clients`: import it only where a server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from anthropic import APIConnectionError, APIError, APIStatusError, AsyncAnthropic
from anyio import to_thread

from orchestrator.errors import InfrastructureError
from orchestrator.models.clients import make_client
from orchestrator.models.servers import Server

SECONDS_MAX = 20.0
"""How long the answer may take."""
MODELS_MAX = 1_000
"""Most models of one answer."""

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
    async with client:
        if not isinstance(client, AsyncAnthropic):
            raise InfrastructureError(f"{place}: such a server cannot be asked for its models")
        try:
            with anyio.fail_after(SECONDS_MAX):
                # As plain data: what `models.list` makes of a page of HTML is an AttributeError.
                page = await client.get(f"/v1/models?limit={MODELS_MAX}", cast_to=object)
        except TimeoutError as error:
            raise InfrastructureError(f"{place}: no answer in {SECONDS_MAX:g} s") from error
        except APIStatusError as error:
            status = error.status_code
            said = _REFUSED.get(status, "cannot answer now")
            raise InfrastructureError(f"{place}: HTTP {status}: it {said}") from error
        except APIConnectionError as error:
            raise InfrastructureError(f"{place}: cannot be reached; is the URL right?") from error
        except APIError as error:
            raise InfrastructureError(f"{place}: its answer cannot be read") from error
    models = page.get("data") if isinstance(page, Mapping) else None
    if not isinstance(models, list):
        raise InfrastructureError(f"{place}: what answers there is no model server")
    names = (model.get("id") for model in models if isinstance(model, Mapping))
    return tuple(str(name) for name in names)[:MODELS_MAX]
