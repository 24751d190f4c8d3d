"""Where a run's answers come from: a script, a record of an earlier run, or a server.

What is chosen here is kept in the run's session file, so that `resume` asks the same place again;
keys are not: they are read from the environment each time. The modules that talk to a server are
imported only when one is asked, since they take seconds.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from orchestrator.cli.options import ResumeOptions, RunOptions
from orchestrator.cli.terminal import note_aside
from orchestrator.core.base import Record
from orchestrator.core.plan import ModelPrice
from orchestrator.errors import UsageError
from orchestrator.models.clock import Clock
from orchestrator.models.script import load_script, read_script
from orchestrator.models.scripted import ScriptedModel
from orchestrator.models.servers import server_of
from orchestrator.observers.text import clean_line
from orchestrator.ports import Model


class Source(Record):
    """Where answers come from. Holds no secret."""

    script: str | None = None
    """Text of a scripted model's file, frozen when the run started."""
    script_name: str = ""
    base_url: str | None = None
    """The server as `--base-url` named it; None is what the environment says."""
    record: str | None = None
    """Absolute path of the file that exchanges are kept in."""
    replay: str | None = None
    """Absolute path of a record that stands in for the model."""

    @property
    def real(self) -> bool:
        """Whether a server is asked, which costs money and needs a key."""
        return self.script is None and self.replay is None

    def describe(self) -> str:
        """What reports and the journal say."""
        if self.script is not None:
            return f"scripted:{self.script_name}"
        if self.replay is not None:
            return f"replay:{Path(self.replay).name}"
        return server_of(self.base_url, os.environ).describe()

    def check(self, *, goes_on: bool = False) -> None:
        """Raise `UsageError` where nothing could answer: no key, a bad URL, no such record.

        goes_on: the run was begun by another process, and so was its record.
        """
        if self.real:
            server_of(self.base_url, os.environ)
        if self.record is not None:
            _check_record(Path(self.record), goes_on=goes_on)
        if self.replay is not None:
            _load("exchanges:check_recording")(Path(self.replay))

    def changed(self, options: ResumeOptions) -> Source:
        """The same with what the command line of `resume` says. Raises `UsageError`."""
        _refuse_two_models(options)
        if options.scripted is not None:
            load_script(options.scripted)
            return Source(**_script(options.scripted), record=self.record)
        if options.base_url is not None:
            return Source(base_url=options.base_url, record=self.record)
        return self


def _refuse_two_models(options: RunOptions | ResumeOptions, replay: Path | None = None) -> None:
    """Raise `UsageError` where the command line names more than one source of answers."""
    given = [
        name
        for name, value in (
            ("--scripted", options.scripted),
            ("--replay", replay),
            ("--base-url", options.base_url),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} name different models; give one of them")


def refuse_contradictions(options: RunOptions) -> None:
    """Raise `UsageError` where options that say where answers come from exclude each other."""
    _refuse_two_models(options, options.replay)
    if options.record is not None and options.replay is not None:
        raise UsageError("--record and --replay cannot go together: a replay asks nobody")


def _check_record(path: Path, *, goes_on: bool) -> None:
    """Raise `UsageError` where nothing can be recorded, before the run has left a trace.

    What remains to be found out is told when the file is opened.
    """
    if not os.path.isdir(path.parent):
        raise UsageError(f"--record {path}: there is no such folder")
    if os.path.isdir(path):
        raise UsageError(f"--record {path}: a folder; name a file in it")
    if not goes_on and os.path.isfile(path) and os.path.getsize(path):
        raise UsageError(f"--record {path}: holds something already; name a new file, or remove it")


def source_of(options: RunOptions) -> Source:
    """What the command line asks for; its script, if any, has been checked."""
    return Source(
        **(_script(options.scripted) if options.scripted is not None else {}),
        base_url=options.base_url,
        record=str(options.record.absolute()) if options.record is not None else None,
        replay=str(options.replay.absolute()) if options.replay is not None else None,
    )


def _script(path: Path) -> dict[str, str]:
    """The text of a script that has been checked, and its name."""
    if not path.is_file():
        raise UsageError(f"--scripted {path}: can be read only once; name a regular file")
    return {"script": path.read_text(encoding="utf-8"), "script_name": path.name}


@dataclass(frozen=True, slots=True)
class Answers:
    """An open source of answers."""

    model: Model
    replay: Any = None
    """The replaying model, which knows where the run first differed from its record."""

    @property
    def first_difference(self) -> str | None:
        """Where a replayed run first asked something else than its record; None where nowhere."""
        found: str | None = self.replay.first_difference if self.replay is not None else None
        return found


@asynccontextmanager
async def open_answers(
    source: Source,
    clock: Clock,
    prices: Mapping[str, ModelPrice],
    *,
    goes_on: bool,
) -> AsyncIterator[Answers]:
    """The model that answers while the context is open.

    goes_on: the run was begun by another process, and so was its record. Raises `UsageError`.
    """
    if source.replay is not None:
        path = Path(source.replay)
        recording = await anyio.to_thread.run_sync(_load("exchanges:read_recording"), path)
        replay = _load("replay:ReplayModel")(recording, path)
        yield Answers(replay, replay)
        return
    if source.script is not None:
        script = ScriptedModel(read_script(source.script, source.script_name))
        async with _recorded(script, source.record, goes_on) as model:
            yield Answers(model)
        return
    server = server_of(source.base_url, os.environ)
    opened = _load("connect:open_model")(
        server,
        os.environ,
        clock=clock,
        prices=prices,
        tell=lambda text: note_aside(clean_line(text)),
    )
    async with opened as asked, _recorded(asked, source.record, goes_on) as model:
        yield Answers(model)


@asynccontextmanager
async def _recorded(model: Model, path: str | None, goes_on: bool) -> AsyncIterator[Model]:
    """The same model, its answers kept in a file if one is named."""
    if path is None:
        yield model
        return
    recording = await _load("recording:RecordingModel").open(model, Path(path), goes_on=goes_on)
    try:
        yield recording
    finally:
        with anyio.CancelScope(shield=True):
            await recording.close()


def _load(target: str) -> Any:
    """The attribute that `module:attribute` of `orchestrator.models` names, imported now."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(f"orchestrator.models.{module}"), attribute)
