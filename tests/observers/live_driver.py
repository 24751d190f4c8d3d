"""A process with a live table on its stderr, which does what its stdin says, a line at a time.

    event        show the next event of the story, as the engine does: who raises is not asked again
    note TEXT    write TEXT to stderr
    fail         raise an error
    end          close the table

Each line is answered on stdout with what became of it. Arguments: the folder of the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.events import StoredEvent
from orchestrator.core.machine import evolve
from orchestrator.core.state import RunState
from orchestrator.observers.live import LiveTable, live_table
from orchestrator.observers.text import Style
from orchestrator.state_folder import RunFolder
from tests.observers.story import RUN, START, stored, whole


def main() -> int:
    folder = RunFolder(Path(sys.argv[1]))
    style = Style.of(sys.stderr, os.environ)
    table = live_table(sys.stderr, folder, style, os.environ, clock=lambda: START)
    if table is None:
        answer("no table")
        return 0
    with table:
        obey(table)
    answer("ended")
    return 0


def obey(table: LiveTable) -> None:
    state, events = RunState(RUN), iter(stored(whole()))
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        match word:
            case "event":
                answer(show(table, state, events))
            case "note":
                sys.stderr.write(rest + "\n")
                answer("noted")
            case "fail":
                raise RuntimeError("as it was told")
            case _:
                return


def show(table: LiveTable, state: RunState, events: Iterator[StoredEvent]) -> str:
    event = next(events)
    evolve(state, event)
    try:
        table.observe(event, state)
    except OSError:
        return "dropped"
    return event.body.type


def answer(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
