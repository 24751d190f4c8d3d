"""`run`, `plan`, `demo` and `resume`: from a command line to what a session is started with."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli.main import load
from orchestrator.cli.options import (
    NAMED_FILE,
    ResumeOptions,
    RunOptions,
    budget_option,
    model_options,
    not_yet,
    output_options,
    planning_options,
    repo_option,
    run_options,
    sandbox_option,
)

DEMO_DEFAULT = "kitebase"
GOAL_CHARS_MAX = 20_000


@click.command()
@click.argument("plan", required=False)
@run_options
def run(plan: str | None, goal: str | None, **options: Any) -> int:
    """Run PLAN, a file or the name of a bundled plan; or a plan that is made for --goal.

    The result is the branch orchestrate/RUN of the repository.
    """
    if (plan is None) == (goal is None):
        raise click.UsageError(
            "either a PLAN is needed (a file, or the name of a bundled plan) or a --goal"
        )
    if goal is not None:
        return _start(RunOptions(goal=_goal(goal), **options))
    assert plan is not None
    return _start(RunOptions(plan=load("plans:plan_path")(plan), **options))


@click.command()
@click.argument("goal", metavar="TEXT")
@click.option("-o", "--output", type=NAMED_FILE, metavar="FILE", help="Write the plan there.")
@planning_options
def plan(goal: str, **options: Any) -> int:
    """Let the planner make a plan for TEXT; print it as a file to read and edit. Runs nothing."""
    return _start(RunOptions(goal=_goal(goal), plan_only=True, **options))


def _start(options: RunOptions) -> int:
    """Imports what carries a run out: not needed to complete or refuse a command line."""
    return int(load("session:start")(options))


def _goal(text: str) -> str:
    if not text.strip():
        raise click.UsageError("the goal is empty: say in a sentence what is wanted")
    if len(text) > GOAL_CHARS_MAX:
        raise click.UsageError(f"the goal is longer than {GOAL_CHARS_MAX:,} characters")
    if text != text.encode(errors="replace").decode():
        raise click.UsageError("the goal is no text in this terminal's encoding")
    return text.strip()


@click.command()
@click.argument("name", default=DEMO_DEFAULT)
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Attempts at a time.")
@sandbox_option("How commands are kept in.")
@output_options
def demo(name: str, **options: Any) -> int:
    """Run the bundled plan NAME on a fresh copy of its sample repository, with scripted agents."""
    return int(load("demo:run_demo")(name, **options))


@click.command()
@click.argument("run", required=False)
@repo_option
@budget_option
@model_options
@output_options
@click.option("--approve", is_flag=True, help="Agree to the plan or patch that the run waits for.")
@not_yet("--wait", takes_value=False)
def resume(run: str | None, **options: Any) -> int:
    """Go on with RUN (default: the newest) from its journal."""
    return int(load("session:resume")(run, ResumeOptions(**options)))
