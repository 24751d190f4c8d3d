"""A model behind a server: client, single tries and failure policy put together.

The only module that knows all three; whoever runs plans imports it when a server is asked at all,
since the client's library takes seconds to load.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from orchestrator.core.plan import ModelPrice
from orchestrator.models.breaker import Breaker
from orchestrator.models.clients import make_client
from orchestrator.models.clock import Clock
from orchestrator.models.messages_api import CLOSE_S, MessagesAPI
from orchestrator.models.patient import PatientModel
from orchestrator.models.servers import Server
from orchestrator.ports import Model


@asynccontextmanager
async def open_model(
    server: Server,
    environ: Mapping[str, str],
    *,
    clock: Clock,
    prices: Mapping[str, ModelPrice],
    tell: Callable[[str], None],
) -> AsyncIterator[Model]:
    """What answers for all agents of a run while the context is open.

    `environ` holds the key. `prices`: what the plan says models cost. `tell` hears when everybody
    waits for the server. Raises `UsageError` where credentials are missing.
    """
    client = await anyio.to_thread.run_sync(make_client, server, environ)
    api = MessagesAPI(client, clock=clock, prices=prices, idle_s=server.idle_s)
    try:
        yield PatientModel(api.once, breaker=Breaker(clock, tell=tell), clock=clock)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await api.close()
