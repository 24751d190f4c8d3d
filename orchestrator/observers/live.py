"""The live table on a terminal: who needs you, who works on what, what it costs.

    engine --(event, state)--> LiveTable.observe --Board, lines--> a thread --rich--> terminal

The thread that draws shares nothing with the run but the newest board, which is immutable, and a
bounded queue of lines. So a terminal that is slow, stopped or gone holds up nobody. Outcomes that
people look for later (failures, merges, replans) stay above the table as plain lines; the table is
wiped at the end, and the cursor shown again, whatever ended the run.

Imports rich: the command line imports this module only when it has found a terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import IO, TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from orchestrator.core.events import (
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptSucceeded,
    PlanRejected,
    PlanRevised,
    RunPaused,
    RunResumed,
    RunStarted,
    StoredEvent,
)
from orchestrator.core.state import RunState
from orchestrator.observers.activity import Activities, Activity
from orchestrator.observers.board import Board, BoardKeeper
from orchestrator.observers.frame import frame
from orchestrator.observers.lines import line_printer
from orchestrator.observers.text import LINE_CHARS_MAX, Style, clean_line
from orchestrator.state_folder import RunFolder

REFRESH_SECONDS = 0.5
"""How often the table is drawn while nothing happens, and transcripts are looked at."""
FRAME_SECONDS = 0.1
"""Least time between two pictures: a burst of events is one."""
CLOSE_SECONDS_MAX = 5.0
"""How long the end of a run waits for a terminal that takes nothing."""
LINES_MAX = 1_000
"""Pieces of text that may wait to be shown above the table; the oldest are dropped."""
SIZE_DEFAULT = (80, 24)

Clock = Callable[[], float]


def live_table(
    stream: TextIO,
    folder: RunFolder,
    style: Style,
    environ: Mapping[str, str],
    *,
    clock: Clock = time.time,
) -> LiveTable | None:
    """A table that is being drawn on `stream`, to be closed; None where lines serve better.

    That is: no terminal, one that cannot move its cursor (`TERM`) or cannot show `…`, a job of
    continuous integration (`CI`). `environ` is the process's, which rich asks for `TERM` as well.
    """
    if not stream.isatty() or environ.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    try:
        "…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return None
    return None if environ.get("CI") else LiveTable(stream, folder, style, clock)


class Screen:
    """Draws pictures on a terminal. For one thread. Every call may raise `OSError`."""

    def __init__(self, descriptor: int, folder: RunFolder, style: Style, encoding: str) -> None:
        self._terminal = Terminal(descriptor, encoding)
        self._console = Console(
            file=cast(IO[str], self._terminal),
            force_terminal=True,
            force_interactive=True,
            force_jupyter=False,
            color_system="standard" if style.colour else None,
            no_color=not style.colour,
            markup=False,
            highlight=False,
            emoji=False,
            width=SIZE_DEFAULT[0],
            height=SIZE_DEFAULT[1],
        )
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._activities = Activities(folder)
        self._doing: dict[str, Activity] = {}
        self._looked_at = 0.0

    def start(self) -> None:
        """Hide the cursor; from here on `stop` is owed."""
        self._live.start()

    def draw(self, board: Board, above: str, now: float) -> None:
        """Replace the picture. `above`: lines that go above it and stay, coloured by a `Style`."""
        width, height = self._terminal.size()
        # A column and a line are spared: texts can turn out wider than they count, and what
        # fills the last line would scroll away.
        self._console.size = (max(1, width - 1), max(1, height - 1))
        if not 0 <= now - self._looked_at < REFRESH_SECONDS:
            self._doing, self._looked_at = self._activities.look(board.rows), now
        picture = frame(board, self._doing, now, *self._console.size) if board.run else Text("")
        with self._console:  # written at once
            if above:
                self._console.print(Text.from_ansi(above.removesuffix("\n")), soft_wrap=True)
            self._live.update(picture, refresh=True)

    def stop(self) -> None:
        """Wipe the picture, show the cursor, let go of the terminal."""
        try:
            self._live.update(Text(""))
            self._live.stop()
        finally:
            self._terminal.close()


class LiveTable:
    """The table of one run, drawn by a thread of its own from the first to the last."""

    def __init__(
        self, stream: TextIO, folder: RunFolder, style: Style, clock: Clock = time.time
    ) -> None:
        """Begin to draw. What is written to `stream`, if it is stderr, goes above the table."""
        stream.flush()
        self._stream = stream
        self._clock = clock
        self._keeper = BoardKeeper()
        self._board = Board()
        self._above: deque[str] = deque(maxlen=LINES_MAX)
        self._lines = line_printer(Above(self._say, stream), style)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._broken: Exception | None = None
        self._screen = Screen(os.dup(stream.fileno()), folder, style, stream.encoding)
        self._redirected = contextlib.ExitStack()
        if stream is sys.stderr:
            notes = Above(self._note, stream)
            self._redirected.enter_context(contextlib.redirect_stderr(notes))
        self._thread = threading.Thread(target=self._serve, name="live table", daemon=True)
        self._thread.start()

    def observe(self, event: StoredEvent, state: RunState) -> None:
        """See one event: an `Observer`. Raises what ended the drawing, if something did."""
        if self._broken is not None:
            raise self._broken
        if is_told(event, state):
            self._lines(event, state)
        self._board = self._keeper.see(event, state)
        self._wake.set()

    def catch_up(self, state: RunState, history: Iterable[StoredEvent]) -> None:
        """Show a run whose events so far were `history`, without lines for them."""
        self._board = self._keeper.catch_up(state, history)
        self._wake.set()

    def close(self) -> bool:
        """Wipe the table, waiting some seconds at most; whether the terminal took everything."""
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_SECONDS_MAX)
        self._redirected.close()
        if self._thread.is_alive() or isinstance(self._broken, OSError):
            return False
        with contextlib.suppress(OSError):
            self._stream.write("".join(self._above))
            self._stream.flush()
        return self._broken is None

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _say(self, text: str) -> None:
        """Put coloured lines of ours above the table."""
        self._above.append(text)
        self._wake.set()

    def _note(self, text: str) -> None:
        """Put lines of anybody's above the table."""
        self._say("".join(clean_line(line) + "\n" for line in text.splitlines()))

    def _serve(self) -> None:
        try:
            self._screen.start()
            try:
                while not self._closing.is_set():
                    self._draw()
                    self._closing.wait(FRAME_SECONDS)
                    self._wake.wait(REFRESH_SECONDS)
                    self._wake.clear()
                self._draw()
            finally:
                self._screen.stop()
        except Exception as error:  # noqa: BLE001 - `observe` raises it, in the run's thread
            self._broken = error

    def _draw(self) -> None:
        waiting = [self._above.popleft() for _ in range(len(self._above))]
        self._screen.draw(self._board, "".join(waiting), self._clock())


def is_told(event: StoredEvent, state: RunState) -> bool:
    """Whether an event is told above the table: outcomes that people look for later."""
    match event.body:
        case RunStarted() | RunResumed() | RunPaused() | PlanRejected():
            return True
        case AttemptFailed() | AttemptCancelled():
            return True
        case AttemptLost(interrupted=interrupted):
            return not interrupted
        case PlanRevised(by=by, replans=replans):
            return by is not None or replans is not None
        case AttemptSucceeded(task=task):
            merged = state.tasks[task].task
            return merged.role is None or len(merged.needs) > 1
    return False


class Terminal(io.TextIOBase):
    """A terminal as rich writes to it: unbuffered, so that nothing is left to be flushed later."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        """Owns `descriptor`."""
        self._descriptor = descriptor
        self._encoding = encoding

    def write(self, text: str, /) -> int:
        """Write all of it, however long that takes. Raises `OSError` once the terminal is gone."""
        rest = memoryview(text.encode(self._encoding, "backslashreplace"))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        return len(text)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 x 24 where it does not say."""
        try:
            columns, lines = os.get_terminal_size(self._descriptor)
        except OSError:
            return SIZE_DEFAULT
        return columns or SIZE_DEFAULT[0], lines or SIZE_DEFAULT[1]

    def close(self) -> None:
        """Let go of the descriptor."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class Above(io.TextIOBase):
    """Stands in for a terminal's stream while the table is on it: whole lines go to `say`."""

    def __init__(self, say: Callable[[str], None], stream: TextIO) -> None:
        self._say = say
        self._stream = stream
        self._rest = ""

    def write(self, text: str, /) -> int:
        """Take `text`; what is behind its last newline waits for the next one."""
        lines, newline, self._rest = (self._rest + text).rpartition("\n")
        if len(self._rest) > LINE_CHARS_MAX:
            lines, newline, self._rest = lines + newline + self._rest, "\n", ""
        if newline:
            self._say(lines + newline)
        return len(text)

    def isatty(self) -> bool:
        """As the stream."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Of the stream."""
        return self._stream.fileno()
