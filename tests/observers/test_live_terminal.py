"""The live table on a real terminal: a process draws, the test sees what a person would see."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.core.events import AttemptLost, Event
from orchestrator.core.machine import evolve
from orchestrator.core.state import RunState
from orchestrator.observers.live import LiveTable, live_table
from orchestrator.observers.text import Style
from orchestrator.state_folder import RunFolder
from tests.observers.story import RUN, START, beginning, started, stored, whole
from tests.observers.terminal import Terminal, View
from tests.style.source import ROOT

WAIT_SECONDS = 60
EVENTS = len(whole())


class Driver:
    """The process that draws, and its two pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self, line: str) -> str:
        """Give one order; its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def wait(self) -> int:
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def driver(terminal: Terminal, folder: Path) -> Iterator[Driver]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.observers.live_driver", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=terminal.slave,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1"},
        start_new_session=True,
    )
    with process:
        try:
            yield Driver(process)
        finally:
            process.kill()


class Feed:
    """Shows a table of this process the story, event by event."""

    def __init__(self, table: LiveTable) -> None:
        self.table = table
        self._state = RunState(RUN)
        self._events = iter(stored(whole()))

    def show(self, count: int) -> None:
        for event in itertools.islice(self._events, count):
            self.table.observe(event, evolve(self._state, event))


@pytest.fixture(autouse=True)
def xterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests are run on, here it is a terminal with colours."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def fed(terminal: Terminal, folder: Path) -> Iterator[Feed]:
    with os.fdopen(os.dup(terminal.slave), "w", encoding="utf-8") as stream:
        style = Style.of(stream, os.environ)
        table = live_table(stream, RunFolder(folder), style, os.environ, clock=lambda: START)
        assert table is not None
        with table:
            yield Feed(table)


@pytest.mark.parametrize(("columns", "height"), [(1, 1), (20, 5), (80, 24), (200, 50)])
def test_T08_a_run_is_shown_and_wiped_at_any_size(
    tmp_path: Path, columns: int, height: int
) -> None:
    with Terminal(columns, height) as terminal:
        with fed(terminal, tmp_path) as feed:
            feed.show(4)
            terminal.read_until(lambda view: "running" in view.text or "…" in view.text)
            assert not terminal.view.cursor
            feed.show(EVENTS - 4)
        view = terminal.read_all()
    assert view.cursor
    assert view.column == 0
    letters = "".join(view.text.split())
    assert "runstarted:kitebaseonbbbbbbbbbbbb" in letters
    assert "replanningafterintegrate:addsreplan-1" in letters
    assert "and1" not in letters
    assert "0/3done" not in letters


def test_a_process_shows_a_whole_run(tmp_path: Path) -> None:
    with Terminal(80, 24) as terminal, driver(terminal, tmp_path) as drawing:
        assert [drawing.tell("event") for _ in range(EVENTS)] == [e.type for e in whole()]
        terminal.read_until(lambda view: "succeeded 18.0s  5/5 done" in view.text)
        assert drawing.tell("end") == "ended"
        assert drawing.wait() == 0
        assert "5/5 done" not in terminal.read_all().text


def test_outcomes_stay_above_the_table_and_notes_too(tmp_path: Path) -> None:
    with Terminal(100, 30) as terminal, driver(terminal, tmp_path) as drawing:
        for _ in range(5):
            drawing.tell("event")
        drawing.tell("note warning: \x1b[2Jlook here")
        for _ in range(3):
            drawing.tell("event")
        view = terminal.read_until(lambda view: "waits for a worker" in view.text)
        lines = view.lines
        top = next(n for n, line in enumerate(lines) if line.startswith("running 7"))
        assert r"warning: \x1b[2Jlook here" in lines[:top]
        assert any("filter #1 failed in 1.5s: own_gate_red" in line for line in lines[:top])
        assert not any("look #1 started" in line for line in lines)
        above = lines[:top]
        drawing.tell("end")
        drawing.wait()
        assert terminal.read_all().lines == above


def test_the_table_follows_the_terminals_size(tmp_path: Path) -> None:
    with Terminal(120, 30) as terminal:
        with fed(terminal, tmp_path) as feed:
            feed.show(3)
            terminal.read_until(lambda view: "implementer" in view.text)
            terminal.resize(20, 5)
            feed.show(1)
            small = "ready   filter\nand 1 pending, 1 s…"
            terminal.read_until(lambda view: view.text.endswith(small))
            terminal.resize(200, 50)
            feed.show(1)
            terminal.read_until(lambda view: "longest chain left, 2 tasks" in view.text)
        assert terminal.read_all().cursor


def test_T07_a_run_goes_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    with Terminal(80, 24) as terminal, driver(terminal, tmp_path) as drawing:
        drawing.tell("event")
        terminal.read_until(lambda view: "running" in view.text)
        terminal.hang_up()
        answers = [drawing.tell("event") for _ in range(EVENTS - 1)]
        assert set(answers) <= {"dropped", *(event.type for event in whole())}
        assert drawing.tell("end") == "ended"
        assert drawing.wait() == 0


def test_an_error_is_read_below_a_wiped_table(tmp_path: Path) -> None:
    with Terminal(80, 24) as terminal, driver(terminal, tmp_path) as drawing:
        for _ in range(3):
            drawing.tell("event")
        terminal.read_until(lambda view: "pending" in view.text)
        drawing.tell("fail")
        assert drawing.wait() == 1
        view = terminal.read_all()
    assert view.cursor
    assert view.text.endswith("RuntimeError: as it was told")
    assert "pending" not in view.text


def test_an_interrupt_leaves_the_terminal_clean(tmp_path: Path) -> None:
    with Terminal(80, 24) as terminal, driver(terminal, tmp_path) as drawing:
        for _ in range(3):
            drawing.tell("event")
        terminal.read_until(lambda view: "pending" in view.text)
        drawing.process.send_signal(signal.SIGINT)
        drawing.wait()
        view = terminal.read_all()
    assert view.cursor
    assert "pending" not in view.text
    assert view.text.endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False)],
)
def test_T08_colour_only_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], coloured: bool
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with Terminal(80, 24) as terminal:
        with fed(terminal, tmp_path) as feed:
            feed.show(6)
            terminal.read_until(lambda view: "again after own_gate_red" in view.text)
        assert terminal.read_all().coloured is coloured


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({"TERM": "dumb"}, "utf-8"),
        ({"TERM": ""}, "utf-8"),
        ({"CI": "true"}, "utf-8"),
        ({}, "ascii"),
    ],
)
def test_T08_no_table_where_lines_serve_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], encoding: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with Terminal(80, 24) as terminal:
        with os.fdopen(os.dup(terminal.slave), "w", encoding=encoding) as stream:
            assert live_table(stream, RunFolder(tmp_path), Style(), os.environ) is None
        assert terminal.read_all().text == ""


def test_no_table_without_a_terminal(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        assert live_table(log, RunFolder(tmp_path), Style(), os.environ) is None


def test_a_terminal_that_takes_nothing_holds_up_nobody(tmp_path: Path) -> None:
    with (
        Terminal(80, 24) as terminal,
        os.fdopen(os.dup(terminal.slave), "w", encoding="utf-8") as stream,
    ):
        terminal.fill()
        table = LiveTable(stream, RunFolder(tmp_path), Style())
        lost = AttemptLost(task="look", attempt=1, why="interrupted", interrupted=True)
        events: list[Event] = beginning()[:2]
        for _ in range(2_000):
            events += [started("look"), lost]
        state = RunState(RUN)
        for event in stored(events):
            table.observe(event, evolve(state, event))
        closed: list[bool] = []
        closing = threading.Thread(target=lambda: closed.append(table.close()))
        closing.start()
        terminal.view = View(2_000, 24)
        terminal.read_until(lambda _view: not closing.is_alive())
        assert closed == [True]
