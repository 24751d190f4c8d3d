"""What a command line asks for, as values; and the options that several commands share.

Options that the reference names and this release does not have are listed too: they are refused
as "not supported yet", never ignored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

Sandbox = Literal["auto", "required", "off"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


class NamedPath(click.Path):
    """A path that is not empty: `--repo "$UNSET"` does not mean the working folder."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """The path; fails for an empty one."""
        if value == "":
            self.fail("a path is needed", param, ctx)
        return super().convert(value, param, ctx)


NAMED_FILE = NamedPath(path_type=Path)
"""A path that is judged later, where its absence can be explained better."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `run`, `plan` and `demo` were asked to do. None: the plan's, or the default.

    The fields are named like the options, so that a command hands its options on as they are.
    """

    plan: Path | None = None
    """Plan file, there when the command started; None where there is a goal."""
    goal: str | None = None
    """What the planner is to make a plan for."""
    plan_only: bool = False
    """The plan is the result: it is not carried out."""
    output: Path | None = None
    """With `plan_only`: where the plan is written; None is stdout."""
    repo: Path | None = None
    """A folder in the target repository; None is the working folder."""
    base: str | None = None
    workers: int | None = None
    budget_usd: float | None = None
    model: str | None = None
    scripted: Path | None = None
    """Script of the scripted model."""
    base_url: str | None = None
    """Server of the model."""
    record: Path | None = None
    """File that exchanges with the model are kept in."""
    replay: Path | None = None
    """File of such exchanges that answers come from."""
    sandbox: Sandbox = "auto"
    roles: Path | None = None
    json: bool = False
    """JSON lines on stdout in place of the summary."""
    plain: bool = False
    """No colour."""
    yes: bool = False
    land: bool = False
    """Bring the result into the branch that the run started from."""
    demo: bool = False
    """Commands may use the interpreter that runs this program."""


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What `resume` was asked to do; everything else comes from the journal."""

    repo: Path | None = None
    budget_usd: float | None = None
    """Dollars of the whole run from here on."""
    approve: bool = False
    """Agree to what the run waits for."""
    scripted: Path | None = None
    base_url: str | None = None
    """Another server from here on."""
    sandbox: Sandbox = "auto"
    json: bool = False
    plain: bool = False
    yes: bool = False


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no amount of money."""
    if value is not None and not (math.isfinite(value) and 0 < value <= 1_000_000):
        raise click.BadParameter("an amount above 0 and up to 1,000,000 is needed", ctx, param)
    return value


def printable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no text, or none that could be shown: it would end up in files and prompts."""
    if value is not None and not (value.strip() and value.isprintable()):
        raise click.BadParameter("readable text is needed", ctx, param)
    return value


def not_yet(*names: str, takes_value: bool) -> Callable[[Decorated], Decorated]:
    """Options that are refused as not built yet; hidden from `--help`."""

    def refuse(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value not in (None, False):
            raise click.UsageError(f"the option {param.opts[0]} is not supported yet", ctx)

    def option(name: str) -> Callable[[Decorated], Decorated]:
        if takes_value:
            return click.option(
                name, flag_value="", hidden=True, expose_value=False, callback=refuse, is_flag=False
            )
        return click.option(name, hidden=True, expose_value=False, callback=refuse, is_flag=True)

    def add(function: Decorated) -> Decorated:
        for name in names:
            function = option(name)(function)
        return function

    return add


def not_yet_executor(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 - click's
    value: str,
) -> None:
    """Refuse every executor but the local one."""
    if value != "local":
        raise click.UsageError(f"the option --executor {value} is not supported yet", ctx)


def repo_option(function: Decorated) -> Decorated:
    """`--repo DIR`."""
    return click.option(
        "--repo",
        type=NAMED_FILE,
        metavar="DIR",
        help="A folder in the target repository (default: the working folder).",
    )(function)


def budget_option(function: Decorated) -> Decorated:
    """`--budget-usd X`."""
    return click.option(
        "--budget-usd", type=float, callback=finite, metavar="X", help="Dollars of the whole run."
    )(function)


def sandbox_option(text: str) -> Callable[[Decorated], Decorated]:
    """`--sandbox MODE`; `text` is its help."""
    return click.option(
        "--sandbox",
        type=click.Choice(["auto", "required", "off"]),
        default="auto",
        show_default=True,
        help=text,
    )


def output_options(function: Decorated) -> Decorated:
    """`--json`, `--plain`, `--yes`."""
    for option in (
        click.option("--yes", is_flag=True, help="Ask nothing: agree to the planner's plan."),
        click.option("--plain", is_flag=True, help="No colour, no live table."),
        click.option("--json", is_flag=True, help="JSON lines on stdout, one an event."),
    ):
        function = option(function)
    return function


def model_options(function: Decorated) -> Decorated:
    """`--scripted FILE`, `--base-url URL`, `--sandbox MODE`."""
    for option in (
        sandbox_option("How commands are kept in."),
        click.option(
            "--base-url",
            metavar="URL",
            help="Server of the model; bedrock: and vertex: are those services.",
        ),
        click.option(
            "--scripted", type=NAMED_FILE, metavar="FILE", help="Answer from a script, not a model."
        ),
    ):
        function = option(function)
    return function


def planning_options(function: Decorated) -> Decorated:
    """Options of everything that starts a run, from a plan or from a goal."""
    for option in (
        output_options,
        click.option(
            "--roles",
            type=NAMED_FILE,
            metavar="DIR",
            help="A folder of role files, looked at first.",
        ),
        click.option(
            "--replay", type=NAMED_FILE, metavar="FILE", help="Answer from a record; no network."
        ),
        click.option(
            "--record", type=NAMED_FILE, metavar="FILE", help="Keep what the model answers there."
        ),
        model_options,
        click.option(
            "--model",
            callback=printable,
            metavar="NAME",
            help="Model in place of the plan's default and the roles'.",
        ),
        budget_option,
        click.option("--base", metavar="REV", help="Revision that work starts from."),
        repo_option,
    ):
        function = option(function)
    return function


def run_options(function: Decorated) -> Decorated:
    """All options of a run."""
    function = not_yet("--trust-plan", "--pr", takes_value=False)(function)
    function = not_yet("--push", "--fresh", takes_value=True)(function)
    for option in (
        click.option(
            "--executor",
            type=click.Choice(["local", "temporal"]),
            default="local",
            hidden=True,
            expose_value=False,
            callback=not_yet_executor,
        ),
        planning_options,
        click.option(
            "--land", is_flag=True, help="Then bring the result into the branch you are on."
        ),
        click.option(
            "--workers", type=click.IntRange(1, 256), metavar="N", help="Attempts at a time."
        ),
        click.option("--goal", metavar="TEXT", help="Let the planner make the plan for this."),
    ):
        function = option(function)
    return function
