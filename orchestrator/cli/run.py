"""`run`, `demo` and `resume`: from a command line to the options that a session is started with."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from orchestrator import data
from orchestrator.cli import session
from orchestrator.cli.demo import make_repository
from orchestrator.cli.options import (
    ResumeOptions,
    RunOptions,
    Sandbox,
    budget_option,
    model_options,
    not_yet,
    output_options,
    repo_option,
    run_options,
)
from orchestrator.cli.plans import plan_path
from orchestrator.cli.terminal import note

DEMO_DEFAULT = "kitebase"


@click.command()
@click.argument("plan", required=False)
@run_options
def run(
    plan: str | None,
    repo: Path | None,
    base: str | None,
    workers: int | None,
    budget_usd: float | None,
    model: str | None,
    scripted: Path | None,
    sandbox: Sandbox,
    roles: Path | None,
    json: bool,
    plain: bool,
    yes: bool,
) -> int:
    """Run PLAN, a file or the name of a bundled plan.

    The result is the branch orchestrate/RUN of the repository.
    """
    if plan is None:
        raise click.UsageError("a PLAN is needed: a file, or the name of a bundled plan")
    return session.start(
        RunOptions(
            plan=plan_path(plan),
            repo=repo,
            base=base,
            workers=workers,
            budget_usd=budget_usd,
            model=model,
            scripted=scripted,
            sandbox=sandbox,
            roles=roles,
            json=json,
            plain=plain,
            yes=yes,
        )
    )


@click.command()
@click.argument("name", default=DEMO_DEFAULT)
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Attempts at a time.")
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "required", "off"]),
    default="auto",
    show_default=True,
    help="How commands are kept in.",
)
@output_options
def demo(
    name: str, workers: int | None, sandbox: Sandbox, json: bool, plain: bool, yes: bool
) -> int:
    """Run the bundled plan NAME on a fresh copy of its sample repository, with scripted agents."""
    parts = data.demo(name)
    repository = anyio.run(make_repository, parts.sample, parts.plan.stem)
    note(f"demo repository: {repository}")
    code = session.start(
        RunOptions(
            plan=parts.plan,
            repo=repository,
            workers=workers,
            scripted=parts.script,
            sandbox=sandbox,
            json=json,
            plain=plain,
            yes=yes,
            demo=True,
        )
    )
    note(f"look around: cd {repository} (the folder is yours to delete)")
    return code


@click.command()
@click.argument("run", required=False)
@repo_option
@budget_option
@model_options
@output_options
@not_yet("--approve", "--wait", takes_value=False)
def resume(
    run: str | None,
    repo: Path | None,
    budget_usd: float | None,
    scripted: Path | None,
    sandbox: Sandbox,
    json: bool,
    plain: bool,
    yes: bool,
) -> int:
    """Go on with RUN (default: the newest) from its journal."""
    options = ResumeOptions(
        repo=repo,
        budget_usd=budget_usd,
        scripted=scripted,
        sandbox=sandbox,
        json=json,
        plain=plain,
        yes=yes,
    )
    return session.resume(run, options)
