"""Reads the files of a run together, so that all their faults come out at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.plan import Plan
from orchestrator.core.roles import Role
from orchestrator.data import builtin
from orchestrator.errors import Fault, PlanError
from orchestrator.models.script import Script, load_script
from orchestrator.planfile import LoadedPlan, load_plan
from orchestrator.roles import load_roles, role_sources

PLACEHOLDER = "Say here what to do"
"""How the prompt begins that `orchestrate init` writes."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a plan and the files around it say."""

    loaded: LoadedPlan
    roles: dict[str, Role]


def read_files(
    plan: Path,
    *,
    target: Path | None,
    roles: Path | None = None,
    scripted: Path | None = None,
    model: str | None = None,
    note: Callable[[str], None],
) -> RunFiles:
    """Read the plan, the roles and the script.

    target: top of the target's checkout, whose roles count too. roles: a folder of role files.
    model: stands in for the plan's `defaults.model`. note is told what was left alone. Raises
    `PlanError` with the faults of all files.
    """
    known, script, faults = _read_besides(target, roles, scripted, note)
    loaded: LoadedPlan | None = None
    try:
        loaded = load_plan(plan, known, model=model)
    except PlanError as error:
        faults.extend(error.faults)
    if faults or loaded is None:
        raise PlanError(faults)
    besides = (*_unedited(loaded), *_without_turns(loaded.plan, script))
    warnings = [*loaded.warnings, *besides]
    return RunFiles(replace(loaded, warnings=tuple(warnings)), known)


def read_roles(
    *,
    target: Path | None,
    roles: Path | None = None,
    scripted: Path | None = None,
    note: Callable[[str], None],
) -> dict[str, Role]:
    """Read the roles and the script where the plan is still to be made; see `read_files`."""
    known, _, faults = _read_besides(target, roles, scripted, note)
    if faults:
        raise PlanError(faults)
    return known


def _read_besides(
    target: Path | None, roles: Path | None, scripted: Path | None, note: Callable[[str], None]
) -> tuple[dict[str, Role], Script | None, list[Fault]]:
    """Roles and script, and what is wrong with them; the bundled roles stand in for faulty ones."""
    faults: list[Fault] = []
    try:
        sources = role_sources(bundled=builtin("roles"), target=target, option=roles)
        known = load_roles(sources, note=note)
    except PlanError as error:
        faults.extend(error.faults)
        known = load_roles(role_sources(bundled=builtin("roles")))
    script: Script | None = None
    try:
        if scripted is not None:
            script = load_script(scripted)
    except PlanError as error:
        faults.extend(error.faults)
    return known, script, faults


def _unedited(loaded: LoadedPlan) -> Iterator[Fault]:
    """What `orchestrate init` wrote for a person to fill in, and nobody has."""
    for task in loaded.plan.tasks:
        if task.prompt.startswith(PLACEHOLDER):
            yield Fault(str(loaded.path), 0, f"task `{task.id}` still says what `init` wrote")


def _without_turns(plan: Plan, script: Script | None) -> Iterator[Fault]:
    """Tasks with an agent for which the script has nothing to say: they will fail."""
    for task in plan.tasks:
        if script is not None and task.role and script.key_for(task.id, 1) is None:
            yield Fault(script.file, 0, f"has no turns for task `{task.id}`")
