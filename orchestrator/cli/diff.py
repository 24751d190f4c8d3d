"""`diff`: what a run or one of its tasks changed, read from the hub."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import anyio
import click

from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.options import repo_option
from orchestrator.cli.show import state_of
from orchestrator.cli.terminal import note, out
from orchestrator.core.state import RunState
from orchestrator.errors import RepositoryError, UsageError
from orchestrator.observers.text import clean
from orchestrator.workspace.git import GitResult, HostGit

DIFF_BYTES_MAX = 256 * 1024 * 1024


@click.command()
@click.argument("run", required=False)
@click.argument("task", required=False)
@repo_option
@click.option("--stat", is_flag=True, help="Only the files and how much they changed.")
def diff(run: str | None, task: str | None, repo: Path | None, stat: bool) -> None:
    """What RUN (default: the newest), or its TASK alone, changed.

    A task's part is shown against the merge of what it needs; a failed one's is the work it left.
    """
    found = find_run(run, repo)
    state = state_of(found)
    if not found.state_folder.hub.is_dir():
        raise RepositoryError(f"{found.state_folder.hub}: the run's results are gone")
    if task is None:
        before, after = _whole(state)
    else:
        before, after = _of_task(found, state, task)
    if after is None or before == after:
        note("nothing changed")
        return
    options = ("--no-ext-diff", "--no-textconv", "--no-color", *(("--stat",) if stat else ()))
    show = _git(found, "diff", *options, before, after, "--").output
    if len(show) >= DIFF_BYTES_MAX:
        note(f"only the first {DIFF_BYTES_MAX:,} bytes are shown")
    if sys.stdout.isatty():
        out([clean(show.decode("utf-8", "replace")).removesuffix("\n")])
    else:
        sys.stdout.buffer.write(show)


def _whole(state: RunState) -> tuple[str, str | None]:
    """The run's base and result. Raises `UsageError` while there is neither."""
    if state.started is None:
        raise UsageError(f"run {state.run} ended before it began: it has no base")
    if state.commit is None and state.status not in ("succeeded", "failed"):
        raise UsageError(f"run {state.run} has no result yet; name a TASK that has one")
    return state.started.base, state.commit


def _of_task(found: FoundRun, state: RunState, task: str) -> tuple[str, str | None]:
    """The two commits that a task's own work lies between."""
    one = state.tasks.get(task)
    if one is None:
        known = ", ".join(state.tasks) or "none"
        raise UsageError(f"run {state.run} has no task {task!r}; there are: {known}")
    commit = one.commit or one.kept
    if commit is None:
        return "", None
    trailers = "%(trailers:key=Orchestrate-Task,valueonly,separator=%x20)"
    show = _git(found, "show", "--no-patch", f"--format=%P%x00{trailers}", commit, "--")
    parents, _, owner = show.text.strip().partition("\0")
    if owner != task or not parents:
        return commit, commit  # it only hands on what it was given
    return parents.split()[0], commit


def _git(found: FoundRun, *args: str) -> GitResult:
    """Git on the hub, with nobody's configuration but the hub's."""
    hub = HostGit(found.state_folder.hub)
    return anyio.run(functools.partial(hub, *args, bytes_max=DIFF_BYTES_MAX))
