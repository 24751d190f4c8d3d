"""`watch`: another process's run as it goes on, for people and programs; it is never touched."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.core.events import Event, RunFinished, RunPaused
from orchestrator.journal import Journal, RunLog
from orchestrator.state_folder import StateFolder
from tests.cli.inside import run_inside
from tests.cli.program import SECONDS_MAX, Result, command, environment, record
from tests.observers.story import RUN, beginning, failing, whole
from tests.support.repositories import make_repository


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kite", {"a": "1"})


@contextmanager
def live(home: Path, repository: Path, events: Sequence[Event]) -> Iterator[RunLog]:
    """A run that this process has."""
    folder = record(home, repository / ".git", events)
    journal = Journal.open(StateFolder.for_repository(repository / ".git", home).database)
    with RunLog.acquire(folder, journal) as log:
        yield log


def append(log: RunLog, *events: Event) -> None:
    async def write() -> None:
        await log.append([(event, None) for event in events])

    anyio.run(write)


@contextmanager
def watching(home: Path, repository: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command("watch", *args),
        cwd=repository,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[bytes], text: str) -> str:
    """What the process prints up to the line that holds `text`."""
    assert process.stdout is not None
    shown = ""
    while text not in shown:
        line = process.stdout.readline().decode()
        assert line, f"it ended before it said {text!r}: {shown}"
        shown += line
    return shown


def ended(process: subprocess.Popen[bytes]) -> Result:
    out, err = process.communicate(timeout=SECONDS_MAX)
    return Result(process.returncode, out.decode(), err.decode())


def watched(home: Path, repository: Path, events: Sequence[Event], *args: str) -> Result:
    """What is shown of a run that nobody has any more."""
    record(home, repository / ".git", events)
    return run_inside("watch", "--repo", str(repository), *args, home=home)


def test_a_finished_run_is_told_from_its_beginning(home: Path, repository: Path) -> None:
    result = watched(home, repository, whole())
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "run started: kitebase" in lines[0]
    assert any("integrate #1 failed" in line for line in lines)
    assert f"run {RUN}: succeeded in 18.0s" in lines
    assert "\x1b" not in result.out


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ([RunFinished(status="failed")], 1, ""),
        ([RunPaused(reason="budget", detail="the money is spent")], 4, ""),
        ([], 4, f"interrupted; go on with: orchestrate resume {RUN}\n"),
    ],
)
def test_what_a_run_came_to_is_the_exit_code(
    home: Path, repository: Path, end: list[Event], code: int, said: str
) -> None:
    result = watched(home, repository, [*failing(), *end])
    assert (result.code, result.err) == (code, said)


def test_what_happens_meanwhile_is_told_until_the_run_ends(home: Path, repository: Path) -> None:
    story = whole()
    with live(home, repository, story[:4]) as log, watching(home, repository) as process:
        shown = read_until(process, "look #1 succeeded")
        assert "filter" not in shown.replace("adds look, filter", "")
        append(log, *story[4:6])
        shown = read_until(process, "filter #1 failed")
        append(log, *story[6:])
        result = ended(process)
    assert (result.code, result.err) == (0, "")
    assert f"run {RUN}: succeeded" in result.out


def test_as_json_lines_it_is_what_the_run_itself_prints(home: Path, repository: Path) -> None:
    story = whole()
    with live(home, repository, story[:4]) as log, watching(home, repository, "--json") as process:
        shown = read_until(process, "AttemptSucceeded")
        append(log, *story[4:])
        result = ended(process)
    records = [json.loads(line) for line in (shown + result.out).splitlines()]
    assert [record["seq"] for record in records[:-1]] == list(range(1, len(story) + 1))
    assert [record["type"] for record in records] == [*(event.type for event in story), "result"]
    assert (records[-1]["status"], result.code) == ("succeeded", 0)


def test_the_end_of_the_runs_process_is_noticed(home: Path, repository: Path) -> None:
    with live(home, repository, beginning()) as log, watching(home, repository) as process:
        read_until(process, "look #1 succeeded")
        log.close()
        result = ended(process)
    assert result.code == 4
    assert result.err == f"interrupted; go on with: orchestrate resume {RUN}\n"


def test_a_paused_run_that_somebody_has_taken_up_is_waited_for(
    home: Path, repository: Path
) -> None:
    paused = [*beginning(), RunPaused(reason="signal", detail="SIGINT")]
    with live(home, repository, paused) as log, watching(home, repository) as process:
        read_until(process, "paused")
        append(log, RunFinished(status="succeeded"))
        assert ended(process).code == 0


def test_ctrl_c_ends_the_watching_and_not_the_run(home: Path, repository: Path) -> None:
    with live(home, repository, beginning()) as log, watching(home, repository) as process:
        read_until(process, "look #1 succeeded")
        process.send_signal(signal.SIGINT)
        result = ended(process)
        append(log, RunFinished(status="succeeded"))
    assert result.code == 130
    assert result.err == f"no longer watching; run {RUN} is not touched by this\n"
    database = StateFolder.for_repository(repository / ".git", home).database
    assert len(Journal.open(database).events(RUN)) == len(beginning()) + 1


def test_a_reader_that_leaves_ends_it(home: Path, repository: Path) -> None:
    with live(home, repository, beginning()) as log, watching(home, repository) as process:
        read_until(process, "run started")
        assert process.stdout is not None
        process.stdout.close()
        append(log, *whole()[4:])
        assert process.wait(SECONDS_MAX) == 141


def test_on_a_terminal_there_is_a_table_and_then_the_result(home: Path, repository: Path) -> None:
    story = whole()
    with live(home, repository, story[:5]) as log:
        process, terminal = _on_a_terminal(home, repository)
        try:
            shown = _read_terminal(terminal, "filter")
            append(log, *story[5:])
            shown += _read_terminal(terminal, "total:")
            assert process.wait(SECONDS_MAX) == 0
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
    assert "\x1b[?25l" in shown, "the cursor is hidden while the table is drawn"
    assert shown.rindex("\x1b[?25h") < shown.rindex(f"run {RUN}: ")


def _on_a_terminal(home: Path, repository: Path) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    variables = {**environment(home, TERM="xterm", NO_COLOR="1"), "CI": ""}
    process = subprocess.Popen(
        command("watch"),
        cwd=repository,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def _read_terminal(terminal: int, text: str) -> str:
    """What appears on the terminal up to `text`."""
    shown = ""
    deadline = time.monotonic() + SECONDS_MAX
    while text not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 100_000).decode(errors="replace")
            except OSError:  # nobody has the other side any more
                raise AssertionError(f"it ended before it said {text!r}: {shown}") from None
    return shown


def test_there_has_to_be_a_run(home: Path, repository: Path) -> None:
    result = run_inside("watch", "--repo", str(repository), home=home)
    assert (result.code, result.out) == (2, "")
    assert "no run" in result.err
