"""A terminal of our own: a pseudo-terminal, and what a person would see on it.

`View` knows the few escape sequences that the live table uses and refuses every other, so that it
also proves that nothing else is sent.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable
from types import TracebackType

from rich.cells import cell_len

DEADLINE_SECONDS = 60.0
_PARTS = re.compile(r"\x1b\[(\?25[hl]|\d*[A-Za-z]|[\d;]*m)|([\r\n])|([^\x1b\r\n]+)|(.)", re.DOTALL)


class View:
    """Lines as they come to stand when text is written; those that scrolled away are kept."""

    def __init__(self, columns: int, height: int) -> None:
        self.columns = columns
        self.height = height
        self._cells: list[list[str]] = [[]]
        self.row = 0
        self.column = 0
        self.cursor = True
        self.coloured = False
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Everything, scrolled away or not, without blank ends of lines."""
        lines = ["".join(cells).rstrip() for cells in self._cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        """The same in one piece."""
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        """Write `text`; an escape sequence that is cut off waits for its end."""
        text = self._rest + text
        cut = re.search(r"\x1b(\[[\d;?]*)?$", text)
        self._rest = text[cut.start() :] if cut else ""
        for match in _PARTS.finditer(text.removesuffix(self._rest) if cut else text):
            sequence, move, plain, odd = match.groups()
            assert odd is None, f"{odd!r} before {text[match.start() :][:80]!r}"
            if sequence is not None:
                self._obey(sequence)
            elif plain is not None:
                self._print(plain)
            else:
                self._move(move)

    def _obey(self, sequence: str) -> None:
        if sequence in ("?25h", "?25l"):
            self.cursor = sequence == "?25h"
        elif sequence == "2K":
            self._cells[self.row] = []
        elif sequence.endswith("A"):
            top = max(0, len(self._cells) - self.height)
            self.row = max(top, self.row - int(sequence[:-1] or 1))
        elif sequence.endswith("m"):
            self.coloured = True
        else:
            raise AssertionError(f"an escape sequence that nobody should send: {sequence!r}")

    def _move(self, character: str) -> None:
        self.column = 0  # the pseudo-terminal writes \r\n for \n
        if character == "\n":
            self.row += 1
            if self.row == len(self._cells):
                self._cells.append([])

    def _print(self, plain: str) -> None:
        for character in plain:
            width = cell_len(character)
            if self.column + width > self.columns:
                self._move("\n")
            line = self._cells[self.row]
            line += [" "] * (self.column + width - len(line))
            line[self.column : self.column + width] = [character, *[""] * (width - 1)]
            self.column += width


class Terminal:
    """A pseudo-terminal of some size whose reader is the test."""

    def __init__(self, columns: int, height: int) -> None:
        self.master, self.slave = pty.openpty()
        self.view = View(columns, height)
        self.resize(columns, height)
        self._open = True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self.slave)
        self.hang_up()

    def resize(self, columns: int, height: int) -> None:
        """Change the size; processes that have it as their terminal get SIGWINCH."""
        size = struct.pack("HHHH", height, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        self.view.columns, self.view.height = columns, height

    def hang_up(self) -> None:
        """Close it: who writes to it from now on gets an error."""
        if self._open:
            os.close(self.master)
            self._open = False

    def fill(self) -> None:
        """Write until it takes nothing more, so that the next writer has to wait."""
        os.set_blocking(self.slave, False)
        try:
            while True:
                os.write(self.slave, b"x" * 1024 + b"\r\n")
        except BlockingIOError:
            os.set_blocking(self.slave, True)

    def read_until(self, shown: Callable[[View], bool]) -> View:
        """Read until the view is as wanted; an error when it is not within a minute."""
        give_up = time.monotonic() + DEADLINE_SECONDS
        while not shown(self.view):
            left = give_up - time.monotonic()
            assert left > 0, f"not shown in time:\n{self.view.text}"
            self._read(left)
        return self.view

    def read_all(self) -> View:
        """Read what is there now."""
        while self._read(0):
            pass
        return self.view

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.view.feed(os.read(self.master, 65_536).decode("utf-8", "replace"))
        return True
