"""Commands that only read what is known of runs: `list`, `status`, `report`, `version`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from orchestrator.agent.transcript import usage_of
from orchestrator.cli.lookup import FoundRun, find_run, known_runs
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.terminal import note, out, out_style, save
from orchestrator.core.machine import fold
from orchestrator.core.state import RunState
from orchestrator.errors import UsageError
from orchestrator.journal import holder_of
from orchestrator.observers.jsonlines import result_record
from orchestrator.observers.report import report_json, report_markdown
from orchestrator.observers.summary import status_text, summary_lines, table
from orchestrator.state_folder import RunFolder

REPORTS = {"md": report_markdown, "json": report_json}
REPORTS_NOT_YET = ("html", "junit", "sarif", "mermaid")


def state_of(run: FoundRun) -> RunState:
    """A run's state, folded from its log."""
    return fold(run.id, run.events())


@click.command()
@click.argument("run", required=False)
@repo_option
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON document.")
@click.option("--plain", is_flag=True, help="No colour.")
def status(run: str | None, repo: Path | None, as_json: bool, plain: bool) -> None:
    """What each task of RUN (default: the newest) did."""
    found = find_run(run, repo)
    state = state_of(found)
    holder = holder_of(found.folder)
    if holder is not None:
        _count_running(state, found.folder)
    if as_json:
        out([json.dumps(result_record(state) | {"live": holder is not None})])
        return
    out(summary_lines(state, out_style(plain=plain)))
    if holder is not None:
        note(f"live: {holder}")
    elif state.status == "running":
        note(f"interrupted; go on with: orchestrate resume {found.id}")


def _count_running(state: RunState, folder: RunFolder) -> None:
    """Add what attempts in flight have cost so far, by their transcripts, and the time till now."""
    now = max(time.time(), state.ended_at)
    state.elapsed_s += now - state.ended_at
    state.ended_at = now
    for key in state.running:
        task = state.tasks[key]
        usage = usage_of(folder.transcript(key, task.attempt), task.cause or 0)
        began = task.started_at if task.started_at is not None else now
        usage = usage.model_copy(update={"seconds": max(now - began, 0.0)})
        task.usage += usage
        state.usage += usage


@click.command("list")
@repo_option
@click.option("--json", "as_json", is_flag=True, help="One JSON line a run.")
@click.option("--plain", is_flag=True, help="No colour.")
def list_runs(repo: Path | None, as_json: bool, plain: bool) -> None:
    """All runs, newest first: of the repository, or outside of one of all repositories."""
    runs = list(reversed(known_runs(repo)))
    if not runs:
        note("no runs yet")
        return
    rows = [[_status(run), run.id, _date(run), str(run.summary.events)] for run in runs]
    if as_json:
        keys = ("status", "run", "started", "events")
        out(json.dumps(dict(zip(keys, (*row[:3], int(row[3])), strict=True))) for row in rows)
        return
    style = out_style(plain=plain)
    for row, cells in zip(rows, table(rows), strict=True):
        out(["  ".join([status_text(style, row[0], len(cells[0])), *cells[1:3]])])


def _status(run: FoundRun) -> str:
    """A run's status without folding its log where its last event tells."""
    if run.summary.last_type == "RunPaused":
        return "paused"
    if run.summary.last_type not in ("RunFinished", "Landed"):
        return "running" if holder_of(run.folder) is not None else "interrupted"
    last = run.journal.events(run.id, after=run.summary.events - 1)[0].body
    return str(getattr(last, "status", "succeeded"))  # no other run is landed


def _date(run: FoundRun) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.summary.started_at))


@click.command()
@click.argument("run", required=False)
@repo_option
@click.option(
    "--format",
    "form",
    type=click.Choice([*REPORTS, *REPORTS_NOT_YET]),
    default="md",
    show_default=True,
    help="md or json.",
)
@click.option("-o", "--output", type=NAMED_FILE, metavar="FILE", help="Write it there.")
def report(run: str | None, repo: Path | None, form: str, output: Path | None) -> None:
    """The report of RUN (default: the newest)."""
    if form in REPORTS_NOT_YET:
        raise UsageError(f"orchestrate report: the format {form} is not supported yet")
    found = find_run(run, repo)
    events = found.events()
    text = REPORTS[form](fold(found.id, events), events)
    if output is None:
        out([text.removesuffix("\n")])
        return
    save(output, text)
    note(f"written to {output}")
