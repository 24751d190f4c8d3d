"""`cost`: what a run has cost so far, from its journal and the transcripts of its agents."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

import click

from orchestrator.agent.transcript import read_transcript
from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.options import repo_option
from orchestrator.cli.terminal import out, out_style
from orchestrator.core.machine import fold
from orchestrator.core.plan import ModelPrice
from orchestrator.journal import holder_of
from orchestrator.models.prices import price
from orchestrator.observers.cost import Price, Talk, cost_lines, cost_record, tries


@click.command()
@click.argument("run", required=False)
@repo_option
@click.option("--json", "as_json", is_flag=True, help="The account as one JSON document.")
@click.option("--plain", is_flag=True, help="No colour.")
def cost(run: str | None, repo: Path | None, as_json: bool, plain: bool) -> None:
    """What RUN (default: the newest) has cost so far: by try, role and kind of token."""
    found = find_run(run, repo)
    # Asked before reading, so that a try whose end is not journaled yet is not called interrupted.
    live = holder_of(found.folder) is not None
    events = found.events()
    state = fold(found.id, events)
    talks = _talks(found, state.settings.prices)
    account = tries(state, events, talks, live=live)
    if as_json:
        out([json.dumps(cost_record(state, account))])
    else:
        out(cost_lines(state, account, out_style(plain=plain)))


def _talks(found: FoundRun, own: Mapping[str, ModelPrice]) -> dict[int, Talk]:
    """What each try's transcript says of its cost, by `seq` of the event that began the try."""
    known: Price = functools.partial(price, own=own)
    talks: dict[int, Talk] = {}
    for path in sorted(found.folder.transcripts.glob("*.jsonl")):
        try:
            content = read_transcript(path)
        except OSError:
            continue  # taken away just now: the journal knows what it cost
        if content.header is None:
            continue
        talk = talks.setdefault(content.header.started, Talk())
        for entry in content.entries:
            if entry.usage is not None:
                talk.add(entry.model or content.header.model, entry.usage, known)
        if content.spent.tokens:
            talk.add(content.header.model, content.spent, known)
        if not talk.models:
            talk.models[content.header.model] = None
    return talks
