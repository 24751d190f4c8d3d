"""Patches: how a planner may change a living graph, and what such a change comes to.

A patch is checked twice by the same function: when it is handed in, so that what is wrong goes
back to the planner, and when the run applies it, since the graph may have moved meanwhile. All or
nothing: a patch with any problem changes nothing.

Succeeded tasks are immutable, running ones are left alone, failed ones may be rewired, amended or
dropped, ids are never used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.core import checks
from orchestrator.core.base import TaskId
from orchestrator.core.checks import Problem
from orchestrator.core.drafts import Amendment, PatchDraft, resolve_task
from orchestrator.core.events import PlanRevised
from orchestrator.core.graph import (
    GraphView,
    build,
    carriers,
    find_cycle,
    plans,
    writing_sinks,
)
from orchestrator.core.plan import Task
from orchestrator.core.roles import Role

ADDED_MAX = 50
"""Most tasks that one patch may add."""

MOVABLE = frozenset({"pending", "ready", "failed", "blocked"})
"""Statuses of tasks that a patch may change."""


def apply_patch(view: GraphView, patch: PatchDraft, by: TaskId) -> PlanRevised | list[Problem]:
    """What the patch comes to on the graph as it stands, or everything that is wrong with it.

    `by` is the planner task. The revision lists whole tasks, so that folding it needs no rules.
    """
    return _Application(view, patch, by).run()


class _Application:
    """One patch meeting one graph."""

    def __init__(self, view: GraphView, patch: PatchDraft, by: TaskId) -> None:
        self.view, self.patch, self.by = view, patch, by
        self.roles: dict[str, Role] = {role.name: role for role in view.roles}
        self.status = {item.task.id: item.status for item in view.tasks}
        self.before = {item.task.id: item.task for item in view.tasks}
        self.dropped = frozenset(patch.drop)
        self.after = {
            key: task
            for key, task in self.before.items()
            if key not in self.dropped and self.status[key] != "cancelled"
        }
        self.changed: dict[TaskId, Task] = {}
        self.problems: list[Problem] = []

    def run(self) -> PlanRevised | list[Problem]:
        self._drop()
        added = self._add()
        self._change()
        self.after.update(self.changed)
        moved = [*(task.id for task in added), *self.changed]
        if not self.problems:
            self.problems.extend(self._loose_ends(moved))
        if not self.problems:
            self._complete(moved)
            self.problems.extend(self._fits())
        if self.problems:
            return self.problems
        return PlanRevised(
            by=self.by,
            add=tuple(self.after[task.id] for task in added),
            replace=tuple(self.after[key] for key in self.before if key in self.changed),
            drop=tuple(key for key in self.before if key in self.dropped),
            why=self.patch.why,
        )

    def _problem(self, where: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self.problems.append(Problem(where, message, hint))

    def _movable(self, where: tuple[str | int, ...], task: TaskId, what: str) -> bool:
        """Whether a patch may touch the task; says why not."""
        status = self.status.get(task)
        if status is None:
            self._problem(
                where, f"there is no task `{task}`", checks.did_you_mean(task, self.before)
            )
        elif status not in MOVABLE:
            self._problem(
                where,
                f"`{task}` is {status} and cannot be {what}",
                "succeeded work stays as it is: add a task with a new id instead",
            )
        elif task in self.dropped and what != "dropped":
            self._problem(where, f"`{task}` is both dropped and {what}", "do one of the two")
        return status in MOVABLE

    def _drop(self) -> None:
        for index, task in enumerate(self.patch.drop):
            self._movable(("drop", index), task, "dropped")

    def _add(self) -> list[Task]:
        if len(self.patch.add) > ADDED_MAX:
            self._problem(("add",), f"{len(self.patch.add)} new tasks are more than {ADDED_MAX}")
            return []
        added: list[Task] = []
        for index, draft in enumerate(self.patch.add):
            if draft.id in self.before or any(task.id == draft.id for task in added):
                self._problem(
                    ("add", index, "id"),
                    f"the id `{draft.id}` is taken",
                    "ids are never used again",
                )
                continue
            task = resolve_task(draft, self.view.settings, self.roles)
            if plans(task, self.roles):
                self._problem(
                    ("add", index, "role"),
                    f"`{task.id}` would be a planner",
                    "failures call one, as long as the budget has replans",
                )
            self.problems.extend(checks.check_task(task, self.roles))
            added.append(task)
        self.after.update((task.id, task) for task in added)
        return added

    def _change(self) -> None:
        for index, rewire in enumerate(self.patch.rewire):
            if self._movable(("rewire", index, "id"), rewire.id, "rewired"):
                task = self._current(rewire.id)
                self.changed[rewire.id] = task.model_copy(update={"needs": rewire.needs})
        for index, amendment in enumerate(self.patch.amend):
            if self._movable(("amend", index, "id"), amendment.id, "amended"):
                self._amend(index, amendment)
        for task in self.changed.values():
            self.problems.extend(checks.check_task(task, self.roles))

    def _amend(self, index: int, amendment: Amendment) -> None:
        task = self._current(amendment.id)
        changes = amendment.changes()
        if not changes:
            self._problem(("amend", index), f"nothing of `{amendment.id}` is amended")
            return
        self.changed[task.id] = task.model_copy(update=changes)

    def _current(self, task: TaskId) -> Task:
        return self.changed.get(task, self.before[task])

    def _loose_ends(self, moved: list[TaskId]) -> Iterator[Problem]:
        """Needs that lead nowhere: of what the patch brings, and of what it leaves as it is."""
        for key, task in self.after.items():
            if key in moved:
                yield from checks.check_needs(task, self.after)
            elif self.status[key] in MOVABLE or self.status[key] == "running":
                for need in self.dropped.intersection(task.upstream):
                    yield Problem(
                        ("drop",), f"`{key}` waits for `{need}`", f"rewire or drop `{key}` as well"
                    )

    def _complete(self, ids: list[TaskId]) -> None:
        """Put needs in plan order and give the plan's gates to merge nodes, as a plan file's get.

        The task that makes the run's result runs them whatever gates the patch gives it.
        """
        place = {key: index for index, key in enumerate(self.after)}
        for key in ids:
            needs = sorted(dict.fromkeys(self.after[key].needs), key=place.__getitem__)
            self.after[key] = self.after[key].model_copy(update={"needs": tuple(needs)})
        graph = build(self.after.values())
        if find_cycle(graph) is not None:
            return  # `_fits` says so
        carrying = carriers(graph, self.after, self.roles)
        for key in ids:
            self.after[key] = checks.gated(self.after[key], self.view.settings, carrying)
        for sink in writing_sinks(graph, self.after, self.roles):
            if sink in ids:
                task, settings = self.after[sink], self.view.settings
                more = checks.missing_gates(sink, settings, self.after, self.roles)
                self.after[sink] = task.model_copy(update={"gates": (*task.gates, *more)})

    def _fits(self) -> Iterator[Problem]:
        """What is wrong with the graph as it would be."""
        settings = self.view.settings
        if not (self.patch.add or self.patch.drop or self.changed) and self._mends_open():
            yield Problem((), "the patch changes nothing", "add, drop, rewire or amend a task")
            return
        yield from (
            problem
            for problem in checks.check_graph(settings, self.after.values(), self.roles)
            if problem.severity == "error"
        )
        yield from self._needs_of_the_dead()
        yield from self._judges_lost()
        if all(plans(task, self.roles) for task in self.after.values()):
            yield Problem(
                ("drop",), "the patch leaves no task", "keep or add what reaches the goal"
            )
        if (
            self._mends_open()
            and self.view.mends in self.after
            and self.view.mends not in self.changed
        ):
            yield Problem(
                ("rewire",),
                f"`{self.view.mends}` has failed and the patch leaves it so",
                "rewire it to need the task that mends it, amend it, or drop it",
            )

    def _judges_lost(self) -> Iterator[Problem]:
        """A planner is no judge: gates, reviews that said no, and the work itself stay."""
        coming = [task for key, task in self.after.items() if self.status.get(key) != "succeeded"]
        for key in (*self.dropped, *self.changed):
            heirs = [self.after[key]] if key in self.after else coming
            kept = {gate.run for task in heirs for gate in task.gates}
            for gate in self.before[key].gates if key in self.before else ():
                if gate.run not in kept:
                    yield Problem(
                        ("tasks", key, "gates"),
                        f"the gate `{gate.name}` of `{key}` would be lost",
                        "keep it, or give it to the task that takes over",
                    )
        refused = [key for key in self.dropped if self.status.get(key) == "failed"]
        if any(self._reviews(self.before[key]) for key in refused) and not any(
            self._reviews(task) for task in coming
        ):
            yield Problem(
                ("drop",),
                "a review that was not passed would be lost",
                "rewire the reviewer to what mends its findings",
            )
        was, now = (self._carry(tasks) for tasks in (self._living_before(), self.after))
        if was and not now:
            yield Problem(("drop",), "nobody would write any more", "add a task that does the work")

    def _reviews(self, task: Task) -> bool:
        role = self.roles.get(task.role) if task.role is not None else None
        return role is not None and role.product == "verdict"

    def _carry(self, tasks: Mapping[TaskId, Task]) -> bool:
        """Whether any of `tasks` hands on a writer's work; a circle is another check's matter."""
        graph = build(tasks.values())
        return find_cycle(graph) is not None or bool(carriers(graph, tasks, self.roles))

    def _living_before(self) -> dict[TaskId, Task]:
        return {key: task for key, task in self.before.items() if self.status[key] != "cancelled"}

    def _mends_open(self) -> bool:
        return self.view.mends is not None and self.status.get(self.view.mends) == "failed"

    def _needs_of_the_dead(self) -> Iterator[Problem]:
        """New and rewired tasks must not wait for what has failed and is not being mended."""
        new = [key for key in self.after if key not in self.before]
        for key in (*new, *self.changed):
            for need in self.after[key].needs:
                if self.status.get(need) == "failed" and need not in self.changed:
                    yield Problem(
                        ("tasks", key, "needs"),
                        f"`{need}` has failed: `{key}` would wait for ever",
                        f"rewire or amend `{need}` too, or need what it needs",
                    )
