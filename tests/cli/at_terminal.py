"""The real program at a terminal: a person sees its stderr and types."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from tests.cli.program import Result, command, environment
from tests.e2e.support import SECONDS_MAX, Place
from tests.observers.terminal import Terminal, View

COLUMNS, HEIGHT = 100, 30


class Heard(View):
    """A view that also keeps everything as it came."""

    def __init__(self, columns: int, height: int) -> None:
        super().__init__(columns, height)
        self.heard = ""

    def feed(self, text: str) -> None:
        self.heard += text
        super().feed(text)


@dataclass(frozen=True, slots=True)
class Session:
    """A program that runs, and its terminal."""

    process: subprocess.Popen[bytes]
    terminal: Terminal
    view: Heard
    out: IO[bytes]

    def shows(self, text: str) -> str:
        """Wait until `text` can be read; all that can be read then."""
        self._read(lambda: text in self.view.text)
        assert text in self.view.text, f"it has ended:\n{self.view.text}"
        return self.view.text

    def type(self, keys: bytes) -> None:
        """Type something."""
        os.write(self.terminal.master, keys)

    def ctrl_c(self) -> None:
        """Do what the terminal's driver does: signal everything that runs there."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> Result:
        """Read on to its end; `err` is what stands on the terminal then."""
        self._read(lambda: False)
        self.out.seek(0)
        return Result(self.process.wait(), self.out.read().decode(), self.view.text)

    def _read(self, enough: Callable[[], bool]) -> None:
        """Read until it is enough, or the program has ended."""
        end = os.pidfd_open(self.process.pid)
        try:
            ready: list[int] = []
            while end not in ready and not enough():
                ready = select.select([self.terminal.master, end], [], [], SECONDS_MAX)[0]
                assert ready, f"nothing happens:\n{self.view.text}"
                self.terminal.read_all()
        finally:
            os.close(end)


@contextmanager
def at_terminal(place: Place, *words: str, **variables: str) -> Iterator[Session]:
    """`orchestrate WORDS` with stdin and stderr on a terminal; stdout leads elsewhere."""
    with Terminal(COLUMNS, HEIGHT) as terminal, tempfile.TemporaryFile() as out:
        terminal.view = view = Heard(COLUMNS, HEIGHT)
        process = subprocess.Popen(
            command(*words),
            cwd=place.repository,
            env=environment(place.home, **{**place.variables, **variables}),
            stdin=terminal.slave,
            stdout=out,
            stderr=terminal.slave,
            start_new_session=True,
        )
        try:
            yield Session(process, terminal, view, out)
        finally:
            process.kill()  # does nothing to one that has been waited for
            process.wait()
