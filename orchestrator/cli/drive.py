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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from orchestrator import __version__
from orchestrator.cli.patient import PatientStream
from orchestrator.cli.terminal import err_style, note, note_aside, out, out_style
from orchestrator.cli.wiring import Bench
from orchestrator.core.events import ApprovalGiven, Event, RunResumed
from orchestrator.core.products import PlanPatch, PlanProposal, Product
from orchestrator.core.state import RunState
from orchestrator.engine.engine import Engine
from orchestrator.errors import ExitCode
from orchestrator.journal.run_log import RunLog
from orchestrator.observers.jsonlines import json_lines, write_result
from orchestrator.observers.lines import line_printer
from orchestrator.observers.products import product_files
from orchestrator.observers.summary import resume_command, summary_lines
from orchestrator.observers.text import clean_line
from orchestrator.planfile.write import patch_text, plan_text
from orchestrator.ports import Observer
from orchestrator.state_folder import RunFolder

if TYPE_CHECKING:
    from orchestrator.observers.live import LiveTable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run in good order."""

ANSWER_BYTES_MAX = 1_000
PLAN_FILE = "plan.yaml"
"""A planner's plan, in the run's folder."""

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
            async with _interrupts(partial(_interrupt, engine)) as caught:
                await engine.append(events)
                await bench.publisher.pin()
                await engine.run()
        if caught or state.status != "paused" or not state.asked:
            return _code(state, caught)
        if not display.yes:
            agreed, caught = await _ask(state, bench.folder)
            if not agreed:
                return _code(state, caught)
        events = [(RunResumed(versions=versions()), None), *approvals(list(state.asked))]


def approvals(asked: Sequence[str]) -> Opening:
    """The events by which a person agrees to what planner tasks have handed in."""
    return [(ApprovalGiven(task=task), None) for task in asked]


def _code(state: RunState, caught: Sequence[int]) -> int:
    if state.status == "paused":
        return 128 + caught[0] if caught else ExitCode.PAUSED
    return ExitCode.OK if state.status == "succeeded" else ExitCode.FAILED


async def _ask(state: RunState, folder: RunFolder) -> tuple[bool, Sequence[int]]:
    """Show what waits and ask. Gives whether the person agreed, and the signals that came.

    Where nobody can be asked that is no.
    """
    for task in state.asked:
        for line in _shown(state, state.tasks[task].product):
            note(line)
        await _keep(state, state.tasks[task].product, folder)
    agreed = False
    with anyio.CancelScope() as scope:
        async with _interrupts(lambda _number: scope.cancel()) as caught:
            agreed = await _agreed("Carry this out?")
    return agreed, caught


def _shown(state: RunState, product: Product | None) -> Iterator[str]:
    """What a planner has handed in, as a person should see it before it is carried out."""
    if isinstance(product, PlanProposal):
        yield plan_text(product, state.settings).rstrip("\n")
    elif isinstance(product, PlanPatch):
        yield patch_text(product).rstrip("\n")


async def _keep(state: RunState, product: Product | None, folder: RunFolder) -> None:
    """Put a plan where a person can take it from, edit it and run it."""
    if isinstance(product, PlanProposal):
        path = folder.root / PLAN_FILE
        text = plan_text(product, state.settings)
        await anyio.Path(path).write_text(text, encoding="utf-8")
        note(f"the plan as a file: {clean_line(str(path))}")


async def _agreed(question: str) -> bool:
    """Ask on the terminal, no being the default; False at once where there is none."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = b""
    try:
        await anyio.wait_readable(sys.stdin)  # unlike a read, this can be cancelled
        answer = os.read(sys.stdin.fileno(), ANSWER_BYTES_MAX)
    finally:
        if not answer.endswith(b"\n"):
            note("")  # what follows is not on the line of the question
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


def _interrupt(engine: Engine, number: signal.Signals) -> None:
    note_aside(f"{number.name}: ending the agents; what has finished is kept")
    engine.interrupt(number.name)


@asynccontextmanager
async def _interrupts(act: Callable[[signal.Signals], None]) -> AsyncIterator[Sequence[int]]:
    """While inside, signals do not end the process; `act` hears the first. Gives what came."""
    caught: list[int] = []
    wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    async def listen() -> None:
        with anyio.open_signal_receiver(*wanted) as signals:
            started.set()
            async for number in signals:
                if not caught:
                    act(number)
                caught.append(int(number))

    started = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        await started.wait()
        yield caught
        group.cancel_scope.cancel()


def report(state: RunState, display: Display, *, aside: bool = False) -> None:
    """Print the result, and how to go on where the run is paused.

    aside: stdout is for something that there is not, so the summary is told on stderr.
    """
    if display.json:
        write_result(sys.stdout, state)
    elif aside:
        note("\n".join(summary_lines(state, err_style(plain=display.plain))))
    else:
        out(summary_lines(state, out_style(plain=display.plain)))
    if state.status == "paused":
        why = clean_line(state.pause)
        note(f"run {state.run} is paused ({why}); go on: {resume_command(state)}")
