"""The Messages API over HTTP on loopback, for the real SDK: bytes as the real one sends them.

    with ApiServer(policy) as server:
        ...  # server.url, server.key
    server.log  # every request for a message, in the order of their answers

A policy says what the model answers (`conversation`), `refusals` what is not accepted, `faults`
what goes wrong, `cache` what it costs. Threads of its own: it serves a client in this process as
well as one in another. On leaving, every connection is closed and every thread has ended; an
exception in a handler is raised there.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import HTTPServer
from types import TracebackType
from typing import Any

from tests.support.api.answer import Answer, Handled, State
from tests.support.api.cache import PromptCache, count_tokens
from tests.support.api.conversation import Conversation, Policy, Raw
from tests.support.api.faults import Faults
from tests.support.api.refusals import Refused
from tests.support.api.wire import Wire

KEY = "sk-test-0123456789"
"""The key that every server here wants, as `x-api-key` or as a bearer's token."""
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-haiku-4-5")
WINDOW_TOKENS = 200_000
BODY_BYTES_MAX = 32 * 1024 * 1024
JOIN_S_MAX = 10.0
NO_FAULTS = Faults()


def _heard(conversation: Conversation) -> None:
    """Nobody wants to know of a silence."""


class ApiServer:
    """One server."""

    key = KEY

    def __init__(
        self,
        policy: Policy,
        *,
        faults: Faults = NO_FAULTS,
        clock: Callable[[], float] = time.monotonic,
        on_silence: Callable[[Conversation], None] = _heard,
        window_tokens: int = WINDOW_TOKENS,
        least_cached: int | None = None,
        plain: bool = False,
        tries_in_ids: bool = False,
    ) -> None:
        """`clock`: seconds, for what the cache keeps. `least_cached`: see `PromptCache.least`.

        The others are fields of `State`, which can be changed while the server runs.
        """
        cache = PromptCache(clock, least_cached)
        self.state = State(policy, faults, cache, on_silence, window_tokens, plain, tries_in_ids)
        self._http = _Http(self.state)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def log(self) -> list[Handled]:
        """Every request for a message so far, pre-warming ones too."""
        with self.state.lock:
            return list(self.state.log)

    def asked(self, task: str) -> list[Handled]:
        """Requests of one task, in their order."""
        return [handled for handled in self.log if handled.task == task]

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.end()
        self._thread.join(JOIN_S_MAX)
        if self._http.errors and error is None:
            raise AssertionError("the test server failed") from self._http.errors[0]
        if self._http.errors and error is not None:
            error.add_note(f"the test server failed: {self._http.errors[0]!r}")


class _Http(HTTPServer):
    """One thread for each connection, all of them known."""

    request_queue_size = 64

    def __init__(self, state: State) -> None:
        self.state = state
        self.errors: list[BaseException] = []
        self._open: dict[socket.socket, threading.Thread] = {}
        handler = type("_BoundHandler", (_Handler,), {"next_number": staticmethod(state.number)})
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        with self.state.lock:
            self._open[request] = thread
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # the client has left, or the server ends
        except BaseException as error:  # noqa: BLE001 - raised where the server is left
            self.errors.append(error)
        finally:
            with self.state.lock:
                self._open.pop(request, None)
            self.shutdown_request(request)

    def end(self) -> None:
        """Stop listening, close what is open, wait for all threads."""
        self.shutdown()
        self.server_close()
        with self.state.lock:
            left = dict(self._open)
        for connection in left:
            with suppress(OSError):  # it may have ended by itself
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join(JOIN_S_MAX)


class _Handler(Wire):
    """Reads requests and finds who answers them."""

    server: _Http

    def do_GET(self) -> None:
        if not self._authorised():
            return
        if self.path.partition("?")[0] == "/v1/models":
            self.json(200, _models(self.server.state.window_tokens))
        else:
            self.error(404, "not_found_error", "Not found")

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            self.error(413, "request_too_large", "Request exceeds the maximum size")
            return
        data = self.rfile.read(length)
        if not self._authorised():
            return
        try:
            self._route(_parsed(data))
        except Refused as refused:
            self.error(refused.status, refused.kind, str(refused))

    def _route(self, body: Raw) -> None:
        path, state = self.path.partition("?")[0], self.server.state
        if path == "/v1/messages":
            Answer(self, state, body).give()
        elif path == "/v1/messages/count_tokens" and not state.plain:
            self.json(200, {"input_tokens": count_tokens(body)})
        else:
            self.error(404, "not_found_error", "Not found")

    def _authorised(self) -> bool:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if KEY in (self.headers.get("x-api-key"), token):
            return True
        self.error(401, "authentication_error", "invalid x-api-key")
        return False


def _models(window_tokens: int) -> Raw:
    models = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": window_tokens,
            "max_tokens": 64_000,
        }
        for name in MODELS
    ]
    return {"data": models, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


def _parsed(data: bytes) -> Raw:
    """The body of a request. Raises `Refused` for what is no JSON object or no text."""
    try:
        body = json.loads(data)
        json.dumps(body, ensure_ascii=False).encode()
    except ValueError as error:
        raise Refused(f"The request body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused("The request body is not a JSON object")
    return body
