"""HTTP responses, byte by byte: a test server breaks them where no web framework would."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.api.conversation import Raw

SILENCE_S_MAX = 60.0
"""How long a silent connection is held before the test counts as broken."""
REMIND_S = 0.5
NO_HEADERS: Mapping[str, str] = {}


class Wire(BaseHTTPRequestHandler):
    """Writes responses; `next_number` numbers requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True
    next_number: Callable[[], int]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests look at the server's log."""

    def error(
        self, status: int, kind: str, text: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """An error as the API says it."""
        error = {"type": "error", "error": {"type": kind, "message": text}}
        self.json(status, {**error, "request_id": self._request_id()}, headers)

    def json(self, status: int, body: Raw, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """A JSON document."""
        self.whole(status, "application/json", json.dumps(body).encode(), headers)

    def whole(
        self, status: int, kind: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """A response whose length is known."""
        self.head(status, kind, {"content-length": str(len(data)), **headers})
        self.wfile.write(data)

    def head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        """Status line and headers."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("request-id", self._request_id())
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """A piece of a chunked body; an empty one ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def until_client_leaves(self, remind: Callable[[], None]) -> None:
        """Hold the connection until its other end, or the server's end, closes it.

        `remind` is called now and again: at the first call the client may have been at a point
        where it did not hear it.
        """
        for _ in range(int(SILENCE_S_MAX / REMIND_S)):
            remind()
            ready, _, _ = select.select([self.connection], [], [], REMIND_S)
            if ready:
                return
        raise AssertionError("nobody ended the silence")

    def _request_id(self) -> str:
        return f"req_{type(self).next_number():024d}"
