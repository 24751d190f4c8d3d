"""The writer's promises: durable when acknowledged, no gap, one writer, whatever ends it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from orchestrator.core.events import Event, RunPaused, RunResumed, StoredEvent, TaskSkipped
from orchestrator.errors import (
    DiskFullError,
    InfrastructureError,
    LockedError,
    UsageError,
)
from orchestrator.journal import Journal, RunLog, holder_of
from orchestrator.state_folder import RunFolder, StateFolder

RUN = "plan-20261130-1432-7f3a"
ROOT = Path(__file__).parents[2]


def folder_in(tmp_path: Path) -> tuple[Journal, RunFolder]:
    state = StateFolder(tmp_path / "state")
    state.create()
    return Journal.open(state.database), state.run(RUN)


def skipped(task: str) -> Event:
    return TaskSkipped(task=task, why="because")


async def write(log: RunLog, *tasks: str) -> tuple[StoredEvent, ...]:
    return await log.append([(skipped(task), None) for task in tasks])


def child(tmp_path: Path, *args: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    """A real writer in a process of its own; prints each task once it is acknowledged."""
    return subprocess.run(
        [sys.executable, "-m", "tests.journal.writing_child", str(tmp_path / "state"), RUN, *args],
        cwd=ROOT,
        env={**os.environ, "ORCHESTRATE_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.mark.asyncio
async def test_appended_events_have_numbers_times_and_causes(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    times = iter([100.5, 200.25])
    with RunLog.acquire(folder, journal, clock=lambda: next(times)) as log:
        first = await log.append([(skipped("a"), None), (skipped("b"), 1)])
        second = await log.append([(RunResumed(), None)])
        assert log.last_seq == 3
    assert [(e.seq, e.run, e.at, e.cause) for e in (*first, *second)] == [
        (1, RUN, 100.5, None),
        (2, RUN, 100.5, 1),
        (3, RUN, 200.25, None),
    ]
    assert journal.events(RUN) == [*first, *second]


@pytest.mark.asyncio
async def test_a_second_writer_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    for task in ("a", "b"):
        with RunLog.acquire(folder, journal) as log:
            await write(log, task)
    assert [event.seq for event in journal.events(RUN)] == [1, 2]


@pytest.mark.asyncio
async def test_nothing_to_append_is_no_record(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal) as log:
        assert await log.append([]) == ()
    assert journal.events(RUN) == []


@pytest.mark.asyncio
async def test_many_tasks_append_at_once_without_gaps_or_torn_groups(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    got: list[tuple[StoredEvent, ...]] = []

    async def work(log: RunLog, number: int) -> None:
        for step in range(5):
            got.append(await write(log, f"t{number}-{step}-a", f"t{number}-{step}-b"))

    with RunLog.acquire(folder, journal) as log:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(work, log, number)
    stored = journal.events(RUN)
    assert [event.seq for event in stored] == list(range(1, 401))
    assert all(second.seq == first.seq + 1 for first, second in got)
    assert sorted((e for pair in got for e in pair), key=lambda e: e.seq) == stored


@pytest.mark.asyncio
async def test_waiting_appends_share_a_commit(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal, clock=iter(range(1, 1000)).__next__) as log:
        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(write, log, f"t{number}")
    commits = {event.at for event in journal.events(RUN)}  # one reading of the clock a commit
    assert len(commits) < 100


@pytest.mark.asyncio
async def test_a_cancelled_append_is_finished_first(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal) as log:
        with anyio.CancelScope() as scope:
            scope.cancel()
            stored = await write(log, "a")
            assert [event.seq for event in stored] == [1]
            await anyio.lowlevel.checkpoint()
            raise AssertionError("cancellation was lost")
    assert len(journal.events(RUN)) == 1


@pytest.mark.asyncio
async def test_half_characters_are_stored_as_question_marks(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal) as log:
        (stored,) = await log.append([(TaskSkipped(task="a", why="caf\udce9"), None)])
    assert stored.body == TaskSkipped(task="a", why="caf?")
    assert journal.events(RUN) == [stored]


@pytest.mark.asyncio
async def test_appending_to_a_closed_log_says_so(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    log = RunLog.acquire(folder, journal)
    log.close()
    log.close()
    with pytest.raises(InfrastructureError, match="closed"):
        await write(log, "a")


def test_D03_second_writer_is_refused_with_the_holder(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal):
        assert holder_of(folder) is not None
        with pytest.raises(LockedError, match=f"process {os.getpid()} on ") as caught:
            RunLog.acquire(folder, journal)
        refused = child(tmp_path, "a")
    assert int(caught.value.exit_code) == 5
    assert "LockedError" in refused.stderr
    assert str(os.getpid()) in refused.stderr
    assert journal.events(RUN) == []
    assert holder_of(folder) is None


def test_D03_two_runs_of_one_repository_write_side_by_side(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    other = StateFolder(tmp_path / "state").run("other-20261130-1433-0001")

    async def both(one: RunLog, two: RunLog) -> None:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(write, one, f"t{number}")
                group.start_soon(write, two, f"t{number}")

    with RunLog.acquire(folder, journal) as one, RunLog.acquire(other, journal) as two:
        anyio.run(both, one, two)
    for run in (RUN, other.run):
        assert [event.seq for event in journal.events(run)] == list(range(1, 21))


def test_lock_dies_with_its_holder(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    killed = child(tmp_path, "a", fault="journal:1:kill")
    assert killed.returncode == -signal.SIGKILL
    assert holder_of(folder) is None
    with RunLog.acquire(folder, journal) as log:
        assert log.last_seq == 1


@pytest.mark.parametrize("record", range(1, 8))
def test_D11_kill_after_each_record_loses_nothing_and_leaves_no_gap(
    tmp_path: Path, record: int
) -> None:
    journal, _ = folder_in(tmp_path)
    names = [f"t{number}" for number in range(7)]
    killed = child(tmp_path, *names, fault=f"journal:{record}:kill")
    assert killed.returncode == -signal.SIGKILL
    kept = [event.body for event in journal.events(RUN)]
    assert kept == [skipped(name) for name in names[:record]]
    acknowledged = killed.stdout.split()
    assert acknowledged == names[: len(acknowledged)]
    assert len(acknowledged) <= record


def test_kill_in_the_midst_of_a_group_keeps_exactly_the_records_before(tmp_path: Path) -> None:
    journal, _ = folder_in(tmp_path)
    killed = child(tmp_path, "--together", *(f"t{n}" for n in range(9)), fault="journal:5:kill")
    assert killed.returncode == -signal.SIGKILL
    assert [event.seq for event in journal.events(RUN)] == [1, 2, 3, 4, 5]
    assert killed.stdout == ""


def test_D05_disk_full_stops_the_log_and_keeps_what_was_written(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    done = child(tmp_path, "--stubborn", "a", "b", "c", "d", fault="journal:3:enospc")
    assert done.stdout.split() == ["a", "b"]
    assert done.stderr.count("DiskFullError") == 2  # nothing is written past the gap
    assert [event.body for event in journal.events(RUN)] == [skipped("a"), skipped("b")]
    with RunLog.acquire(folder, journal) as log:
        assert anyio.run(write, log, "c")[0].seq == 3


@pytest.mark.asyncio
async def test_D05_a_really_full_database_is_disk_full(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal) as log:
        await write(log, "a")
        log._db.execute("PRAGMA max_page_count = 1")  # sqlite never goes below what is there
        with pytest.raises(DiskFullError, match="the disk is full") as caught:
            await log.append([(RunPaused(reason="signal", detail="x" * 200_000), None)])
    assert int(caught.value.exit_code) == 6
    assert len(journal.events(RUN)) == 1


def test_fault_raise_comes_when_the_record_is_durable(tmp_path: Path) -> None:
    journal, _ = folder_in(tmp_path)
    done = child(tmp_path, "a", "b", fault="journal:1:raise")
    assert "InjectedFault" in done.stderr
    assert len(journal.events(RUN)) == 1


@pytest.mark.parametrize("text", ["journal", "journal:0:kill", "journal:1:burn", "disk:1:kill"])
def test_a_fault_that_makes_no_sense_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    journal, folder = folder_in(tmp_path)
    monkeypatch.setenv("ORCHESTRATE_FAULT", text)
    with pytest.raises(UsageError, match="journal:N:kill"):
        RunLog.acquire(folder, journal)
    assert holder_of(folder) is None


def test_reading_works_while_a_run_writes(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    seen: list[Sequence[int]] = []

    async def go(log: RunLog) -> None:
        for number in range(5):
            await write(log, f"t{number}")
            seen.append([event.seq for event in Journal.open(journal.path).events(RUN)])

    with RunLog.acquire(folder, journal) as log:
        anyio.run(go, log)
    assert seen == [list(range(1, count + 1)) for count in range(1, 6)]


def test_records_never_change(tmp_path: Path) -> None:
    journal, folder = folder_in(tmp_path)
    with RunLog.acquire(folder, journal) as log:
        anyio.run(write, log, "a")
    with pytest.raises(InfrastructureError, match="append-only"), journal.connection() as db:
        db.execute("UPDATE events SET at = 0")


def test_commits_are_synced(tmp_path: Path) -> None:
    journal, _ = folder_in(tmp_path)
    with journal.connection() as db:
        settings = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS]
    assert settings == ["wal", 2]
    assert sqlite3.threadsafety == 3


SETTINGS = ("journal_mode", "synchronous")
