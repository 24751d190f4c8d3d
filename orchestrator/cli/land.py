"""`land`: a run's result into the branch that the run started from.

    the branch stands where the result can follow it     moved forward, its checkout with it
    it has moved on since                                merged, the run's gates again, then moved
    red, or a conflict                                   nothing is moved, exit 1
    changes in the checkout, a branch that is gone, ...  nothing is written, exit 3, and the command

What lands is the commit that the journal says the gates passed on, whatever the run's branch has
become. The event `Landed` is written last: landing again after a crash finds the work done.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import click

from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.options import Sandbox as SandboxMode
from orchestrator.cli.options import repo_option, sandbox_option
from orchestrator.cli.session_file import Session
from orchestrator.cli.terminal import note, out
from orchestrator.cli.wiring import suitable_sandbox, tool_path
from orchestrator.core.events import EVENT, GateRecord, Landed, StoredEvent
from orchestrator.core.graph import writes_of
from orchestrator.core.machine import fold, result_task
from orchestrator.core.plan import Gate
from orchestrator.core.state import RunState
from orchestrator.errors import ExitCode, InfrastructureError, RepositoryError, UsageError
from orchestrator.gates.runner import GateRunner
from orchestrator.journal import RunLog
from orchestrator.observers.text import clean_line, plural, tail
from orchestrator.workspace.checkout import listed
from orchestrator.workspace.hub import Conflict, Hub
from orchestrator.workspace.landing import (
    Proposal,
    Target,
    find_target,
    is_ancestor,
    propose,
)
from orchestrator.workspace.repository import BRANCH_FOLDER, Repository
from orchestrator.workspace.trees import Workspaces

TRIES_MAX = 3
"""How often a branch that moves while it is being landed on is looked at anew."""
SUBJECT_CHARS = 72
TAIL_LINES_MAX = 12


@click.command()
@click.argument("run", required=False)
@repo_option
@sandbox_option("How gates are kept in, if they have to run again.")
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON document.")
def land(run: str | None, repo: Path | None, sandbox: SandboxMode, as_json: bool) -> int:
    """Bring the result of RUN (default: the newest) into the branch that it started from."""
    found = find_run(run, repo)
    return anyio.run(partial(land_run, found, sandbox=sandbox, as_json=as_json))


async def land_run(
    found: FoundRun, *, sandbox: SandboxMode = "auto", as_json: bool = False, quiet: bool = False
) -> int:
    """Land a finished run that nobody holds; the exit code.

    quiet: stdout is somebody else's, so what was landed is told on stderr. Raises `LockedError`
    while another process has the run, `UsageError` for a run that has nothing to land, and
    `RepositoryError`, with the command that does it by hand, where the repository is not ready.
    """
    with RunLog.acquire(found.folder, found.journal) as log:
        events = found.events()
        landing = _Landing(found, fold(found.id, events), sandbox)
        try:
            done = await landing.run()
        except (RepositoryError, UsageError, InfrastructureError) as error:
            if landing.by_hand:
                raise type(error)(f"{error}; or by hand: {landing.by_hand}") from error
            raise
        if done is None:
            note(f"nothing was changed; by hand: {landing.by_hand}")
            return ExitCode.FAILED
        if done.before != done.commit or not _is_known(events, done):
            await log.append([(done, None)])
    for line in _told(landing.state, done, as_json):
        note(line) if quiet else out([line])
    return ExitCode.OK


def _is_known(events: Sequence[StoredEvent], done: Landed) -> bool:
    """Whether the journal says already that the run is in this branch."""
    bodies = [event.body for event in events]
    return any(isinstance(body, Landed) and body.branch == done.branch for body in bodies)


def _told(state: RunState, done: Landed, as_json: bool) -> Iterator[str]:
    """What was landed where."""
    if as_json:
        event = EVENT.dump_python(done, mode="json", by_alias=True)
        yield json.dumps({**event, "type": "landed", "run": state.run})
        return
    what, where = f"{BRANCH_FOLDER}/{state.run}", clean_line(done.branch)
    if done.before == done.commit:
        yield f"{what} is in {where} already, at {done.commit[:12]}"
        return
    how = "moved forward" if done.commit == state.commit else "merged"
    yield f"landed {what} in {where}: {how} from {done.before[:12]} to {done.commit[:12]}"
    if done.gates:
        names = ", ".join(clean_line(gate.name) for gate in done.gates)
        yield f"gates passed again on the merge: {names}"


@dataclass(slots=True)
class _Landing:
    """One run on its way into its branch."""

    found: FoundRun
    state: RunState
    mode: SandboxMode
    what: str = ""
    """What there is to merge: the run's branch, or the commit where that is gone."""
    switch: str = ""
    """The branch that would have to be checked out first; empty where it is."""

    @property
    def by_hand(self) -> str:
        """The command that a person can type instead; empty where there is nothing to merge."""
        first = f"git switch {shlex.quote(self.switch)} && " if self.switch else ""
        return f"{first}git merge {self.what}" if self.what else ""

    async def run(self) -> Landed | None:
        """What was landed; None where gates or a conflict stood in the way, which was told."""
        branch, result = self._wanted()
        session = await Session.load(self.found.folder)
        repository = await self._repository(session)
        await self._check_branch(repository, result)
        hub = await Hub.open(self.found.state_folder.hub, repository)
        for _ in range(TRIES_MAX):
            target = await find_target(repository, branch)
            self.switch = branch if target.checkout is None else ""
            if await is_ancestor(hub, result, target.commit):
                return Landed(branch=branch, before=target.commit, commit=target.commit)
            await target.check()
            proposal = await propose(
                hub,
                target,
                result,
                message=self._message(branch),
                date=int(self.state.started_at),
            )
            if isinstance(proposal, Conflict):
                _tell_conflict(proposal, branch, self.state.run)
                return None
            records: tuple[GateRecord, ...] = ()
            if proposal.merges:
                records = await self._verify(hub, session, target, proposal)
                if not all(record.passed for record in records):
                    _tell_red(records, branch)
                    return None
                await target.check()  # gates take their time
            if proposal.merges or self.what != self.state.branch:  # else it is there already
                await hub.send(repository, proposal.commit)
            if await target.advance(proposal.commit, run=self.state.run):
                return Landed(
                    branch=branch, before=target.commit, commit=proposal.commit, gates=records
                )
        raise RepositoryError(
            f"{repository.common_dir}: `{branch}` is being moved all the time; land again later"
        )

    def _wanted(self) -> tuple[str, str]:
        """The branch to land in and the commit to land. Raises `UsageError` without them."""
        state = self.state
        self.what = state.branch or ""
        if state.status != "succeeded":
            if state.status == "failed":
                raise UsageError(f"run {state.run} has failed, so it is not landed")
            raise UsageError(
                f"run {state.run} is not finished, so it is not landed;"
                f" `orchestrate resume {state.run}` goes on with it"
            )
        if state.commit is None or state.started is None:
            raise UsageError(f"run {state.run} integrated nothing, so there is nothing to land")
        if state.started.base_branch is None:
            raise UsageError(f"run {state.run} started on no branch, so there is none to land in")
        return state.started.base_branch, state.commit

    async def _repository(self, session: Session) -> Repository:
        """The run's repository, from the checkout that it was started in if that is still there."""
        top = Path(session.repository)
        if not await anyio.Path(top).is_dir() and self.state.started is not None:
            top = Path(self.state.started.repository)
        return await Repository.open(top)

    async def _check_branch(self, repository: Repository, result: str) -> None:
        """Refuse where somebody has put more on the run's branch than its gates have seen."""
        here = await repository.branch(self.state.run)
        if here is None:
            self.what = result
        elif here != result:
            raise RepositoryError(
                f"{repository.common_dir}: {self.state.branch} is at {here[:12]}, not at "
                f"{result[:12]}, which is what the run's gates have passed"
            )

    def _message(self, branch: str) -> str:
        """Message of the merge, made of nothing but names."""
        subject = f"Merge {BRANCH_FOLDER}/{self.state.run} into {branch}"
        made = result_task(self.state)
        trailers = [f"Orchestrate-Run: {self.state.run}"]
        if made is not None:
            trailers += [f"Orchestrate-Task: {made.id}", f"Orchestrate-Attempt: {made.attempt}"]
        short = textwrap.shorten(subject, width=SUBJECT_CHARS, placeholder=" ...")
        return "\n".join([short, "", *trailers, ""])

    async def _verify(
        self, hub: Hub, session: Session, target: Target, proposal: Proposal
    ) -> tuple[GateRecord, ...]:
        """Run the run's gates on a merge that nobody has tried yet, up to the first red one."""
        gates, name = landing_gates(self.state), clean_line(target.branch)
        if not gates:
            note(f"warning: {name} has moved on, and the plan has no gate for the merge")
            return ()
        sandbox = await suitable_sandbox(self.mode, session)
        note(f"{name} has moved on: running {plural(len(gates), 'gate')} on the merge")
        workspaces = Workspaces(
            hub,
            self.found.state_folder.trees,
            sandbox,
            env={},
            tool_path=tool_path(target.repository, demo=session.demo),
        )
        await workspaces.sweep(f"{self.state.run}.")
        runner = GateRunner(workspaces, self.found.folder.outputs, run=self.state.run)
        before = (target.commit, await hub.tree_of(target.commit))
        records: list[GateRecord] = []
        for gate, env in gates:
            records += await runner.verify(
                [gate], commit=proposal.commit, tree=proposal.tree, base=before, env=env
            )
            if not records[-1].passed:
                break
        return tuple(records)


def landing_gates(state: RunState) -> tuple[tuple[Gate, dict[str, str]], ...]:
    """The gates that a run's result has passed, each once, with the variables they ran with.

    The plan's own and those of the task that made the result; a task that only hands on what its
    one need made shares its tree, and so that one's gates.
    """
    found: list[tuple[Gate, dict[str, str]]] = []
    task = result_task(state)
    while task is not None:
        found += [(gate, task.task.env) for gate in task.task.gates]
        one = len(task.task.needs) == 1 and not writes_of(task.task, state.roles)
        task = state.tasks[task.task.needs[0]] if one else None
    seen = [gate for gate, _ in found]
    found += [(gate, state.settings.env) for gate in state.settings.gates if gate not in seen]
    return tuple(found)


def _tell_conflict(conflict: Conflict, branch: str, run: str) -> None:
    paths = listed([entry.path for entry in conflict.entries])
    what = f"{BRANCH_FOLDER}/{run} conflicts with it in {paths}"
    note(clean_line(f"{branch} has moved on, and {what}"))


def _tell_red(records: Sequence[GateRecord], branch: str) -> None:
    """Which gate, whose fault it seems to be, and the end of what it said."""
    red = records[-1]
    alone = "passes" if red.base == "passed" else "is red"
    note(
        clean_line(
            f"{branch} has moved on, and gate {red.name} is red on the merge (it {alone} without "
            "the run)"
        )
    )
    for line in tail(red.tail, TAIL_LINES_MAX):
        note(f"| {line}")
