"""`check`: reads a plan as a run would, says all that is wrong, shows what would happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import click

from orchestrator.cli.context import context_lines, missing_context
from orchestrator.cli.lookup import checkout_of, common_dir
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.plans import plan_path
from orchestrator.cli.reading import read_files
from orchestrator.cli.terminal import note, out
from orchestrator.core.graph import build, critical_path
from orchestrator.core.plan import Plan, RunBudget, Task
from orchestrator.core.roles import Role
from orchestrator.observers.summary import table
from orchestrator.observers.text import clean_line, plural

CELL_CHARS_MAX = 60


@click.command()
@click.argument("plan")
@repo_option
@click.option("--roles", type=NAMED_FILE, metavar="DIR", help="A folder of role files.")
@click.option("--scripted", type=NAMED_FILE, metavar="FILE", help="Check this script too.")
@click.option("--context", is_flag=True, help="Tokens of what each agent is told at first.")
def check(
    plan: str, repo: Path | None, roles: Path | None, scripted: Path | None, context: bool
) -> None:
    """Say everything that is wrong with PLAN; run nothing, call no model."""
    folder = repo or Path()
    files = read_files(
        plan_path(plan),
        target=checkout_of(folder),
        roles=roles,
        scripted=scripted,
        note=lambda text: note(clean_line(text)),
    )
    for warning in files.loaded.warnings:
        note(f"warning: {clean_line(str(warning))}")
    checked = files.loaded.plan
    if common_dir(folder) is not None:
        for text in anyio.run(missing_context, checked, folder):
            note(f"warning: {text}")
    measured = anyio.run(context_lines, checked, files.roles, folder) if context else []
    out(_description(checked, files.roles))
    out(["", *measured] if measured else [])


def _description(plan: Plan, roles: Mapping[str, Role]) -> Iterator[str]:
    """The plan as it will run, a line at a time."""
    at_once = plural(plan.workers, "worker")
    yield f"plan {clean_line(plan.name)}: {plural(len(plan.tasks), 'task')}, {at_once}"
    if plan.goal:
        yield f"goal: {clean_line(plan.goal)}"
    if budget := _budget(plan.budget):
        yield f"budget: {budget}"
    yield ""
    head = ["task", "role", "needs", "gates"]
    for cells in table([head, *(_row(task, roles) for task in plan.tasks)]):
        yield "  ".join(cells).rstrip()
    path = critical_path(build(plan.tasks))
    yield ""
    yield f"critical path, {plural(len(path), 'task')}: {' > '.join(path)}"


def _row(task: Task, roles: Mapping[str, Role]) -> list[str]:
    role = roles.get(task.role) if task.role is not None else None
    name = "none" if role is None else role.name + (" (writes)" if role.writes else "")
    needs = clean_line(", ".join(task.needs), CELL_CHARS_MAX) or "-"
    gates = clean_line(", ".join(gate.name for gate in task.gates), CELL_CHARS_MAX) or "-"
    return [task.id, name, needs, gates]


def _budget(budget: RunBudget) -> str:
    parts = [
        f"${budget.usd:,.2f}" if budget.usd is not None else "",
        plural(budget.tokens, "token") if budget.tokens is not None else "",
        f"{budget.minutes:g} minutes" if budget.minutes is not None else "",
        plural(budget.replans, "replan"),
    ]
    return ", ".join(part for part in parts if part)
