"""Whether tasks fit together: the checks that need the whole graph, and the node `integrate`.

Used for a plan file before anything runs and for a planner's patch against the living graph, so
both obey the same rules. Says what is wrong and where, all of it at once; knows nothing of files
and lines (`orchestrator.planfile` maps the places).
"""

from __future__ import annotations

import bisect
import difflib
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core import graph as graphs
from orchestrator.core.base import TaskId
from orchestrator.core.plan import Gate, Plan, PlanSettings, Task
from orchestrator.core.roles import Role

INTEGRATE = "integrate"
"""Name of the task that merges all writing sinks when the plan has no such task itself."""
TASKS_MAX = 10_000
"""Most tasks of a plan."""
HINTS_MAX = 20
"""Bad edges for which what was meant is looked for: a hostile plan has thousands."""
OVERLAPS_SHOWN_MAX = 20
"""Overlapping pairs that are named; more of them say nothing new."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a plan or patch."""

    where: tuple[str | int, ...]
    """Path to the value, such as `("tasks", "build", "needs", 0)`."""
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = ".".join(str(part) for part in self.where)
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming close matches, or what there is when there are few, else nothing."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f"`{item}`" for item in close) + "?"
    if 0 < len(names) <= 8:
        return "there is " + ", ".join(f"`{item}`" for item in names)
    return ""


def check_plan(plan: Plan, roles: Mapping[str, Role]) -> tuple[Problem, ...]:
    """Everything wrong with a plan that is not wrong with one value alone, in plan order."""
    problems = [*_check_alone(plan, roles), *_check_edges(plan.tasks)]
    if any(problem.severity == "error" for problem in problems):
        return tuple(problems)
    whole = with_integration(plan, roles)
    return (*problems, *check_graph(whole.settings, whole.tasks, roles))


def check_graph(
    settings: PlanSettings, tasks: Iterable[Task], roles: Mapping[str, Role]
) -> tuple[Problem, ...]:
    """Checks of a graph with sound edges: cycles, decisions, merges without gates, overlaps."""
    by_id = {task.id: task for task in tasks}
    graph = graphs.build(by_id.values())
    cycle = graphs.find_cycle(graph)
    if cycle is not None:
        return (
            Problem(
                ("tasks", cycle[0], "needs"),
                "tasks wait for each other in a circle: " + " -> ".join(cycle),
                "remove one of these needs",
            ),
        )
    return (
        *_check_decisions(by_id.values()),
        *_check_merges(settings, graph, by_id, roles),
        *_check_overlaps(settings, graph, by_id, roles),
    )


def with_integration(plan: Plan, roles: Mapping[str, Role]) -> Plan:
    """The plan with its merge nodes gated and one result.

    Merge nodes without gates of their own get the plan's. Where several tasks, or a plan with
    gates of its own, leave the work of writers unjoined, a task `integrate` is added at the end.
    `overlap: serialise` adds the edges it asks for. Plans that `check_plan` faults come back as
    they are.
    """
    if _check_edges(plan.tasks) or graphs.find_cycle(graphs.build(plan.tasks)) is not None:
        return plan
    if plan.overlap == "serialise":
        plan = _serialised(plan, roles)
    by_id = {task.id: task for task in plan.tasks}
    graph = graphs.build(plan.tasks)
    carrying = graphs.carriers(graph, by_id, roles)
    tasks = [gated(task, plan.settings, carrying) for task in plan.tasks]
    sinks = graphs.writing_sinks(graph, by_id, roles)
    needed = len(sinks) > 1 or any(_falls_short(by_id[sink], tasks, plan) for sink in sinks)
    if needed and INTEGRATE not in by_id:
        tasks.append(Task(id=INTEGRATE, needs=sinks, gates=plan.gates, env=plan.env))
    return plan.model_copy(update={"tasks": tuple(tasks)})


def gated(task: Task, settings: PlanSettings, carrying: set[TaskId]) -> Task:
    """The task, with the plan's gates if it merges several writers' work and has none."""
    joins = sum(need in carrying for need in task.needs) > 1
    if joins and not task.gates and settings.gates:
        return task.model_copy(update={"gates": settings.gates})
    return task


def _falls_short(sink: Task, tasks: Iterable[Task], plan: Plan) -> bool:
    """Whether the only sink may be skipped, or leaves out one of the plan's own gates."""
    gates = next(task.gates for task in tasks if task.id == sink.id)
    return sink.when is not None or any(gate not in gates for gate in plan.gates)


def missing_gates(
    result: TaskId,
    settings: PlanSettings,
    tasks: Mapping[TaskId, Task],
    roles: Mapping[str, Role],
) -> tuple[Gate, ...]:
    """The plan's own gates that never see the tree of `result`."""
    run = gates_of_result(result, tasks, roles)
    return tuple(gate for gate in settings.gates if gate not in run)


def gates_of_result(
    result: TaskId, tasks: Mapping[TaskId, Task], roles: Mapping[str, Role]
) -> tuple[Gate, ...]:
    """The gates that see the tree of `result`.

    A task that only hands on what its one need made shares its tree, and so its gates.
    """
    task = tasks[result]
    run = list(task.gates)
    while len(task.needs) == 1 and not graphs.writes_of(task, roles):
        task = tasks[task.needs[0]]
        if task.when is not None:
            break  # it may be skipped, and its gates with it
        run += task.gates
    return tuple(run)


def _check_alone(plan: Plan, roles: Mapping[str, Role]) -> Iterator[Problem]:
    if not plan.tasks:
        yield Problem(("tasks",), "the plan has no tasks", "add at least one under `tasks:`")
    if len(plan.tasks) > TASKS_MAX:
        yield Problem(("tasks",), f"{len(plan.tasks)} tasks are more than {TASKS_MAX}")
    for task in plan.tasks:
        yield from check_task(task, roles)


def check_task(task: Task, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """What can be said of a task by itself and the roles there are."""
    at = ("tasks", task.id)
    if task.role is None:
        if task.prompt.strip():
            known = ", ".join(f"`{name}`" for name in sorted(roles))
            message = f"task `{task.id}` has a prompt and no role"
            yield Problem(at, message, f"add `role:`, one of {known}")
        elif not task.needs and not task.gates:
            yield Problem(at, f"task `{task.id}` does nothing", "give it a role, needs or gates")
        if task.writes is not None:
            yield Problem((*at, "writes"), "a task without a role writes nothing", "name a role")
    elif task.role not in roles:
        yield Problem(
            (*at, "role"), f"there is no role `{task.role}`", did_you_mean(task.role, roles)
        )
    else:
        if not task.prompt.strip():
            yield Problem(at, f"task `{task.id}` has no prompt", "say what its agent is to do")
        if task.writes is not None and not roles[task.role].writes:
            yield Problem(
                (*at, "writes"),
                f"role `{task.role}` does not write",
                "drop `writes` or change role",
            )
    names = [gate.name for gate in task.gates]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem((*at, "gates"), f"two gates of `{task.id}` are called `{name}`")
    if isinstance(task.require, int) and not 1 <= task.require <= len(task.needs):
        yield Problem((*at, "require"), f"{task.require} of {len(task.needs)} needs cannot be had")


def _check_edges(tasks: Iterable[Task]) -> tuple[Problem, ...]:
    listed = list(tasks)
    known = dict.fromkeys(task.id for task in listed)
    problems: list[Problem] = []
    for task in listed:
        problems.extend(check_needs(task, known, hints=len(problems) < HINTS_MAX))
    return tuple(problems)


def check_needs(
    task: Task, known: Mapping[TaskId, object], *, hints: bool = True
) -> Iterator[Problem]:
    """Edges of one task that lead nowhere or to itself.

    `hints`: whether to look for what was meant, which costs a comparison with every task.
    """
    for index, need in enumerate(task.needs):
        at = ("tasks", task.id, "needs", index)
        if need == task.id:
            yield Problem(at, f"task `{task.id}` needs itself")
        elif need not in known:
            others = [item for item in known if item != task.id] if hints else []
            yield Problem(at, f"there is no task `{need}`", did_you_mean(need, others))
    if task.when is not None and (task.when.task not in known or task.when.task == task.id):
        place = ("tasks", task.id, "when", "task")
        hint = did_you_mean(task.when.task, known) if hints else ""
        yield Problem(place, f"there is no other task `{task.when.task}`", hint)


def _check_decisions(tasks: Iterable[Task]) -> Iterator[Problem]:
    owners: dict[str, TaskId] = {}
    for task in tasks:
        for name in task.decides:
            if name in owners:
                yield Problem(
                    ("tasks", task.id, "decides"),
                    f"`{name}` is decided by `{owners[name]}` already",
                    "one task owns a decision",
                )
            owners.setdefault(name, task.id)


def _check_merges(
    settings: PlanSettings,
    graph: graphs.Dag,
    tasks: Mapping[TaskId, Task],
    roles: Mapping[str, Role],
) -> Iterator[Problem]:
    carrying = graphs.carriers(graph, tasks, roles)
    for task in tasks.values():
        joined = [need for need in task.needs if need in carrying]
        if len(joined) > 1 and not task.gates and not graphs.plans(task, roles):
            yield Problem(
                ("tasks", task.id),
                f"`{task.id}` merges the work of {', '.join(f'`{need}`' for need in joined)}"
                " and no gate checks the result",
                "give it `gates`, or the plan",
            )
    sinks = graphs.writing_sinks(graph, tasks, roles)
    if len(sinks) > 1:
        loose = [sink for sink in sinks if sink != INTEGRATE]
        yield Problem(
            ("tasks", INTEGRATE, "needs") if INTEGRATE in tasks else ("tasks",),
            f"the work of {', '.join(f'`{sink}`' for sink in loose)} reaches no common task",
            f"let one task need it all, such as `{INTEGRATE}`",
        )
    elif sinks and tasks[sinks[0]].when is not None:
        yield Problem(
            ("tasks", sinks[0], "when"),
            f"the run's result is what `{sinks[0]}` makes, and it may be skipped",
            f"let a task without `when` need it, such as `{INTEGRATE}`",
        )
    elif sinks and (missing := missing_gates(sinks[0], settings, tasks, roles)):
        yield Problem(
            ("tasks", sinks[0], "gates"),
            f"the run's result is what `{sinks[0]}` makes, and the plan's"
            f" {', '.join(f'`{gate.name}`' for gate in missing)} would not run on it",
            f"add it to the gates of `{sinks[0]}`, or let `{INTEGRATE}` need it",
        )


def _check_overlaps(
    settings: PlanSettings,
    graph: graphs.Dag,
    tasks: Mapping[TaskId, Task],
    roles: Mapping[str, Role],
) -> Iterator[Problem]:
    if settings.overlap == "serialise":
        return
    severity: Literal["error", "warning"] = "error" if settings.overlap == "refuse" else "warning"
    for first, second in itertools.islice(_overlapping(graph, tasks, roles), OVERLAPS_SHOWN_MAX):
        yield Problem(
            ("tasks", second, "writes"),
            f"`{first}` and `{second}` may run at once and write the same files",
            "keep their `writes` apart, or let one need the other",
            severity,
        )


def _overlapping(
    graph: graphs.Dag, tasks: Mapping[TaskId, Task], roles: Mapping[str, Role]
) -> Iterator[tuple[TaskId, TaskId]]:
    writers = [item for item in graph if graphs.writes_of(tasks[item], roles)]
    return graphs.parallel_pairs(graph, writers, overlaps([tasks[key].writes for key in writers]))


def overlaps(writes: Sequence[tuple[str, ...] | None]) -> list[int]:
    """For each set of patterns, which of them could name one of its files: bit n is set n's.

    Compares what stands before each pattern's first wildcard, and errs on the side of yes. All
    sets are taken at once, since pairs of thousands would take minutes.
    """
    beginnings = [_beginnings(patterns) for patterns in writes]
    holders: dict[str, int] = {}
    for index, texts in enumerate(beginnings):
        for text in texts:
            holders[text] = holders.get(text, 0) | 1 << index
    ordered = sorted(holders)
    meets = {text: _meeting(text, holders, ordered) for text in ordered}
    return [
        functools.reduce(operator.or_, map(meets.__getitem__, texts), 0) for texts in beginnings
    ]


def _meeting(text: str, holders: Mapping[str, int], ordered: Sequence[str]) -> int:
    """Who holds a beginning of `text`, or a text that `text` begins."""
    shorter = (holders.get(text[:length], 0) for length in range(len(text)))
    met = functools.reduce(operator.or_, shorter, 0)
    for longer in itertools.islice(ordered, bisect.bisect_left(ordered, text), None):
        if not longer.startswith(text):
            break
        met |= holders[longer]
    return met


def _beginnings(patterns: tuple[str, ...] | None) -> frozenset[str]:
    if patterns is None:
        return frozenset({""})
    return frozenset(_beginning(item) for item in patterns if not item.startswith("!"))


def _beginning(pattern: str) -> str:
    """What every path that matches begins with; a pattern without a slash matches in any folder."""
    if "/" not in pattern.rstrip("/"):
        return ""
    whole = pattern.strip("/")
    fixed = re.split(r"[*?\[\\]", whole, maxsplit=1)[0]
    return fixed if fixed != whole else f"{whole}/"


def _serialised(plan: Plan, roles: Mapping[str, Role]) -> Plan:
    """The plan with as few edges as keep overlapping tasks apart, in plan order if that is free."""
    by_id = {task.id: task for task in plan.tasks}
    graph = graphs.build(plan.tasks)
    order = graphs.topological(graph)
    writers = [key for key in order if graphs.writes_of(by_id[key], roles)]
    alike = dict(zip(writers, overlaps([by_id[key].writes for key in writers]), strict=True))
    bit = {key: 1 << index for index, key in enumerate(writers)}
    place = {task.id: index for index, task in enumerate(plan.tasks)}
    above: dict[TaskId, int] = {}
    for key in order:
        above[key] = 0
        for up in graph.predecessors(key):
            above[key] |= above[up] | bit.get(up, 0)
        needs = list(by_id[key].needs)
        while clash := alike.get(key, 0) & (bit.get(key, 1) - 1) & ~above[key]:
            latest = writers[clash.bit_length() - 1]
            above[key] |= above[latest] | bit[latest]
            needs.append(latest)
        needs.sort(key=place.__getitem__)
        by_id[key] = by_id[key].model_copy(update={"needs": tuple(needs)})
    return plan.model_copy(update={"tasks": tuple(by_id.values())})
