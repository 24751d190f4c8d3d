"""Starts and resumes runs: reads everything that can be wrong first, then drives the engine.

    read -> check -> lock -> journal -> engine -> result

Nothing is written, and no branch made, before plan, roles, script, repository and sandbox have all
been found good. A resumed run takes everything from its folder and its journal: the plan file, the
script and the role files may have changed or gone.
"""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from orchestrator import __version__
from orchestrator.cli.lookup import find_run
from orchestrator.cli.options import ResumeOptions, RunOptions
from orchestrator.cli.patient import PatientStream
from orchestrator.cli.reading import read_files
from orchestrator.cli.terminal import err_style, note, out, out_style
from orchestrator.cli.wiring import Bench, Session, open_bench
from orchestrator.core.base import ObjectId
from orchestrator.core.events import Event, PlanRevised, RunResumed, RunStarted
from orchestrator.core.machine import fold
from orchestrator.core.plan import Plan
from orchestrator.core.roles import Role
from orchestrator.core.state import RunState
from orchestrator.engine.engine import Engine
from orchestrator.errors import ExitCode, UsageError
from orchestrator.journal import Journal
from orchestrator.journal.run_log import RunLog
from orchestrator.models.script import load_script
from orchestrator.observers.jsonlines import json_lines, write_result
from orchestrator.observers.lines import line_printer
from orchestrator.observers.products import product_files
from orchestrator.observers.summary import resume_command, summary_lines
from orchestrator.observers.text import clean_line
from orchestrator.ports import Observer
from orchestrator.state_folder import StateFolder, new_run_id
from orchestrator.workspace.repository import Repository

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run in good order."""


# The child watcher warns of processes that were reaped elsewhere, such as workers that end with
# the loop: nothing that a person can act on.
logging.getLogger("asyncio").setLevel(logging.ERROR)


def start(options: RunOptions) -> int:
    """Run a plan from its start; the exit code. Raises `OrchestratorError` before anything ran."""
    return anyio.run(_start, options)


def resume(run: str | None, options: ResumeOptions) -> int:
    """Go on with a run; the exit code. Raises `OrchestratorError`."""
    return anyio.run(_resume, run, options)


async def _start(options: RunOptions) -> int:
    repository = await Repository.open(options.repo or Path.cwd())
    plan, roles = _read(options, repository)
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
        script=options.scripted.read_text(encoding="utf-8") if options.scripted else None,
        script_name=options.scripted.name if options.scripted else "",
        demo=options.demo,
    )
    state_folder = StateFolder.for_repository(repository.common_dir)
    run = new_run_id(plan.name, time.time(), secrets.token_hex(2))
    while state_folder.run(run).root.exists():
        run = new_run_id(plan.name, time.time(), secrets.token_hex(2))
    async with open_bench(session, repository, state_folder, run, options.sandbox) as bench:
        state_folder.create()
        with RunLog.acquire(bench.folder, Journal.open(state_folder.database)) as journal:
            await session.save(bench.folder)
            return await _drive(RunState(run), journal, bench, options.json, options.plain)


async def _resume(prefix: str | None, options: ResumeOptions) -> int:
    found = find_run(prefix, options.repo)
    session = await Session.load(found.folder)
    if options.scripted is not None:
        load_script(options.scripted)
        session = session.with_script(options.scripted)
    repository = await Repository.open(Path(session.repository))
    with RunLog.acquire(found.folder, found.journal) as journal:
        state = fold(found.id, found.events())
        if state.status in ("succeeded", "failed"):
            note(f"run {found.id} has {state.status} already")
            return _report(state, options.json, options.plain)
        if options.scripted is not None:
            await session.save(found.folder)
        async with open_bench(
            session, repository, found.state_folder, found.id, options.sandbox
        ) as bench:
            await bench.workspaces.sweep(f"{found.id}.")
            return await _drive(
                state, journal, bench, options.json, options.plain, options.budget_usd
            )


def _read(options: RunOptions, repository: Repository) -> tuple[Plan, dict[str, Role]]:
    """The plan as it will run. Raises one error with the faults of all files together."""
    if options.scripted is None:
        raise UsageError(
            "no model: real models are not supported yet; name a script with --scripted FILE"
        )
    files = read_files(
        options.plan,
        target=repository.top,
        roles=options.roles,
        scripted=options.scripted,
        model=options.model,
        note=lambda text: note(clean_line(text)),
    )
    for warning in files.loaded.warnings:
        note(f"warning: {clean_line(str(warning))}")
    return _overridden(files.loaded.plan, options), files.roles


def _overridden(plan: Plan, options: RunOptions) -> Plan:
    """The plan with what the command line says over it."""
    changes: dict[str, object] = {}
    if options.workers is not None:
        changes["workers"] = options.workers
    if options.budget_usd is not None:
        changes["budget"] = plan.budget.model_copy(update={"usd": options.budget_usd})
    return plan.model_copy(update=changes)


async def _drive(
    state: RunState,
    journal: RunLog,
    bench: Bench,
    as_json: bool,
    plain: bool,
    budget_usd: float | None = None,
) -> int:
    """Take a run from its state to its end, a pause or a signal; the exit code."""
    style = err_style(plain=plain)
    streams = [PatientStream(sys.stderr), *([PatientStream(sys.stdout)] if as_json else [])]
    observers: list[Observer] = [product_files(bench.folder), line_printer(streams[0], style)]
    observers += [json_lines(stream) for stream in streams[1:]]
    engine = Engine(state, journal, bench.executor, bench.publisher, observers, bench.spent)
    try:
        async with _interrupts(engine) as caught:
            await _open_run(engine, bench, budget_usd)
            await bench.publisher.pin()
            await engine.run()
    finally:  # what was said before an error is read before it
        for stream in streams:
            await anyio.to_thread.run_sync(stream.close)
    code = _report(state, as_json, plain)
    if state.status != "paused":
        return code
    note(f"run {state.run} is paused ({clean_line(state.pause)}); go on: {resume_command(state)}")
    return 128 + caught[0] if caught else ExitCode.PAUSED


async def _open_run(engine: Engine, bench: Bench, budget_usd: float | None) -> None:
    """Journal that the run starts or goes on, and what a dead process left running as lost."""
    state, session = engine.state, bench.session
    versions = {"orchestrate": __version__, "python": sys.version.split()[0]}
    if state.started is None:
        await engine.append([(_run_started(bench, versions), None)])
    else:
        note(f"resuming {state.run}")
        budget = state.settings.budget.model_copy(update={"usd": budget_usd})
        resumed = RunResumed(
            versions=versions,
            budget=budget if budget_usd is not None else None,
            sandbox=bench.sandbox.name,
        )
        events: list[tuple[Event, int | None]] = [(resumed, None)]
        for task in sorted(state.running, key=lambda key: state.tasks[key].index):
            held = state.tasks[task]
            lost = await engine.lost(task, held.attempt, "the process that ran it has ended")
            events.append((lost, held.cause))
        await engine.append(events)
    if not state.tasks:
        first = PlanRevised(by=None, add=session.plan.tasks, why="the plan")
        await engine.append([(first, state.seq)])


def _run_started(bench: Bench, versions: dict[str, str]) -> RunStarted:
    session = bench.session
    base: ObjectId = session.base
    return RunStarted(
        repository=str(bench.repository.common_dir),
        base=base,
        base_branch=session.base_branch,
        settings=session.plan.settings,
        roles=session.roles,
        model=f"scripted:{session.script_name}",
        sandbox=bench.sandbox.name,
        workspace="checkout",
        versions=versions,
    )


@asynccontextmanager
async def _interrupts(engine: Engine) -> AsyncIterator[Sequence[int]]:
    """While inside, a signal pauses the run and does not end the process; gives what came."""
    caught: list[int] = []
    wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    async def listen() -> None:
        with anyio.open_signal_receiver(*wanted) as signals:
            started.set()
            async for number in signals:
                if not caught:
                    note(f"{number.name}: ending the agents; what has finished is kept")
                caught.append(int(number))
                engine.interrupt(number.name)

    started = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        await started.wait()
        yield caught
        group.cancel_scope.cancel()


def _report(state: RunState, as_json: bool, plain: bool) -> int:
    """Print the result; the exit code that goes with it."""
    if as_json:
        write_result(sys.stdout, state)
    else:
        out(summary_lines(state, out_style(plain=plain)))
    return ExitCode.OK if state.status == "succeeded" else ExitCode.FAILED
