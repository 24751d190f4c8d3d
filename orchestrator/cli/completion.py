"""`completion`: scripts that make shells complete `orchestrate`, and the answers to what they ask.

The scripts and the protocol are click's. On each Tab the shell starts the program with a variable
set; `main` then comes here and runs nothing else. An answer is quick (no module is imported but
that of the command at hand, nothing is read but names of files), writes nothing, and never fails:
where something is wrong there is nothing to offer.

What arguments are is known by their names, the same in all commands: `plan`, `run`, `task`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from orchestrator.cli.main import COMPLETION
from orchestrator.cli.plans import bundled_plans
from orchestrator.cli.terminal import out
from orchestrator.state_folder import state_home

PROGRAM = "orchestrate"
SHELLS = ("bash", "zsh", "fish")
OFFERED_MAX = 200

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""What is offered: bash would expand other characters."""
_PLAN_FILES = ("*.yaml", "*.yml")

Items = list[CompletionItem[str]]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    bash: `eval "$(orchestrate completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc, after
    compinit. fish: `orchestrate completion fish > ~/.config/fish/completions/orchestrate.fish`.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    out([kind(ctx.find_root().command, {}, PROGRAM, COMPLETION).source().rstrip("\n")])


def answer(group: click.Command, instruction: str) -> int:
    """Answer a shell's question on stdout; the exit code, which no shell looks at."""
    try:
        if not instruction.endswith("_complete"):
            return 1
        return shell_complete(group, {}, PROGRAM, COMPLETION, instruction)
    except BaseException:  # noqa: BLE001 - an error would end up in somebody's command line
        return 1


class _Offered(click.ParamType[str]):
    """Text of which some values are known."""

    name = "text"

    def __init__(self, offer: Callable[[click.Context], Iterable[str]], *, files: bool) -> None:
        self._offer = offer
        self._files = files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        """Those that begin so; files where there are none, or where a path is being written."""
        found = [] if "/" in incomplete else _items(self._offer(ctx), incomplete)
        return found or ([CompletionItem(incomplete, type="file")] if self._files else [])


def teach(command: click.Command) -> click.Command:
    """Let the arguments of `command` offer what they are known to be."""
    for param in command.params:
        if isinstance(param, click.Argument) and param.type is click.STRING:
            param.type = _ARGUMENTS.get(param.name, param.type)
    return command


def words(first: Iterable[tuple[str, str]], incomplete: str) -> Items:
    """What a command line can begin with: commands, with their help, and plans."""
    commands = [
        CompletionItem(name, help=text) for name, text in first if name.startswith(incomplete)
    ]
    plans = [] if "/" in incomplete else _items(plan_names(), incomplete)
    return [*commands, *plans] or [CompletionItem(incomplete, type="file")]


def plan_names() -> Iterator[str]:
    """Plan files of the working folder, then the bundled plans."""
    for pattern in _PLAN_FILES:
        yield from sorted(path.name for path in Path().glob(pattern))
    yield from bundled_plans()


def _run_ids(_: click.Context) -> Iterator[str]:
    """Ids of all runs there are, the newest first."""
    yield from (path.name for path in _runs())


def _runs() -> list[Path]:
    """Folders of runs, the newest first."""
    return sorted(
        state_home().glob("*/runs/*"), key=lambda path: path.stat().st_mtime, reverse=True
    )


def _tasks(ctx: click.Context) -> Iterator[str]:
    """Tasks of the run that was written before, or of the newest, that had an agent."""
    prefix = ctx.params.get("run") or ""
    for path in _runs():
        if path.name.startswith(prefix):
            yield from sorted(
                {file.name.split(".")[0] for file in path.glob("transcripts/*.jsonl")}
            )
            return


def _items(offered: Iterable[str], incomplete: str) -> Items:
    """Those that begin so and that no shell will expand."""
    known = dict.fromkeys(text for text in offered if text.startswith(incomplete))
    return [CompletionItem(text) for text in known if _SAFE.fullmatch(text)][:OFFERED_MAX]


_ARGUMENTS: dict[str | None, _Offered] = {
    "plan": _Offered(lambda _: plan_names(), files=True),
    "run": _Offered(_run_ids, files=False),
    "task": _Offered(_tasks, files=False),
}
