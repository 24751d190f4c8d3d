"""`logs`: the conversation of a task's agent, as a person reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import click

from orchestrator.agent.transcript import Entry, Header, read_transcript
from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.options import repo_option
from orchestrator.cli.terminal import out, out_style
from orchestrator.errors import UsageError
from orchestrator.journal import holder_of
from orchestrator.messages import Block, OpaqueBlock, TextBlock, ToolResult, ToolUse
from orchestrator.observers.text import Style, clean, clean_line, clip, plural

FOLLOW_SECONDS = 0.3
RESULT_LINES_MAX = 30
ARGUMENT_CHARS_MAX = 300


@click.command()
@click.argument("run")
@click.argument("task")
@repo_option
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Default: the newest.")
@click.option("-f", "--follow", is_flag=True, help="Go on while the run is live.")
@click.option("--full", is_flag=True, help="Whole results, not their first lines.")
@click.option("--plain", is_flag=True, help="No colour.")
def logs(
    run: str,
    task: str,
    repo: Path | None,
    attempt: int | None,
    follow: bool,
    full: bool,
    plain: bool,
) -> None:
    """What the agent of TASK in RUN said and did."""
    found = find_run(run, repo)
    path = _transcript(found, task, attempt)
    anyio.run(
        _show, found, path, follow, out_style(plain=plain), None if full else RESULT_LINES_MAX
    )


def _transcript(found: FoundRun, task: str, attempt: int | None) -> Path:
    """The file of the attempt. Raises `UsageError` that says what there is."""
    attempts: dict[str, list[int]] = {}
    for path in found.folder.transcripts.glob("*.jsonl"):
        if match := re.fullmatch(r"([a-z0-9-]+)\.([0-9]+)\.jsonl", path.name):
            attempts.setdefault(match[1], []).append(int(match[2]))
    if task not in attempts:
        known = ", ".join(sorted(attempts)) or "none"
        raise UsageError(f"run {found.id} has no conversation of {task!r}; there are: {known}")
    wanted = attempt if attempt is not None else max(attempts[task])
    if wanted not in attempts[task]:
        held = ", ".join(map(str, sorted(attempts[task])))
        raise UsageError(
            f"no agent spoke in attempt {wanted} of {task}; there are conversations of {held}"
        )
    return found.folder.transcript(task, wanted)


async def _show(
    found: FoundRun, path: Path, follow: bool, style: Style, lines_max: int | None
) -> None:
    """Print what is there and, when following, what comes while the run is live."""
    shown = 0
    while True:
        live = follow and holder_of(found.folder) is not None
        content = await anyio.to_thread.run_sync(read_transcript, path)
        if shown == 0 and content.header is not None:
            out([style.dim(_header(content.header))])
        for entry in content.entries[shown:]:
            out(_entry(entry, style, lines_max))
        shown = len(content.entries)
        if not live:
            return
        await anyio.sleep(FOLLOW_SECONDS)


def _header(header: Header) -> str:
    tools = ", ".join(header.tools)
    return clean_line(f"{header.task} #{header.attempt}, {header.model}, tools: {tools}")


def _entry(entry: Entry, style: Style, lines_max: int | None) -> Iterator[str]:
    """One message: who speaks, then its blocks."""
    yield ""
    usage = f" ({plural(entry.usage.tokens, 'token')})" if entry.usage is not None else ""
    who = "agent" if entry.message.role == "assistant" else "harness"
    yield style.dim(f"--- {who}{usage}")
    for block in entry.message.blocks:
        yield from _block(block, style, lines_max)


def _block(block: Block, style: Style, lines_max: int | None) -> Iterator[str]:
    match block:
        case TextBlock():
            yield from clean(block.text).splitlines()
        case ToolUse():
            arguments = json.dumps(block.input, ensure_ascii=False)
            if lines_max is not None:
                arguments = clip(arguments, ARGUMENT_CHARS_MAX)
            yield style.good(f"> {clean_line(block.name)} {clean(arguments)}")
        case ToolResult():
            lines = clean(block.content).splitlines()
            shown = [f"| {line}" for line in lines[:lines_max]]
            yield from (style.bad(line) if block.is_error else line for line in shown)
            if len(lines) > len(shown):
                yield style.dim(f"| ({plural(len(lines) - len(shown), 'more line')}; --full)")
        case OpaqueBlock():
            yield style.dim(f"[{clean_line(str(block.raw.get('type', 'unknown')))}]")
