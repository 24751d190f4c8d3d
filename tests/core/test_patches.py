"""Patches: what a planner may do to a living graph, and that a bad patch changes nothing."""

from __future__ import annotations

import pytest

from orchestrator.core.drafts import Amendment, PatchDraft, Rewire
from orchestrator.core.events import PlanRevised
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.patches import ADDED_MAX, apply_patch
from orchestrator.core.plan import Gate, PlanSettings, Task
from orchestrator.core.task_drafts import GateDraft, TaskDraft
from tests.core.story import task
from tests.support.simulator import GATE, ROLES


def view(*tasks: tuple[Task, str], mends: str | None = None, gates: bool = True) -> GraphView:
    return GraphView(
        settings=PlanSettings(gates=(GATE,) if gates else ()),
        roles=tuple(ROLES.values()),
        tasks=tuple(TaskView(task=item, status=status) for item, status in tasks),
        mends=mends,
    )


MERGE = view(
    (task("a"), "succeeded"),
    (task("b"), "succeeded"),
    (task("m", "a b", role=None), "failed"),
    (task("after", "m", role="reviewer"), "pending"),
    (task("side", role="explorer"), "running"),
    (task("replan-1", "a b", role="planner"), "succeeded"),
    mends="m",
)
"""A merge has failed; its planner hands in."""


def new(key: str, *needs: str, role: str | None = "implementer") -> TaskDraft:
    return TaskDraft(id=key, role=role, prompt="Do it." if role else "", needs=needs)


def applied(patch: PatchDraft, graph: GraphView = MERGE) -> PlanRevised:
    revised = apply_patch(graph, patch, "replan-1")
    assert isinstance(revised, PlanRevised), [str(item) for item in revised]
    return revised


def refused(patch: PatchDraft, graph: GraphView = MERGE) -> str:
    problems = apply_patch(graph, patch, "replan-1")
    assert not isinstance(problems, PlanRevised)
    assert problems
    return "\n".join(map(str, problems))


def test_a_fix_and_a_rewiring_come_as_whole_tasks_with_gates() -> None:
    patch = PatchDraft(
        add=(new("fix", "b", "a"),), rewire=(Rewire(id="m", needs=("fix",)),), why="because"
    )
    revised = applied(patch)
    assert (revised.by, revised.replans, revised.why) == ("replan-1", None, "because")
    (fix,) = revised.add
    assert fix.needs == ("a", "b"), "needs stand in plan order"
    assert fix.gates == (GATE,), "it merges, so the plan's gates check it"
    assert [(item.id, item.needs) for item in revised.replace] == [("m", ("fix",))]


def test_amending_changes_texts_and_nothing_else() -> None:
    (amended,) = applied(PatchDraft(amend=(Amendment(id="m", attempts=5),))).replace
    before = next(item.task for item in MERGE.tasks if item.task.id == "m")
    assert amended == before.model_copy(update={"attempts": 5})


def test_rewiring_and_amending_one_task_do_both() -> None:
    revised = applied(
        PatchDraft(rewire=(Rewire(id="m", needs=("a",)),), amend=(Amendment(id="m", attempts=7),)),
        view((task("a"), "succeeded"), (task("m", "a", role=None), "failed"), mends="m"),
    )
    assert [(item.needs, item.attempts) for item in revised.replace] == [(("a",), 7)]


def test_dropping_needs_that_nothing_waits_for_the_dropped() -> None:
    assert refused(PatchDraft(drop=("m",))) == (
        "drop: `after` waits for `m` (rewire or drop `after` as well)"
    )
    graph = view(
        (task("a", gates=(GATE,)), "succeeded"),
        (task("m", "a", role="explorer"), "failed"),
        (task("after", "m", role="reviewer"), "blocked"),
        mends="m",
    )
    assert applied(PatchDraft(drop=("after", "m")), graph).drop == ("m", "after")


def test_the_plans_gates_run_on_the_result_whatever_a_patch_says_of_gates() -> None:
    easy = GateDraft(name="easy", run="true")
    two = ((task("a"), "succeeded"), (task("b"), "succeeded"))
    graph = view(*two, (task("m", "a b", role=None), "failed"), mends="m")
    (amended,) = applied(PatchDraft(amend=(Amendment(id="m", gates=(easy,)),)), graph).replace
    assert [gate.name for gate in amended.gates] == ["easy", GATE.name]


def test_a_patch_that_takes_the_plans_gates_off_the_result_is_refused() -> None:
    graph = view(
        (task("a"), "succeeded"),
        (task("b"), "failed"),
        (task("integrate", "a b", role=None), "pending"),
        mends="b",
    )
    problem = refused(PatchDraft(drop=("b", "integrate")), graph)
    assert f"the plan's `{GATE.name}` would not run on it" in problem
    patch = PatchDraft(drop=("b",), rewire=(Rewire(id="integrate", needs=("a",)),))
    assert applied(patch, graph).drop == ("b",)


def test_R05_a_finished_task_that_is_given_again_is_refused() -> None:
    assert "add.0.id: the id `a` is taken (ids are never used again)" in refused(
        PatchDraft(add=(new("a"),), amend=(Amendment(id="m", attempts=3),))
    )
    assert "`a` is succeeded and cannot be amended" in refused(
        PatchDraft(amend=(Amendment(id="a", prompt="Other."),))
    )
    assert "`a` is succeeded and cannot be rewired" in refused(
        PatchDraft(rewire=(Rewire(id="a", needs=()),))
    )
    assert "`a` is succeeded and cannot be dropped" in refused(PatchDraft(drop=("a",)))


def test_R05_a_dropped_id_is_never_used_again() -> None:
    graph = view((task("a"), "failed"), (task("old"), "cancelled"), mends="a")
    patch = PatchDraft(add=(new("old"),), amend=(Amendment(id="a", prompt="Other."),))
    assert "the id `old` is taken" in refused(patch, graph)


def test_R06_a_circle_through_new_and_failed_tasks_is_refused() -> None:
    patch = PatchDraft(add=(new("fix", "m"),), rewire=(Rewire(id="m", needs=("fix", "a")),))
    problem = refused(patch)
    assert "in a circle" in problem
    assert "m -> fix -> m" in problem or "fix -> m -> fix" in problem


@pytest.mark.parametrize("touch", ["rewire", "amend", "drop"])
def test_R06_a_running_task_is_left_alone(touch: str) -> None:
    operation: dict[str, object] = {
        "rewire": (Rewire(id="side", needs=("m",)),),
        "amend": (Amendment(id="side", prompt="Other."),),
        "drop": ("side",),
    }
    patch = PatchDraft.model_validate({touch: operation[touch]})
    assert "`side` is running and cannot be" in refused(patch)


def test_R06_what_a_running_task_was_started_on_cannot_be_dropped() -> None:
    graph = view(
        (task("a"), "succeeded"),
        (task("b"), "failed"),
        (task("any", "a b", require="any"), "running"),
    )
    assert "`any` waits for `b`" in refused(PatchDraft(drop=("b",)), graph)


def test_P02_needs_that_lead_nowhere_are_named_all_at_once() -> None:
    problem = refused(
        PatchDraft(add=(new("fix", "nix"),), rewire=(Rewire(id="m", needs=("fx", "a")),))
    )
    assert "there is no task `nix` (did you mean `fix`?)" not in problem, "not itself"
    assert "tasks.fix.needs.0: there is no task `nix`" in problem
    assert "tasks.m.needs.0: there is no task `fx` (did you mean `fix`?)" in problem


def test_P02_operations_on_unknown_tasks_are_named() -> None:
    problem = refused(PatchDraft(drop=("mm",), amend=(Amendment(id="afterr", attempts=1),)))
    assert "drop.0: there is no task `mm`" in problem
    assert "amend.0.id: there is no task `afterr` (did you mean `after`?)" in problem


def test_a_task_is_not_both_dropped_and_changed() -> None:
    drop = ("m", "after")
    assert "`m` is both dropped and rewired" in refused(
        PatchDraft(drop=drop, rewire=(Rewire(id="m", needs=("a",)),))
    )
    assert "`m` is both dropped and amended" in refused(
        PatchDraft(drop=drop, amend=(Amendment(id="m", attempts=1),))
    )


def test_the_failed_task_must_be_dealt_with() -> None:
    assert "the patch changes nothing" in refused(PatchDraft())
    assert "`m` has failed and the patch leaves it so" in refused(
        PatchDraft(add=(new("look", role="explorer"),))
    )


def test_nothing_new_may_need_a_task_that_stays_failed() -> None:
    graph = view((task("x"), "failed"), (task("y", role=None), "failed"), mends="y")
    patch = PatchDraft(
        add=(new("fix", "x", role="explorer"),), rewire=(Rewire(id="y", needs=("fix",)),)
    )
    assert "`x` has failed: `fix` would wait for ever" in refused(patch, graph)


def test_rewiring_may_not_leave_more_required_than_there_is() -> None:
    graph = view(
        (task("a"), "succeeded"), (task("m", "a", role=None, require=1), "failed"), mends="m"
    )
    assert "1 of 0 needs cannot be had" in refused(
        PatchDraft(rewire=(Rewire(id="m", needs=()),)), graph
    )


def test_an_amendment_must_change_something() -> None:
    assert "nothing of `m` is amended" in refused(PatchDraft(amend=(Amendment(id="m"),)))


def test_R02_a_patch_cannot_add_a_planner_past_the_budget() -> None:
    patch = PatchDraft(add=(new("more", role="planner"),), amend=(Amendment(id="m", attempts=3),))
    assert "add.0.role: `more` would be a planner" in refused(patch)


def test_unknown_roles_and_too_many_tasks_are_refused() -> None:
    mend = (Amendment(id="m", attempts=3),)
    assert "there is no role `mergr`" in refused(
        PatchDraft(add=(new("x", role="mergr"),), amend=mend)
    )
    many = tuple(new(f"x{n}", role="explorer") for n in range(ADDED_MAX + 1))
    assert f"{ADDED_MAX + 1} new tasks are more than {ADDED_MAX}" in refused(
        PatchDraft(add=many, amend=mend)
    )


def test_a_new_writer_must_reach_the_result() -> None:
    patch = PatchDraft(add=(new("loose"),), amend=(Amendment(id="m", attempts=3),))
    assert "the work of `after`, `loose` reaches no common task" in refused(patch)


def test_a_new_merge_without_any_gate_is_refused() -> None:
    graph = view(
        (task("a"), "succeeded"), (task("b"), "succeeded"), (task("m", "a"), "failed"), gates=False
    )
    patch = PatchDraft(rewire=(Rewire(id="m", needs=("a", "b")),))
    assert "`m` merges the work of `a`, `b` and no gate checks the result" in refused(patch, graph)


def test_a_patch_must_leave_a_task() -> None:
    graph = view((task("a"), "failed"), (task("replan-1", role="planner"), "succeeded"), mends="a")
    assert "the patch leaves no task" in refused(PatchDraft(drop=("a",)), graph)


def test_tasks_blocked_by_a_cancelled_one_do_not_stand_in_the_way() -> None:
    graph = view(
        (task("gone", role="explorer"), "cancelled"),
        (task("behind", "gone", role="explorer"), "blocked"),
        (task("y", role=None), "failed"),
        mends="y",
    )
    assert applied(PatchDraft(amend=(Amendment(id="y", attempts=3),)), graph).drop == ()


STRICT = Gate(name="strict", run="make lint")
JUDGED = view(
    (task("a", gates=(GATE, STRICT)), "failed"),
    (task("r", "a", role="reviewer"), "blocked"),
    (task("integrate", "r", role=None), "blocked"),
    mends="a",
)
"""A writer's own gates are red."""
INTEGRATE = Rewire(id="integrate", needs=("b",))


def heir(*gates: str) -> TaskDraft:
    values = {"id": "b", "role": "implementer", "prompt": "Do it.", "gates": list(gates)}
    return TaskDraft.model_validate(values)


def test_a_patch_takes_no_gate_away() -> None:
    weaker = Amendment.model_validate({"id": "a", "gates": ["true", "make test"]})
    assert "the gate `strict` of `a` would be lost" in refused(PatchDraft(amend=(weaker,)), JUDGED)
    dropped = PatchDraft(drop=("a", "r"), rewire=(INTEGRATE,))
    said = refused(dropped.model_copy(update={"add": (heir("make test"),)}), JUDGED)
    assert "the gate `strict` of `a` would be lost" in said
    assert "`tests`" not in said
    whole = heir("make lint", "make test")
    applied(dropped.model_copy(update={"add": (whole,)}), JUDGED)
    stricter = Amendment.model_validate({"id": "a", "gates": ["make lint", "make test", "true"]})
    applied(PatchDraft(amend=(stricter,)), JUDGED)


REVIEWED = view(
    (task("a"), "succeeded"),
    (task("r", "a", role="reviewer"), "failed"),
    (task("integrate", "r", role=None), "blocked"),
    mends="r",
)
"""A reviewer did not approve."""


def test_a_review_that_said_no_is_not_dropped_without_another() -> None:
    rest = PatchDraft(drop=("r",), rewire=(Rewire(id="integrate", needs=("a",)),))
    assert "a review that was not passed would be lost" in refused(rest, REVIEWED)
    second = new("again", "a", role="reviewer")
    rewire = (Rewire(id="integrate", needs=("again",)),)
    applied(PatchDraft(drop=("r",), add=(second,), rewire=rewire), REVIEWED)


def test_a_patch_that_leaves_nobody_to_write_is_refused() -> None:
    graph = view(
        (task("e", role="explorer"), "succeeded"),
        (task("a"), "failed"),
        (task("integrate", "a", role=None), "blocked"),
        mends="a",
    )
    assert "nobody would write any more" in refused(PatchDraft(drop=("a", "integrate")), graph)
