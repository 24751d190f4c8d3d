"""Plans of planners: what they come to, what is refused, and that nobody's word is overridden."""

from __future__ import annotations

import pytest

from orchestrator.core.checks import check_plan
from orchestrator.core.events import PlanRevised
from orchestrator.core.goals import FIRST_PROMPT, goal_plan
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import (
    Gate,
    ModelPrice,
    Plan,
    PlanSettings,
    RunBudget,
    Task,
    TaskDefaults,
)
from orchestrator.core.products import PlanProposal
from orchestrator.core.proposals import BYTES_MAX, PROPOSED_MAX, apply_plan
from orchestrator.core.roles import Limits, Role
from tests.support.simulator import GATE, ROLES

SETTINGS = PlanSettings(
    name="a-slug",
    goal="Add a --status filter",
    base="main",
    workers=2,
    budget=RunBudget(usd=5.0),
    defaults=TaskDefaults(model="m", limits=Limits(turns=30)),
    protect=("tests/",),
    prices={"m": ModelPrice(input=1, output=2)},
    approve=("plan",),
)


def view(settings: PlanSettings = SETTINGS, *others: TaskView) -> GraphView:
    """The graph that the planner of a goal sees: itself."""
    (own,) = goal_plan(settings, ROLES).tasks
    return GraphView(
        settings=settings,
        roles=tuple(ROLES.values()),
        tasks=(TaskView(task=own, status="running"), *others),
    )


def task(key: str, *needs: str, **rest: object) -> dict[str, object]:
    """A writer of its own folder."""
    given = {"role": "implementer", "prompt": "Do it.", "writes": [f"{key}/"]}
    return {"id": key, "needs": list(needs), **given, **rest}


def proposal(*tasks: object, gates: object = ("make test",), **rest: object) -> PlanProposal:
    return PlanProposal.model_validate({"tasks": list(tasks), "gates": gates, **rest})


def applied(given: PlanProposal, at: GraphView | None = None) -> PlanRevised:
    revised = apply_plan(at or view(), given, "plan")
    assert isinstance(revised, PlanRevised), "\n".join(map(str, revised))
    return revised


def problems(given: PlanProposal, at: GraphView | None = None) -> list[str]:
    found = apply_plan(at or view(), given, "plan")
    assert isinstance(found, list), "it was accepted"
    return [str(problem) for problem in found]


def test_a_goal_begins_with_one_planner_task() -> None:
    plan = goal_plan(SETTINGS, ROLES)
    assert plan.settings == SETTINGS
    (only,) = plan.tasks
    assert (only.id, only.role, only.prompt, only.model) == ("plan", "planner", FIRST_PROMPT, "m")
    assert (only.needs, only.attempts, only.on_failure) == ((), 1, "fail")
    assert check_plan(plan, ROLES) == ()


def test_a_planner_has_its_roles_ceilings_and_the_model_that_the_plan_says() -> None:
    planner = Role(
        name="boss",
        tools=(),
        product="patch",
        prompt="Plan.",
        model="own",
        limits=Limits(usd=1.5, turns=20),
    )
    (task,) = goal_plan(PlanSettings(), {"boss": planner}).tasks
    assert (task.role, task.model, task.limits) == ("boss", "own", Limits(usd=1.5, turns=20))
    said = PlanSettings(defaults=TaskDefaults(model="m", role_models={"boss": "large"}))
    assert goal_plan(said, {"boss": planner}).tasks[0].model == "large"


def test_without_a_role_that_plans_there_is_no_plan_for_a_goal() -> None:
    with pytest.raises(ValueError, match="no role hands in patches"):
        goal_plan(SETTINGS, {"explorer": ROLES["explorer"]})


def test_a_plan_becomes_complete_tasks_with_one_gated_result() -> None:
    revised = applied(proposal(task("a"), task("b"), task("c", "b", "a"), why="Two parts."))
    assert (revised.by, revised.replans, revised.why) == ("plan", None, "Two parts.")
    assert [item.id for item in revised.add] == ["a", "b", "c"], "the last one is the result"
    assert revised.add[2].needs == ("a", "b"), "in plan order"
    assert [gate.run for gate in revised.add[2].gates] == ["make test"], "it merges two writers"
    assert revised.add[0].limits == Limits(turns=30)
    assert revised.add[0].model == "m"
    (*_, integrate) = applied(proposal(task("a"), task("b"))).add
    assert (integrate.id, integrate.needs) == ("integrate", ("a", "b"))
    assert [gate.run for gate in integrate.gates] == ["make test"]


def test_the_users_word_stands() -> None:
    given = proposal(
        task("a"), goal="Something else", name="status filter", context=["AGENTS.md", "README.md"]
    )
    settings = SETTINGS.model_copy(update={"context": ("README.md",), "gates": (GATE,)})
    revised = applied(given, view(settings))
    assert revised.settings == settings.model_copy(
        update={"name": "status filter", "context": ("README.md", "AGENTS.md"), "gates": (GATE,)}
    ), "the same gate is not there twice"
    assert revised.add[0].context == ("README.md", "AGENTS.md")


def test_a_gate_with_the_name_of_another_of_the_users_is_refused() -> None:
    settings = SETTINGS.model_copy(update={"gates": (GATE,)})
    other = {"name": GATE.name, "run": "true"}
    assert problems(proposal(task("a"), gates=[other]), view(settings)) == [
        "gates: the user has another gate with the name `tests` (give yours another name)"
    ]


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        proposal(
            task("plan"),
            task("a", "b", "nowhere"),
            task("b", role="plumber"),
            task("c", role="planner", writes=None),
            task("d", "d"),
            task("e", prompt=""),
        )
    )
    assert found == [
        "tasks.plan.id: the id `plan` is taken by the planner's own task (choose another)",
        (
            "tasks.c.role: `c` would be a planner"
            " (failures call one, as long as the budget has replans)"
        ),
        (
            "tasks.b.role: there is no role `plumber`"
            " (there is `planner`, `explorer`, `implementer`, `reviewer`)"
        ),
        "tasks.e: task `e` has no prompt (say what its agent is to do)",
        "tasks.a.needs.1: there is no task `nowhere` (there is `plan`, `b`, `c`, `d`, `e`)",
        "tasks.d.needs.0: task `d` needs itself",
    ]


def test_R06_a_circle_is_refused() -> None:
    assert problems(proposal(task("a", "b"), task("b", "a"))) == [
        (
            "tasks.a.needs: tasks wait for each other in a circle: a -> b -> a"
            " (remove one of these needs)"
        ),
    ]


def test_P05_a_plan_of_500_tasks_is_refused_in_one_line() -> None:
    many = proposal(*(task(f"t{number}") for number in range(500)))
    assert problems(many) == ["tasks: 500 tasks are more than 50 (make fewer, larger ones)"]
    chain = [task("t0"), *(task(f"t{n}", f"t{n - 1}") for n in range(1, PROPOSED_MAX))]
    assert len(applied(proposal(*chain)).add) == PROPOSED_MAX + 1


def test_a_plan_without_tasks_is_refused() -> None:
    assert problems(proposal()) == [
        "tasks: the plan has no tasks (add at least one under `tasks:`)"
    ]


def test_a_plan_that_would_be_too_large_a_file_is_refused() -> None:
    (found,) = problems(proposal(*(task(f"t{n}", prompt="x" * 90_000) for n in range(3))))
    assert f"at most {BYTES_MAX:,}" in found


@pytest.mark.parametrize("writes", [["src/", "docs/"], ["src/search.py"], ["*.py"], None])
def test_tasks_that_may_run_at_once_do_not_write_the_same_files(writes: object) -> None:
    two = [task("a", writes=["src/search.py"]), task("b", writes=writes)]
    assert problems(proposal(*two)) == [
        (
            "tasks.b.writes: `a` and `b` may run at once and write the same files"
            " (keep their `writes` apart, or let one need the other)"
        ),
    ]
    after = [two[0], {**two[1], "needs": ["a"]}]
    assert [item.id for item in applied(proposal(*after)).add] == ["a", "b", "integrate"]


def test_a_name_with_a_wildcard_lies_in_any_folder() -> None:
    two = [task("a", writes=["tests/test_search.py"]), task("b", writes=["test_*.py"])]
    (found,) = problems(proposal(*two))
    assert "`a` and `b` may run at once and write the same files" in found


def test_files_at_the_root_do_not_meet_what_lies_in_folders() -> None:
    root = task("a", writes=["README.md", "docs/", "!docs/old/"])
    revised = applied(proposal(root, task("b", writes=["src/search.py", "CHANGELOG.md"])))
    assert [item.id for item in revised.add] == ["a", "b", "integrate"]


def test_a_result_that_no_command_checks_is_refused() -> None:
    alone = "gates: nothing checks what `a` hands on as the result (give the plan `gates`: commands"
    assert problems(proposal(task("a"), gates=[]))[0].startswith(alone)
    assert applied(proposal(task("a", gates=["make test"]), gates=[])).add[0].gates
    looked = task("look", "a", role=None, prompt="", writes=None, gates=["make test"])
    applied(proposal(task("a"), looked, gates=[]))
    user = SETTINGS.model_copy(update={"gates": (GATE,)})
    assert applied(proposal(task("a"), gates=[]), view(user)).add[-1].gates == (GATE,)


def test_a_plan_that_only_looks_needs_no_gate() -> None:
    look = task("look", role="explorer", writes=None)
    assert [item.id for item in applied(proposal(look, gates=[])).add] == ["look"]


def test_P09_a_file_that_another_task_makes_wants_an_edge() -> None:
    two = [task("a", writes=["api.md", "src/"]), task("b", context=["api.md"])]
    assert problems(proposal(*two)) == [
        (
            "tasks.b.context: `b` reads `api.md`, which `a` writes"
            " (add `a` to its `needs`, or leave the file out)"
        ),
    ]
    applied(proposal(two[0], {**two[1], "needs": ["a"]}))
    applied(proposal({**two[0], "needs": ["b"]}, two[1]))


def test_there_is_only_one_first_plan() -> None:
    done = TaskView(task=Task(id="old", role="implementer", prompt="x"), status="succeeded")
    assert problems(proposal(task("a")), view(SETTINGS, done)) == [
        ": there is a plan already, with `old` in it"
    ]
    gone = done.model_copy(update={"status": "cancelled"})
    assert "taken" in problems(proposal(task("old")), view(SETTINGS, gone))[0]
    applied(proposal(task("a")), view(SETTINGS, gone))


def test_overlaps_that_the_user_serialises_become_edges() -> None:
    settings = SETTINGS.model_copy(update={"overlap": "serialise"})
    revised = applied(proposal(task("a", writes=None), task("b", writes=None)), view(settings))
    assert revised.add[1].needs == ("a",)


def test_what_comes_of_it_passes_the_checks_of_a_plan_file() -> None:
    revised = applied(proposal(task("a", writes=["a/x.py"]), task("b", writes=["b/x.py"])))
    assert revised.settings is not None
    values = {name: getattr(revised.settings, name) for name in PlanSettings.model_fields}
    whole = Plan.model_validate({**values, "tasks": revised.add})
    assert check_plan(whole, ROLES) == ()
    assert whole.gates == (Gate(name="make test", run="make test"),)
