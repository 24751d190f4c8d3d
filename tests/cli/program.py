"""Runs the real program as a child process, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from orchestrator.core.events import Event
from orchestrator.journal import Journal, RunLog
from orchestrator.state_folder import RunFolder, StateFolder
from tests.observers.story import RUN, START

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Result:
    """How the program ended."""

    code: int
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """What the program sees: the tests' environment, its state below `home`."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "ORCHESTRATE_HOME": str(home), **more}


def command(*args: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "orchestrator", *args]


def orchestrate(*args: str, cwd: Path, home: Path, **more: str) -> Result:
    """Run it with nothing on stdin."""
    done = subprocess.run(
        command(*args),
        cwd=cwd,
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def orchestrate_each(*lines: Sequence[str], cwd: Path, home: Path, **more: str) -> list[Result]:
    """Run several command lines in one process of the program's code."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.cli.many"],
        cwd=cwd,
        env=environment(home, **more),
        input=json.dumps(lines).encode(),
        capture_output=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [Result(*result) for result in json.loads(done.stdout)]


def record(
    home: Path, common_dir: Path, events: Sequence[Event], run: str = RUN, at: float = START
) -> RunFolder:
    """Put a run into the journal of a repository, one second between its events."""
    state = StateFolder.for_repository(common_dir, home)
    state.create()
    journal = Journal.open(state.database)
    times = iter(range(1, 10_000))
    folder = state.run(run)

    async def write(log: RunLog) -> None:
        for event in events:
            await log.append([(event, None)])

    with RunLog.acquire(folder, journal, clock=lambda: at + next(times)) as log:
        anyio.run(write, log)
    return folder
