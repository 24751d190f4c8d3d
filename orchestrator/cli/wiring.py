"""Constructs the adapters of a run and puts them together: the one place that knows them all.

Also what a run needs to be resumed and is not in its journal: `Session`, one JSON file in the run's
folder, written before the first event.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from pydantic import ValidationError

from orchestrator.agent.transcript import read_transcript
from orchestrator.attempt.perform import Site, perform
from orchestrator.cli.options import Sandbox as SandboxMode
from orchestrator.cli.terminal import note
from orchestrator.core import graph as graphs
from orchestrator.core.base import ObjectId, Record
from orchestrator.core.plan import Plan
from orchestrator.core.roles import Role
from orchestrator.core.usage import Usage
from orchestrator.errors import RepositoryError
from orchestrator.executors.local import LocalExecutor
from orchestrator.gates.runner import GateRunner
from orchestrator.models.script import Script, load_script
from orchestrator.models.scripted import ScriptedModel
from orchestrator.state_folder import RunFolder, StateFolder
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.publish import BranchPublisher
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import Sandbox, choose_sandbox
from orchestrator.workspace.trees import Workspaces

SESSION_FILE = "session.json"
SCRIPT_FILE = "script.yaml"


class Session(Record):
    """What a run was started with, frozen: the files it came from may change under it."""

    repository: str
    """Top of the checkout that the run was started in, or the bare repository."""
    plan: Plan
    """The checked plan, command line included."""
    roles: tuple[Role, ...]
    base: ObjectId
    base_branch: str | None
    script: str | None
    """Text of the scripted model's file."""
    script_name: str
    demo: bool
    """Commands find the interpreter that runs this program."""

    async def save(self, folder: RunFolder) -> None:
        """Write it whole or not at all, durable on return: a resume may be killed here too."""
        await anyio.to_thread.run_sync(self._write, folder)

    def _write(self, folder: RunFolder) -> None:
        path = folder.root / SESSION_FILE
        aside = path.with_suffix(".part")
        with aside.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)

    @classmethod
    async def load(cls, folder: RunFolder) -> Session:
        """Read it. Raises `RepositoryError` when the run's files are gone or damaged."""
        path = anyio.Path(folder.root / SESSION_FILE)
        try:
            return cls.model_validate_json(await path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise RepositoryError(
                f"{path}: cannot be read, so this run cannot go on; start a new one"
            ) from error

    def with_script(self, path: Path) -> Session:
        """The same with another script."""
        text = path.read_text(encoding="utf-8")
        return self.model_copy(update={"script": text, "script_name": path.name})


@dataclass(frozen=True, slots=True)
class Bench:
    """A run's adapters, put together."""

    session: Session
    repository: Repository
    folder: RunFolder
    sandbox: Sandbox
    workspaces: Workspaces
    executor: LocalExecutor
    publisher: BranchPublisher

    async def spent(self, task: str, attempt: int, started: int) -> Usage:
        """What a try has cost, by its transcript; nothing where nobody acted in it."""
        path = self.folder.transcript(task, attempt)
        if not await anyio.Path(path).exists():
            return Usage()
        content = await anyio.to_thread.run_sync(read_transcript, path)
        if content.header is None or content.header.started != started:
            return Usage()  # of a lost try, which was paid for then
        return sum((entry.usage for entry in content.entries if entry.usage), Usage())


@asynccontextmanager
async def open_bench(
    session: Session,
    repository: Repository,
    state_folder: StateFolder,
    run: str,
    sandbox_mode: SandboxMode,
) -> AsyncIterator[Bench]:
    """Open all that a run works with. Raises `RepositoryError` when the machine lacks something."""
    sandbox = await choose_sandbox(sandbox_mode)
    if not sandbox.isolates:
        note(f"warning: {sandbox.describe()}")
    state_folder.create()
    folder = state_folder.run(run)
    folder.create()
    hub = await Hub.open(state_folder.hub, repository)
    workspaces = Workspaces(
        hub,
        state_folder.trees,
        sandbox,
        env={},
        tool_path=_tool_path(repository, session.demo),
    )
    site = Site(
        hub=hub,
        workspaces=workspaces,
        gates=GateRunner(workspaces, folder.outputs, run=run),
        model=ScriptedModel(_script(session, folder)),
        transcripts=folder.transcripts,
        clock=time.monotonic,
    )
    publisher = BranchPublisher(
        hub, repository, run=run, base=session.base, writes=_writes(session.plan, session.roles)
    )
    yield Bench(
        session=session,
        repository=repository,
        folder=folder,
        sandbox=sandbox,
        workspaces=workspaces,
        executor=LocalExecutor(partial(perform, site=site)),
        publisher=publisher,
    )


def _script(session: Session, folder: RunFolder) -> Script:
    """The frozen script; it was checked when the run started."""
    path = folder.root / SCRIPT_FILE
    if session.script is None:
        raise RepositoryError("this run has no script; real models are not supported yet")
    path.write_text(session.script, encoding="utf-8")
    return load_script(path, name=session.script_name)


def _tool_path(repository: Repository, demo: bool) -> list[str]:
    """Where commands look for programs: the repository's environment, then the caller's PATH."""
    folders: list[str] = []
    if demo:
        folders.append(str(Path(sys.executable).parent))
    if repository.top is not None and (repository.top / ".venv" / "bin").is_dir():
        folders.append(str(repository.top / ".venv" / "bin"))
    folders += [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part]
    return list(dict.fromkeys(part for part in folders if os.path.isabs(part)))


def _writes(plan: Plan, roles: Sequence[Role]) -> bool:
    """Whether anything in the plan can change the tree: only then is there a branch."""
    tasks = {task.id: task for task in plan.tasks}
    return bool(
        graphs.carriers(graphs.build(plan.tasks), tasks, {role.name: role for role in roles})
    )
