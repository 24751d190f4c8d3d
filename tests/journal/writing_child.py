"""A writer for `test_run_log`, run as a process of its own.

    writing_child.py STATE RUN [--together | --stubborn] TASK...

Appends one event a task and prints its name once that is acknowledged. `--together`: all in one
append. `--stubborn`: goes on after an error. Errors are named on stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from orchestrator.core.events import TaskSkipped
from orchestrator.errors import OrchestratorError
from orchestrator.journal import Journal, RunLog
from orchestrator.state_folder import StateFolder


async def append(log: RunLog, tasks: list[str], stubborn: bool) -> None:
    try:
        await log.append([(TaskSkipped(task=task, why="because"), None) for task in tasks])
        sys.stdout.write(" ".join(tasks) + "\n")
        sys.stdout.flush()
    except OrchestratorError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        if not stubborn:
            raise


async def main(state: StateFolder, run: str, words: list[str]) -> None:
    tasks = [word for word in words if not word.startswith("--")]
    groups = [tasks] if "--together" in words else [[task] for task in tasks]
    with RunLog.acquire(state.run(run), Journal.open(state.database)) as log:
        for group in groups:
            await append(log, group, "--stubborn" in words)


if __name__ == "__main__":
    anyio.run(main, StateFolder(Path(sys.argv[1])), sys.argv[2], sys.argv[3:])
