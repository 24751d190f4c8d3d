"""From a plan file to a checked plan.

text -> document (lines) -> draft (form) -> plan (defaults) -> checks (how tasks fit together)

Not the rules themselves: form is `core.drafts`, fit is `core.checks`. This module reads the file
and finds the line of every problem, so that all of them are told at once, in the file's order.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator.core.base import TaskId
from orchestrator.core.checks import (
    TASKS_MAX,
    Problem,
    check_needs,
    check_plan,
    check_task,
    with_integration,
)
from orchestrator.core.drafts import (
    ALIASES,
    PlanDraft,
    TaskDraft,
    resolve_plan,
    resolve_settings,
    resolve_task,
    task_items,
)
from orchestrator.core.plan import Plan, PlanSettings, Task
from orchestrator.core.roles import Role
from orchestrator.documents import (
    BYTES_MAX,
    FAULTS_MAX,
    Document,
    JsonLike,
    faults_of,
    load_document,
)
from orchestrator.errors import Fault, PlanError

Place = tuple[str | int, ...]


STANDS_ALONE = (("role",), ("needs",), ("when",))
"""Keys that can be judged although others of the task, or of the plan, are faulty."""


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan that can be run."""

    plan: Plan
    """Complete, the task `integrate` included where one is needed."""
    warnings: tuple[Fault, ...]
    """What is worth knowing and stops nothing, in line order."""
    digest: str
    """sha256 of the file's bytes, 64 hex digits."""
    path: Path
    """As the user gave it."""


def load_plan(path: Path, roles: Mapping[str, Role], *, model: str | None = None) -> LoadedPlan:
    """Read and check a plan file against the roles there are.

    `model`: stands in for the plan's `defaults.model`.

    Raises `PlanError` with every fault that can be found, in line order: what is wrong with the
    form of some tasks does not hide that others need tasks which do not exist.
    """
    raw = _read(path)
    document = load_document(raw, str(path))
    try:
        draft = PlanDraft.model_validate(document.data)
    except ValidationError as error:
        faults = [*faults_of(error, document), *_faults_besides(document, roles)]
        raise PlanError(sorted(faults, key=_place_in_file)) from None
    if model is not None:
        defaults = draft.defaults.model_copy(update={"model": model})
        draft = draft.model_copy(update={"defaults": defaults})
    plan = with_integration(resolve_plan(draft, roles), roles)
    tasks = {task.id: task for task in plan.tasks}
    problems = check_plan(plan, roles)
    errors = _faults(problems, "error", document, tasks)
    if errors:
        raise PlanError(errors)
    return LoadedPlan(
        plan=plan,
        warnings=tuple(_faults(problems, "warning", document, tasks)),
        digest=hashlib.sha256(raw).hexdigest(),
        path=path,
    )


def _read(path: Path) -> bytes:
    """The file's bytes, one more than a document may have at most."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            what = "is a folder" if stat.S_ISDIR(mode) else "is no regular file"
            raise PlanError([Fault(str(path), 0, what, "give the path of a plan file")])
        with open(path, "rb") as file:
            return file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise PlanError([Fault(str(path), 0, "does not exist", "check the path")]) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PlanError([Fault(str(path), 0, f"cannot be read: {why}")]) from None


def _faults_besides(document: Document, roles: Mapping[str, Role]) -> list[Fault]:
    """What else is wrong in a document that is no plan: each sound task checked by itself."""
    data = document.data
    written = data.get("tasks") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(written, dict | list):
        return []
    if len(written) > TASKS_MAX:
        return []
    items = task_items(written).values()
    known = dict.fromkeys(str(item.get("id")) for item in items if isinstance(item, dict))
    settings = _settings(data)
    problems: list[Problem] = []
    tasks: dict[TaskId, Task] = {}
    for item in items:
        draft, whole = _sound_part(item)
        if draft is None:
            continue
        task = resolve_task(draft, settings or PlanSettings(), roles)
        tasks[task.id] = task
        found = [*check_needs(task, known), *check_task(task, roles)]
        if settings is None or not whole:
            found = [problem for problem in found if problem.where[2:3] in STANDS_ALONE]
        problems += found
        if len(problems) > FAULTS_MAX:
            break
    return _faults(problems, "error", document, tasks)


def _sound_part(item: object) -> tuple[TaskDraft | None, bool]:
    """The task without its faulty keys, None when too little is left; whether it is whole."""
    for whole in (True, False):
        try:
            return TaskDraft.model_validate(item), whole
        except ValidationError as error:
            faulty = {fault["loc"][0] for fault in error.errors() if fault["loc"]}
            if isinstance(item, dict):
                item = {key: value for key, value in item.items() if key not in faulty}
    return None, False


def _settings(data: dict[str, JsonLike]) -> PlanSettings | None:
    """The plan without its tasks, if that much is sound."""
    try:
        return resolve_settings(PlanDraft.model_validate({**data, "tasks": []}))
    except ValidationError:
        return None


def _faults(
    problems: Iterable[Problem], severity: str, document: Document, tasks: Mapping[TaskId, Task]
) -> list[Fault]:
    """Problems of one severity with their lines, in line order; no more than one can read."""
    serious = [problem for problem in problems if problem.severity == severity]
    faults = []
    for problem in serious[:FAULTS_MAX]:
        line = document.key_line(_written(problem.where, document.data, tasks))
        faults.append(Fault(document.file, line, problem.message, problem.hint))
    if len(serious) > FAULTS_MAX:
        faults.append(Fault(document.file, 0, f"and {len(serious) - FAULTS_MAX} more faults"))
    return sorted(faults, key=_place_in_file)


def _place_in_file(fault: Fault) -> tuple[bool, int]:
    """Sort key: by line, what belongs to no line last."""
    return fault.line == 0, fault.line


def _written(where: Place, data: JsonLike, tasks: Mapping[TaskId, Task]) -> Place:
    """The document's path for a place of the plan, as far as there is one.

    Keys may be written by another name, tasks as a list, and needs in another order.
    """
    if len(where) == 4 and where[2] == "needs":
        where = (*where[:3], tasks[str(where[1])].needs[int(where[3])])
    path: list[str | int] = []
    for step in where:
        found: str | int | None = None
        if isinstance(data, dict):
            names = [key for key in data if key == step or ALIASES.get(key) == step]
            found = names[0] if names else None
            data = data[names[0]] if names else None
        elif isinstance(data, list):
            found = _index(data, step)
            data = data[found] if found is not None else None
        if found is None:
            break
        path.append(found)
    return tuple(path)


def _index(items: list[JsonLike], step: str | int) -> int | None:
    """Where an item stands: by index, by its value, or by its `id`."""
    if isinstance(step, int):
        return step if step < len(items) else None
    for index, item in enumerate(items):
        if item == step or (isinstance(item, dict) and item.get("id") == step):
            return index
    return None
