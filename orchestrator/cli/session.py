"""Starts and resumes runs: reads everything that can be wrong first, then drives the engine.

    read -> check -> lock -> journal -> engine -> result

Nothing is written, and no branch made, before plan, roles, model, repository and sandbox have all
been found good. A resumed run takes everything from its folder and its journal: the plan file, the
script and the role files may have changed or gone.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import anyio

from orchestrator.attempt.briefing import rules_digests
from orchestrator.cli.answers import Source, refuse_contradictions, source_of
from orchestrator.cli.drive import Display, approvals, drive, report, versions
from orchestrator.cli.land import land_run
from orchestrator.cli.lookup import FoundRun, find_run
from orchestrator.cli.money import check_models
from orchestrator.cli.options import ResumeOptions, RunOptions
from orchestrator.cli.planned import check_output, write_plan
from orchestrator.cli.reading import read_files, read_roles
from orchestrator.cli.session_file import Session
from orchestrator.cli.terminal import note
from orchestrator.cli.wiring import Bench, open_bench
from orchestrator.core.events import AttemptLost, Event, PlanRevised, RunResumed, RunStarted
from orchestrator.core.goals import goal_plan, planner_role
from orchestrator.core.machine import fold
from orchestrator.core.plan import Plan, PlanSettings, TaskDefaults
from orchestrator.core.roles import Role
from orchestrator.core.state import RunState
from orchestrator.errors import ExitCode, UsageError
from orchestrator.journal import Journal
from orchestrator.journal.run_log import RunLog
from orchestrator.models.clock import Clock, RealClock
from orchestrator.observers.text import clean_line
from orchestrator.state_folder import StateFolder, new_run_id, slug
from orchestrator.workspace.repository import Repository

Settings = TypeVar("Settings", bound=PlanSettings)

# The child watcher warns of processes that were reaped elsewhere, such as workers that end with
# the loop: nothing that a person can act on.
logging.getLogger("asyncio").setLevel(logging.ERROR)


def start(options: RunOptions, *, clock: Clock | None = None) -> int:
    """Run a plan from its start; the exit code. Raises `OrchestratorError` before anything ran.

    clock: what waits for a model's server go by; None is the machine's.
    """
    return anyio.run(_start, options, clock or RealClock())


def resume(run: str | None, options: ResumeOptions, *, clock: Clock | None = None) -> int:
    """Go on with a run; the exit code. Raises `OrchestratorError`."""
    return anyio.run(_resume, run, options, clock or RealClock())


async def _start(options: RunOptions, clock: Clock) -> int:
    refuse_contradictions(options)
    check_output(options.output)
    repository = await Repository.open(options.repo or Path.cwd())
    if options.land and repository.head_branch is None:
        raise UsageError(f"--land: {repository.common_dir} is on no branch; `git switch` to one")
    plan, roles = _read(options, repository)
    source = source_of(options)
    source.check()
    if source.real:
        _check_money(plan, roles)
    base = await repository.resolve(options.base or plan.base)
    named = [path for task in plan.tasks for path in task.context]
    for path in await repository.missing(base, named):
        note(f"warning: context: {clean_line(path)} is no file of {base[:12]}; agents are told so")
    session = Session(
        repository=str(repository.top or repository.common_dir),
        plan=plan,
        roles=tuple(roles.values()),
        base=base,
        base_branch=repository.head_branch,
        source=source,
        demo=options.demo,
        plan_only=options.plan_only,
        land=options.land,
    )
    state_folder = StateFolder.for_repository(repository.common_dir)
    run = new_run_id(plan.name, time.time(), secrets.token_hex(2))
    while state_folder.run(run).root.exists():
        run = new_run_id(plan.name, time.time(), secrets.token_hex(2))
    display = Display(json=options.json, plain=options.plain, yes=options.yes)
    state = RunState(run)
    async with open_bench(session, repository, state_folder, run, options.sandbox, clock) as bench:
        with RunLog.acquire(bench.folder, Journal.open(state_folder.database)) as journal:
            await session.save(bench.folder)
            opening = await _opening(bench)
            code = await drive(state, journal, bench, display, opening)
    difference = bench.answers.first_difference
    return await _ended(state, display, code, session, difference, options)


async def _ended(
    state: RunState,
    display: Display,
    code: int,
    session: Session,
    difference: str | None,
    options: RunOptions | ResumeOptions,
) -> int:
    """Print what came of a run, and land it if that was asked when it started; the exit code.

    difference: where a replay first asked something else than its record. Landing that a crash has
    kept back is made up for; it is done once.
    """
    output = options.output if isinstance(options, RunOptions) else None
    _tell_result(state, display, session, output)
    if difference is not None:
        note(clean_line(difference))
    if session.land and code == ExitCode.OK and state.landed is None:
        found = find_run(state.run, options.repo)
        return await land_run(found, sandbox=options.sandbox, quiet=options.json)
    return code


def _check_money(plan: Plan, roles: Mapping[str, Role]) -> None:
    """Say what a real model's run may cost. Raises `UsageError` where a budget cannot be kept."""
    for text in check_models(plan, roles):
        note(f"note: {clean_line(text)}")


async def _resume(prefix: str | None, options: ResumeOptions, clock: Clock) -> int:
    found = find_run(prefix, options.repo)
    session = await Session.load(found.folder)
    source = session.source.changed(options)
    display = Display(json=options.json, plain=options.plain, yes=options.yes)
    repository = await Repository.open(Path(session.repository))
    with RunLog.acquire(found.folder, found.journal) as journal:
        state = fold(found.id, found.events())
        if state.status in ("succeeded", "failed"):
            note(f"run {found.id} has {state.status} already")
            code: int = ExitCode.OK if state.status == "succeeded" else ExitCode.FAILED
            difference = None
        else:
            session = await _with_source(session, source, options, found)
            async with open_bench(
                session,
                repository,
                found.state_folder,
                found.id,
                options.sandbox,
                clock,
                goes_on=True,
            ) as bench:
                await bench.workspaces.sweep(f"{found.id}.")
                note(f"resuming {state.run}")
                opening = await _reopening(state, bench, options)
                code = await drive(state, journal, bench, display, opening)
            difference = bench.answers.first_difference
    return await _ended(state, display, code, session, difference, options)


async def _with_source(
    session: Session, source: Source, options: ResumeOptions, found: FoundRun
) -> Session:
    """The session with where answers come from now, checked and saved. Raises `UsageError`."""
    source.check(goes_on=True)
    if source.real and (source != session.source or options.budget_usd is not None):
        plan = _with_dollars(session.plan, options.budget_usd)
        _check_money(plan, {role.name: role for role in session.roles})
    if source == session.source:
        return session
    session = session.model_copy(update={"source": source})
    await session.save(found.folder)
    return session


def _tell_result(
    state: RunState, display: Display, session: Session, output: Path | None = None
) -> None:
    """Print what came of a run: its plan where that is the result, else the summary."""
    if session.plan_only and state.status == "succeeded":
        write_plan(state, output, display)
    else:
        report(state, display, aside=session.plan_only)


def _read(options: RunOptions, repository: Repository) -> tuple[Plan, dict[str, Role]]:
    """The plan as it will run. Raises one error with the faults of all files together."""

    def tell(text: str) -> None:
        note(clean_line(text))

    if options.plan is None:
        roles = read_roles(
            target=repository.top, roles=options.roles, scripted=options.scripted, note=tell
        )
        if planner_role(roles) is None:
            raise UsageError(
                f"--roles {options.roles}: its planner plans nothing; give it `product: patch`"
            )
        return goal_plan(_settings(options), roles), roles
    files = read_files(
        options.plan,
        target=repository.top,
        roles=options.roles,
        scripted=options.scripted,
        model=options.model,
        note=tell,
    )
    for warning in files.loaded.warnings:
        note(f"warning: {clean_line(str(warning))}")
    return _overridden(files.loaded.plan, options), files.roles


def _settings(options: RunOptions) -> PlanSettings:
    """The settings of a plan that is still to be made."""
    goal = options.goal or ""
    settings = PlanSettings(
        name=slug(goal, "goal"),
        goal=goal,
        defaults=TaskDefaults(model=options.model),
        approve=() if options.yes or options.plan_only else ("plan",),
    )
    return _overridden(settings, options)


def _overridden(plan: Settings, options: RunOptions) -> Settings:
    """The plan with what the command line says over it."""
    changes: dict[str, object] = {}
    if options.workers is not None:
        changes["workers"] = options.workers
    return _with_dollars(plan.model_copy(update=changes), options.budget_usd)


def _with_dollars(plan: Settings, usd: float | None) -> Settings:
    """The plan with another budget in dollars; None leaves its own."""
    if usd is None:
        return plan
    return plan.model_copy(update={"budget": plan.budget.model_copy(update={"usd": usd})})


async def _opening(bench: Bench) -> list[tuple[Event, int | None]]:
    """A run's first events."""
    session = bench.session
    started = RunStarted(
        repository=str(bench.repository.common_dir),
        base=session.base,
        base_branch=session.base_branch,
        settings=session.plan.settings,
        roles=session.roles,
        model=session.source.describe(),
        sandbox=bench.sandbox.name,
        workspace="checkout",
        versions=versions(),
        rules=await rules_digests(bench.repository.reader, session.base),
        plan_only=session.plan_only,
    )
    return [(started, None), (_first(session), 1)]


def _first(session: Session) -> PlanRevised:
    return PlanRevised(by=None, add=session.plan.tasks, why="the plan")


async def _reopening(
    state: RunState, bench: Bench, options: ResumeOptions
) -> list[tuple[Event, int | None]]:
    """The events by which a run goes on: what a dead process left running is lost."""
    if state.started is None:
        return await _opening(bench)
    budget = state.settings.budget.model_copy(update={"usd": options.budget_usd})
    resumed = RunResumed(
        versions=versions(),
        budget=budget if options.budget_usd is not None else None,
        sandbox=bench.sandbox.name,
    )
    events: list[tuple[Event, int | None]] = [(resumed, None)]
    for task in sorted(state.running, key=lambda key: state.tasks[key].index):
        held = state.tasks[task]
        lost = AttemptLost(
            task=task,
            attempt=held.attempt,
            why="the process that ran it has ended",
            interrupted=True,
            usage=await bench.spent(task, held.attempt, held.cause or 0),
        )
        events.append((lost, held.cause))
    if not state.tasks:
        events.append((_first(bench.session), state.seq))
    if options.approve or options.yes:
        events.extend(approvals(list(state.asked)))
    return events
