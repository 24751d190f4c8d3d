"""Proposals: what a planner's first plan comes to in a run, or everything that is wrong with it.

A proposal is checked twice by the same function: when it is handed in, so that what is wrong goes
back to the planner, and when the run applies it. All or nothing. It goes through the checks of a
plan file and, since nobody has read it yet, through some that are harsher: tasks that may run at
once do not write the same files, and a command checks the result.

The user's word stands: the goal, the budget, workers, base, protected paths, prices, defaults and
approvals of the settings stay as they are. A proposal brings a name, files for every prompt, gates
and tasks. As a file (`orchestrator.planfile.write`) it gives the same tasks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from orchestrator.core import checks, graph
from orchestrator.core.base import TaskId
from orchestrator.core.checks import Problem
from orchestrator.core.drafts import ProposalDraft, resolve_gates, resolve_tasks
from orchestrator.core.events import PlanRevised
from orchestrator.core.graph import GraphView
from orchestrator.core.plan import Plan, PlanSettings, Task
from orchestrator.core.roles import Role

PROPOSED_MAX = 50
"""Most tasks of a planner's plan."""
BYTES_MAX = 256 * 1024
"""Largest plan, as JSON: as a file it stays within what a plan file may have."""

_UNROOTED = re.compile(r"^!|[*?\[\\]")


def apply_plan(view: GraphView, proposal: ProposalDraft, by: TaskId) -> PlanRevised | list[Problem]:
    """What the proposal comes to in a run that has no tasks but planners, or all its problems.

    `by` is the planner task. The revision lists whole tasks, `integrate` included where the plan
    needs it, and the settings from here on.
    """
    roles = {role.name: role for role in view.roles}
    problems = [*_too_much(proposal), *_besides(view, roles)]
    if problems:
        return problems
    settings = settings_with(view.settings, proposal)
    problems += _taken(view, proposal)
    problems += _clashing_gates(view.settings, proposal)
    plan = _plan(settings, resolve_tasks(proposal.tasks, settings, roles))
    problems += _planners(plan.tasks, roles)
    problems += (item for item in checks.check_plan(plan, roles) if item.severity == "error")
    whole = checks.with_integration(plan, roles)
    if not problems:
        problems += _overlaps(whole, roles)
        problems += _unchecked(whole, roles)
        problems += _read_elsewhere(whole.tasks)
    if problems:
        return problems
    return PlanRevised(by=by, add=whole.tasks, why=proposal.why, settings=settings)


def settings_with(settings: PlanSettings, proposal: ProposalDraft) -> PlanSettings:
    """The user's settings with what a proposal may say; the user's files and gates come first."""
    known = {gate.run for gate in settings.gates}
    gates = (gate for gate in resolve_gates(proposal.gates) if gate.run not in known)
    return settings.model_copy(
        update={
            "name": proposal.name,
            "context": tuple(dict.fromkeys((*settings.context, *proposal.context))),
            "gates": (*settings.gates, *gates),
        }
    )


def _plan(settings: PlanSettings, tasks: tuple[Task, ...]) -> Plan:
    values = {name: getattr(settings, name) for name in PlanSettings.model_fields}
    return Plan.model_validate({**values, "tasks": tasks})


def _too_much(proposal: ProposalDraft) -> Iterator[Problem]:
    if len(proposal.tasks) > PROPOSED_MAX:
        message = f"{len(proposal.tasks)} tasks are more than {PROPOSED_MAX}"
        yield Problem(("tasks",), message, "make fewer, larger ones")
    size = len(proposal.model_dump_json().encode())
    if size > BYTES_MAX:
        yield Problem((), f"the plan has {size:,} bytes, at most {BYTES_MAX:,}", "say less in it")


def _besides(view: GraphView, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """A first plan is the only one."""
    for held in view.tasks:
        if held.status != "cancelled" and not graph.plans(held.task, roles):
            yield Problem((), f"there is a plan already, with `{held.task.id}` in it")
            return


def _taken(view: GraphView, proposal: ProposalDraft) -> Iterator[Problem]:
    taken = {held.task.id for held in view.tasks}
    for draft in proposal.tasks:
        if draft.id in taken:
            message = f"the id `{draft.id}` is taken by the planner's own task"
            yield Problem(("tasks", draft.id, "id"), message, "choose another")


def _clashing_gates(settings: PlanSettings, proposal: ProposalDraft) -> Iterator[Problem]:
    own = {gate.name: gate.run for gate in settings.gates}
    for gate in resolve_gates(proposal.gates):
        if own.get(gate.name, gate.run) != gate.run:
            message = f"the user has another gate with the name `{gate.name}`"
            yield Problem(("gates",), message, "give yours another name")


def _planners(tasks: Iterable[Task], roles: Mapping[str, Role]) -> Iterator[Problem]:
    for task in tasks:
        if graph.plans(task, roles):
            yield Problem(
                ("tasks", task.id, "role"),
                f"`{task.id}` would be a planner",
                "failures call one, as long as the budget has replans",
            )


def _overlaps(plan: Plan, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """Writers that may meet in a file.

    For a plan file that is a warning, and any pattern without a slash meets everything. Here it
    refuses, so `README.md` is taken as it was meant: the one at the root. `test_*.py` is not.
    """
    tasks = {task.id: task for task in plan.tasks}
    dag = graph.build(plan.tasks)
    writers = [key for key in dag if graph.writes_of(tasks[key], roles)]
    meets = checks.overlaps([_at_root(tasks[key].writes) for key in writers])
    pairs = graph.parallel_pairs(dag, writers, meets)
    for first, second in itertools.islice(pairs, checks.OVERLAPS_SHOWN_MAX):
        yield Problem(
            ("tasks", second, "writes"),
            f"`{first}` and `{second}` may run at once and write the same files",
            "keep their `writes` apart, or let one need the other",
        )


def _at_root(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The same with plain names at the root; what has a wildcard may lie in any folder."""
    if patterns is None:
        return None
    return tuple(item if _UNROOTED.search(item) else f"/{item.lstrip('/')}" for item in patterns)


def _unchecked(plan: Plan, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """A result that no command judges is an agent's word."""
    by_id = {task.id: task for task in plan.tasks}
    for sink in graph.writing_sinks(graph.build(plan.tasks), by_id, roles):
        if not checks.gates_of_result(sink, by_id, roles):
            yield Problem(
                ("gates",),
                f"nothing checks what `{sink}` hands on as the result",
                "give the plan `gates`: commands that fail while the goal is not reached; where"
                " there are none, add a task that writes the test first",
            )


def _read_elsewhere(tasks: tuple[Task, ...]) -> Iterator[Problem]:
    """Files in a prompt that another task makes, without an edge that says in which order."""
    dag = graph.build(tasks)
    for reader in tasks:
        related = {reader.id, *graph.ancestors(dag, reader.id), *graph.descendants(dag, reader.id)}
        for writer in tasks:
            written = {pattern.strip("/") for pattern in writer.writes or ()}
            shared = [path for path in reader.context if path.strip("/") in written]
            if shared and writer.id not in related:
                yield Problem(
                    ("tasks", reader.id, "context"),
                    f"`{reader.id}` reads `{shared[0]}`, which `{writer.id}` writes",
                    f"add `{writer.id}` to its `needs`, or leave the file out",
                )
