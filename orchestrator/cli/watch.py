"""`watch` and `export`: a run's journal as it grows, for people or programs, and as it is stored.

Watching only reads: the run belongs to another process, which notices nothing of it. What can be
seen is what is durable; the journal is asked a few times a second.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.terminal import note, out, out_style, save
from orchestrator.core.events import StoredEvent
from orchestrator.core.machine import evolve
from orchestrator.core.state import RunState
from orchestrator.errors import ExitCode
from orchestrator.journal import holder_of
from orchestrator.observers.jsonlines import json_lines, write_result
from orchestrator.observers.lines import line_printer
from orchestrator.observers.summary import summary_lines
from orchestrator.observers.text import Style
from orchestrator.ports import Observer

POLL_SECONDS = 0.25


@click.command()
@click.argument("run", required=False)
@repo_option
@click.option("--json", "as_json", is_flag=True, help="JSON lines, one an event, then the result.")
@click.option("--plain", is_flag=True, help="Lines without colour, also on a terminal.")
def watch(run: str | None, repo: Path | None, as_json: bool, plain: bool) -> int:
    """Follow RUN (default: the newest), which another process runs, until it ends or pauses."""
    found = find_run(run, repo)
    state = RunState(found.id)
    style = out_style(plain=plain)
    try:
        with _shown(found, state, style, as_json=as_json, plain=plain) as observe:
            _follow(found, state, observe)
    except KeyboardInterrupt:
        note(f"no longer watching; run {found.id} is not touched by this")
        return ExitCode.SIGINT
    if as_json:
        write_result(sys.stdout, state)
    else:
        out(["", *summary_lines(state, style)])
    if state.status == "running":
        note(f"interrupted; go on with: orchestrate resume {found.id}")
    codes = {"succeeded": ExitCode.OK, "failed": ExitCode.FAILED}
    return codes.get(state.status, ExitCode.PAUSED)


@contextmanager
def _shown(
    found: FoundRun, state: RunState, style: Style, *, as_json: bool, plain: bool
) -> Iterator[Observer]:
    """Who shows what happens: JSON lines, plain lines, or on a terminal a table that is live."""
    if as_json or plain or not sys.stdout.isatty():
        yield json_lines(sys.stdout) if as_json else line_printer(sys.stdout, style)
        return
    live = importlib.import_module("orchestrator.observers.live")  # loads rich
    table = live.live_table(sys.stdout, found.folder, style, os.environ)
    if table is None:
        yield line_printer(sys.stdout, style)
        return
    with table:
        history = list(_news(found, state))
        table.catch_up(state, history)
        yield table.observe


def _follow(found: FoundRun, state: RunState, observe: Observer) -> None:
    """Show each event to `observe`, the past ones first, until nobody has the run any more."""
    while True:
        # Asked before reading: what its process has written until it ended is then read, too.
        live = holder_of(found.folder) is not None
        for event in _news(found, state):
            observe(event, state)
        if not live or state.status in ("succeeded", "failed"):
            return
        time.sleep(POLL_SECONDS)


def _news(found: FoundRun, state: RunState) -> Iterator[StoredEvent]:
    """Events that are not in `state` yet, each as it is folded in."""
    for event in found.journal.events(found.id, after=state.seq):
        evolve(state, event)
        yield event


@click.command()
@click.argument("run", required=False)
@repo_option
@click.option("-o", "--output", type=NAMED_FILE, metavar="FILE", help="Write it there.")
def export(run: str | None, repo: Path | None, output: Path | None) -> None:
    """The journal of RUN (default: the newest) as JSON lines, each event whole, as it is stored."""
    found = find_run(run, repo)
    # Pure ASCII: nothing in it can drive a terminal or upset an encoding.
    lines = (json.dumps(event.model_dump(mode="json", by_alias=True)) for event in found.events())
    if output is None:
        out(lines)
        return
    save(output, "".join(f"{line}\n" for line in lines))
    note(f"written to {output}")
