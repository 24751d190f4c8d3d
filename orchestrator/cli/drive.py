"""Drives a run from its state to its end, a pause or a signal, and says what came of it.

What a person sees while it goes on is put together here; so is the one question that is asked: on a
terminal, whether a planner's plan or patch shall be carried out. Elsewhere nothing is asked and the
run pauses (`resume --approve`).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from orchestrator import __version__
from orchestrator.cli.patient import PatientStream
from orchestrator.cli.terminal import err_style, note, out, out_style
from orchestrator.cli.wiring import Bench
from orchestrator.core.events import ApprovalGiven, Event, RunResumed
from orchestrator.core.products import PlanProposal
from orchestrator.core.state import RunState
from orchestrator.engine.engine import Engine
from orchestrator.errors import ExitCode
from orchestrator.journal.run_log import RunLog
from orchestrator.observers.jsonlines import json_lines, write_result
from orchestrator.observers.lines import line_printer
from orchestrator.observers.products import product_files
from orchestrator.observers.summary import resume_command, summary_lines
from orchestrator.observers.text import clean_line
from orchestrator.planfile.write import plan_text
from orchestrator.ports import Observer

if TYPE_CHECKING:
    from orchestrator.observers.live import LiveTable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run in good order."""

ANSWER_BYTES_MAX = 1_000

Opening = Sequence[tuple[Event, int | None]]
"""Events by which the run starts or goes on."""


@dataclass(frozen=True, slots=True)
class Display:
    """What a person, or a program, sees of a run."""

    json: bool = False
    plain: bool = False
    yes: bool = False
    """Nothing is asked: what waits for a person is agreed to."""


def versions() -> dict[str, str]:
    """What runs this, for the journal."""
    return {"orchestrate": __version__, "python": sys.version.split()[0]}


async def drive(
    state: RunState, journal: RunLog, bench: Bench, display: Display, opening: Opening
) -> int:
    """Record `opening`, go on to the end, a pause or a signal; the exit code without a report."""
    events: Opening = opening
    while True:
        async with _observers(bench, display) as observers:
            engine = Engine(state, journal, bench.executor, bench.publisher, observers, bench.spent)
            async with _interrupts(engine) as caught:
                await engine.append(events)
                await bench.publisher.pin()
                await engine.run()
        asked = [] if caught or state.status != "paused" else list(state.asked)
        if not asked or not (display.yes or await _agree(state)):
            return _code(state, caught)
        events = [(RunResumed(versions=versions()), None), *approvals(asked)]


def approvals(asked: Sequence[str]) -> Opening:
    """The events by which a person agrees to what planner tasks have handed in."""
    return [(ApprovalGiven(task=task), None) for task in asked]


def _code(state: RunState, caught: Sequence[int]) -> int:
    if state.status == "paused":
        return 128 + caught[0] if caught else ExitCode.PAUSED
    return ExitCode.OK if state.status == "succeeded" else ExitCode.FAILED


async def _agree(state: RunState) -> bool:
    """Show what waits and ask; False where nobody can be asked."""
    for task in state.asked:
        product = state.tasks[task].product
        if isinstance(product, PlanProposal):
            note(plan_text(product, state.settings).rstrip("\n"))
        elif product is not None:
            note(clean_line(getattr(product, "why", "")))
    return await _agreed("Carry this out?")


async def _agreed(question: str) -> bool:
    """Ask on the terminal, no being the default; False at once where there is none."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    await anyio.wait_readable(sys.stdin)  # unlike a read, this ends with Ctrl-C
    answer = os.read(sys.stdin.fileno(), ANSWER_BYTES_MAX)
    return answer.strip().lower() in (b"y", b"yes")


@asynccontextmanager
async def _observers(bench: Bench, display: Display) -> AsyncIterator[list[Observer]]:
    """Who sees the events; what was said is written out when the context ends."""
    outputs: list[PatientStream | LiveTable] = []
    observers: list[Observer] = [product_files(bench.folder)]
    table = _live_table(bench, display)
    if table is not None:
        outputs.append(table)
        observers.append(table.observe)
    else:
        stream = PatientStream(sys.stderr)
        outputs.append(stream)
        observers.append(line_printer(stream, err_style(plain=display.plain)))
    if display.json:
        stream = PatientStream(sys.stdout)
        outputs.append(stream)
        observers.append(json_lines(stream))
    try:
        yield observers
    finally:  # what was said before an error is read before it
        with anyio.CancelScope(shield=True):
            for output in outputs:
                await anyio.to_thread.run_sync(output.close)


def _live_table(bench: Bench, display: Display) -> LiveTable | None:
    """A table on a terminal that can show one; its library is loaded only then."""
    if display.plain or display.json or not sys.stderr.isatty():
        return None
    live = importlib.import_module("orchestrator.observers.live")
    table: LiveTable | None = live.live_table(
        sys.stderr, bench.folder, err_style(plain=display.plain), os.environ
    )
    return table


@asynccontextmanager
async def _interrupts(engine: Engine) -> AsyncIterator[Sequence[int]]:
    """While inside, a signal pauses the run and does not end the process; gives what came."""
    caught: list[int] = []
    wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    async def listen() -> None:
        with anyio.open_signal_receiver(*wanted) as signals:
            started.set()
            async for number in signals:
                if not caught:
                    note(f"{number.name}: ending the agents; what has finished is kept")
                caught.append(int(number))
                engine.interrupt(number.name)

    started = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        await started.wait()
        yield caught
        group.cancel_scope.cancel()


def report(state: RunState, display: Display) -> None:
    """Print the result, and how to go on where the run is paused."""
    if display.json:
        write_result(sys.stdout, state)
    else:
        out(summary_lines(state, out_style(plain=display.plain)))
    if state.status == "paused":
        why = clean_line(state.pause)
        note(f"run {state.run} is paused ({why}); go on: {resume_command(state)}")
