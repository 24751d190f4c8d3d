"""The `orchestrate` command: which commands there are, and which one a command line means.

Not the commands themselves: a command's module is imported when it is called, so that `--help`
answers at once and loads nothing heavy.

    orchestrate COMMAND [...]      a command of the table below
    orchestrate PLAN [...]         the same as `orchestrate run PLAN [...]`
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from orchestrator.cli.errors import guarded
from orchestrator.cli.terminal import prepare_streams

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run:run", "Run a plan."),
    "plan": ("run:plan", "Let the planner make a plan for a goal; run nothing."),
    "check": ("check:check", "Say everything that is wrong with a plan; run nothing."),
    "demo": ("run:demo", "Run a bundled plan on a bundled repository; no key, no network."),
    "resume": ("run:resume", "Go on with a run that was paused, interrupted or killed."),
    "status": ("show:status", "What each task of a run did."),
    "list": ("show:list_runs", "All runs, newest first."),
    "logs": ("logs:logs", "The conversation of a task's agent."),
    "diff": ("diff:diff", "What a run, or one task, changed."),
    "watch": ("watch:watch", "Follow a run of another process."),
    "cost": ("cost:cost", "What a run has cost: by task, role and kind of token."),
    "land": ("land:land", "Bring a run's result into the branch that it started from."),
    "export": ("watch:export", "A run's journal as JSON lines."),
    "report": ("show:report", "A run's report as Markdown or JSON."),
    "roles": ("roles:roles", "The roles there are, and faults of role files."),
    "schema": ("schema:schema", "JSON Schema of plans, role files, products or events."),
    "init": ("init:init", "Write a plan to start from into the repository."),
    "doctor": ("doctor:doctor", "What works on this machine, and how to mend what does not."),
    "completion": ("completion:completion", "Completion script for bash, zsh or fish."),
    "version": ("version:version", "The version of this program."),
}
"""Command -> (module:attribute in this package, one line of help)."""

COMPLETION = "_ORCHESTRATE_COMPLETE"
"""Variable by which a shell asks what can be completed."""

NOT_YET = ("tell", "pause", "cancel", "retry", "salvage", "gc", "serve", "worker")
"""Commands that the reference names and this release refuses."""


class Commands(click.Group):
    """A group whose commands are imported when called; a first word that is none is a plan."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command, None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = load(COMMANDS[cmd_name][0])
        return load("completion:teach")(command) if ctx.resilient_parsing else command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Any:
        """What a command line can begin with; options are those of `run`."""
        if incomplete.startswith("-"):
            return load(COMMANDS["run"][0]).shell_complete(ctx, incomplete)
        return load("completion:words")(
            [(name, text) for name, (_, text) in COMMANDS.items()], incomplete
        )

    def format_commands(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
    ) -> None:
        """The table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options before the plan are options of `run`."""
        if not args and not ctx.resilient_parsing:
            raise click.UsageError("a command or a PLAN is needed", ctx)
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` mean."""
        name = args[0]
        if name in NOT_YET:
            raise click.UsageError(f"the command {name!r} is not supported yet", ctx)
        if name in COMMANDS:
            return super().resolve_command(ctx, args)
        if load("plans:looks_like_plan")(name):
            return "run", self.get_command(ctx, "run"), args
        raise click.UsageError(f"there is no command and no plan named {name!r}{_near(name)}", ctx)


def load(target: str) -> Any:
    """The attribute that `module:attribute` names, its module imported now."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(f"orchestrator.cli.{module}"), attribute)


def _near(name: str) -> str:
    """A question after names that are spelt almost so, empty when there are none."""
    known = [*COMMANDS, *NOT_YET, *load("plans:bundled_plans")()]
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`orchestrate PLAN.yaml` is short for `orchestrate run PLAN.yaml`.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    hidden=True,
    callback=lambda ctx, _param, value: _version(ctx) if value else None,
)
def orchestrate() -> None:
    """Run a graph of coding tasks: parallel agents, real gates, one branch."""


def _version(ctx: click.Context) -> NoReturn:
    ctx.invoke(load(COMMANDS["version"][0]))
    ctx.exit()


def main() -> NoReturn:
    """Entry point: run the command line, leave with its exit code."""
    prepare_streams()
    if COMPLETION in os.environ:
        sys.exit(load("completion:answer")(orchestrate, os.environ[COMPLETION]))
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Run one command line and give its exit code; errors are told on stderr."""
    return guarded(lambda: _invoke(words))


def _invoke(words: Sequence[str]) -> object:
    """What `orchestrate.main` does, without its own ideas about errors and closed pipes."""
    try:
        with orchestrate.make_context("orchestrate", list(words)) as ctx:
            return orchestrate.invoke(ctx)
    except click.exceptions.Exit as leave:  # --help and --version end so
        return leave.exit_code
