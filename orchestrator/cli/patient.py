"""A text stream that cannot hold up the run: what is written waits for its reader in a thread.

A terminal may be stopped, a pipe unread for hours. Observers write here; a thread of its own does
the waiting. When too much has piled up the stream counts as broken, and the observer that writes to
it is dropped like any other that fails.
"""

from __future__ import annotations

import queue
import threading
from typing import TextIO

WAITING_MAX = 10_000
"""Writes that may wait for the reader."""
CLOSE_SECONDS_MAX = 5.0
"""How long the end of a run waits for a reader."""


class PatientStream:
    """Writes to `stream` from a thread. Only what observers need of a text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING_MAX)
        self._broken: OSError | None = None
        self._thread = threading.Thread(target=self._serve, name="output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue `text`. Raises `OSError` when the reader has left or is too far behind."""
        if self._broken is not None:
            raise self._broken
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._broken = BrokenPipeError("nobody reads the output")
            raise self._broken from None
        return len(text)

    def flush(self) -> None:
        """Nothing to do: the thread flushes after each write."""

    def close(self) -> bool:
        """Wait for what is queued, a few seconds at most; whether all of it was written."""
        try:
            self._waiting.put(None, timeout=CLOSE_SECONDS_MAX)
        except queue.Full:
            return False
        self._thread.join(CLOSE_SECONDS_MAX)
        return not self._thread.is_alive() and self._broken is None

    def _serve(self) -> None:
        while (text := self._waiting.get()) is not None:
            if self._broken is not None:
                continue
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self._broken = error
