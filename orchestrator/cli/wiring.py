"""Constructs the adapters of a run and puts them together: the one place that knows them all."""

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

from orchestrator.agent.transcript import usage_of
from orchestrator.attempt.perform import Site, perform
from orchestrator.cli.answers import Answers, open_answers
from orchestrator.cli.keys import hide_keys
from orchestrator.cli.options import Sandbox as SandboxMode
from orchestrator.cli.session_file import Session
from orchestrator.cli.terminal import note
from orchestrator.core import graph as graphs
from orchestrator.core.plan import Plan
from orchestrator.core.roles import Role
from orchestrator.core.usage import Usage
from orchestrator.errors import RepositoryError
from orchestrator.executors.local import LocalExecutor
from orchestrator.gates.runner import GateRunner
from orchestrator.models.clock import Clock
from orchestrator.state_folder import RunFolder, StateFolder
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.publish import BranchPublisher
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import Sandbox, choose_sandbox
from orchestrator.workspace.trees import Workspaces


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
    answers: Answers

    async def spent(self, task: str, attempt: int, started: int) -> Usage:
        """What a try has cost, by its transcript; nothing where nobody acted in it."""
        path = self.folder.transcript(task, attempt)
        return await anyio.to_thread.run_sync(usage_of, path, started)


@asynccontextmanager
async def open_bench(
    session: Session,
    repository: Repository,
    state_folder: StateFolder,
    run: str,
    sandbox_mode: SandboxMode,
    clock: Clock,
    *,
    goes_on: bool = False,
) -> AsyncIterator[Bench]:
    """Open all that a run works with; goes_on: another process began it.

    Raises `RepositoryError` when the machine lacks something.
    """
    source, prices = session.source, session.plan.prices
    async with open_answers(source, clock, prices, goes_on=goes_on) as answers:
        sandbox = await suitable_sandbox(sandbox_mode, session)
        state_folder.create()
        folder = state_folder.run(run)
        folder.create()
        hub = await Hub.open(state_folder.hub, repository)
        workspaces = Workspaces(
            hub,
            state_folder.trees,
            sandbox,
            env={},
            tool_path=tool_path(repository, demo=session.demo),
        )
        site = Site(
            hub=hub,
            workspaces=workspaces,
            gates=GateRunner(workspaces, folder.outputs, run=run),
            model=answers.model,
            transcripts=folder.transcripts,
            clock=time.monotonic,
        )
        yield Bench(
            session=session,
            repository=repository,
            folder=folder,
            sandbox=sandbox,
            workspaces=workspaces,
            executor=LocalExecutor(partial(perform, site=site)),
            publisher=BranchPublisher(
                hub, repository, run=run, base=session.base, writes=_writes(session)
            ),
            answers=answers,
        )


async def suitable_sandbox(mode: SandboxMode, session: Session) -> Sandbox:
    """The level that commands run in; the keys of this process are out of their sight.

    A real model's commands run in none only when that was asked. Raises `RepositoryError`.
    """
    hide_keys()
    sandbox = await choose_sandbox(mode)
    if not sandbox.isolates:
        if mode == "auto" and session.source.real:
            raise RepositoryError(f"{sandbox.describe()}; mend that, or say --sandbox off")
        note(f"warning: {sandbox.describe()}")
    return sandbox


def tool_path(repository: Repository, *, demo: bool = False) -> list[str]:
    """Where commands look for programs: the repository's environment, then the caller's PATH.

    demo: the interpreter that runs this program comes first.
    """
    folders: list[str] = []
    if demo:
        folders.append(str(Path(sys.executable).parent))
    if repository.top is not None and (repository.top / ".venv" / "bin").is_dir():
        folders.append(str(repository.top / ".venv" / "bin"))
    folders += [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part]
    return list(dict.fromkeys(part for part in folders if os.path.isabs(part)))


def _writes(session: Session) -> bool:
    """Whether the run can change the tree: only then is there a branch."""
    plan, roles = session.plan, session.roles
    if session.plan_only:
        return False
    return _plans_first(plan, roles) or bool(
        graphs.carriers(
            graphs.build(plan.tasks),
            {task.id: task for task in plan.tasks},
            {role.name: role for role in roles},
        )
    )


def _plans_first(plan: Plan, roles: Sequence[Role]) -> bool:
    """Whether a planner makes the plan: what it will write is not known yet."""
    planners = {role.name for role in roles if role.product == "patch"}
    return any(task.role in planners for task in plan.tasks)
