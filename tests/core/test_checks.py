"""Checks of whole plans, and the task `integrate`."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchestrator.core.checks import INTEGRATE, Problem, check_plan, overlaps, with_integration
from orchestrator.core.plan import Gate, Plan, Task, When
from tests.core.story import task
from tests.support.simulator import GATE, ROLES


def bare(*tasks: Task, **rest: object) -> Plan:
    """The plan as it is written, without gates."""
    return Plan.model_validate({"tasks": tasks, **rest})


def gated(*tasks: Task, **rest: object) -> Plan:
    return bare(*tasks, gates=(GATE,), **rest)


def errors(plan: Plan) -> list[str]:
    return [str(item) for item in check_plan(plan, ROLES) if item.severity == "error"]


def needs_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {item.id: item.needs for item in with_integration(plan, ROLES).tasks}


def gates_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    tasks = with_integration(plan, ROLES).tasks
    return {item.id: tuple(gate.name for gate in item.gates) for item in tasks}


def test_P02_all_bad_edges_are_named_at_once_with_suggestions() -> None:
    plan = gated(task("build"), task("test", "biuld nowhere"), task("ship", "test ship"))
    assert errors(plan) == [
        "tasks.test.needs.0: there is no task `biuld` (did you mean `build`?)",
        "tasks.test.needs.1: there is no task `nowhere` (there is `build`, `ship`)",
        "tasks.ship.needs.1: task `ship` needs itself",
    ]


def test_P02_a_condition_on_an_unknown_task_is_named() -> None:
    plan = gated(task("a"), task("b", "a", when=When(task="aa", field="approve", equals=True)))
    assert errors(plan) == ["tasks.b.when.task: there is no other task `aa` (did you mean `a`?)"]


def test_a_cycle_is_printed_as_a_path() -> None:
    (problem,) = errors(gated(task("a", "c"), task("b", "a"), task("c", "b")))
    path = problem.partition("circle: ")[2].partition(" (")[0].split(" -> ")
    assert path[0] == path[-1]
    assert sorted(path[1:]) == ["a", "b", "c"]
    after = {"a": "b", "b": "c", "c": "a"}
    assert all(after[one] == two for one, two in pairwise(path))


def test_an_empty_plan_and_unknown_roles_are_errors() -> None:
    assert errors(bare()) == ["tasks: the plan has no tasks (add at least one under `tasks:`)"]
    assert errors(gated(task("a", role="explorr"))) == [
        "tasks.a.role: there is no role `explorr` (did you mean `explorer`?)"
    ]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (Task(id="a"), "does nothing"),
        (Task(id="a", role="explorer"), "no prompt"),
        (task("a", role="explorer", writes=("src/",)), "does not write"),
        (task("a", role=None, writes=("src/",)), "writes nothing"),
        (task("a", gates=(GATE, GATE)), "two gates of `a` are called `tests`"),
        (task("a", require=1), "1 of 0 needs cannot be had"),
    ],
)
def test_a_task_that_is_wrong_by_itself(wrong: Task, what: str) -> None:
    (problem,) = errors(gated(wrong))
    assert what in problem


def test_a_decision_has_one_owner() -> None:
    (problem,) = errors(gated(task("a", decides=("api",)), task("b", "a", decides=("api",))))
    assert problem.startswith("tasks.b.decides: `api` is decided by `a` already")


def test_several_writing_ends_get_the_task_integrate_with_the_plans_gates() -> None:
    plan = gated(task("a"), task("b"), task("look", role="explorer"))
    assert needs_of(plan) == {"a": (), "b": (), "look": (), INTEGRATE: ("a", "b")}
    assert gates_of(plan)[INTEGRATE] == ("tests",)
    assert errors(plan) == []


def test_nothing_is_added_without_a_writer_or_when_one_end_has_the_gates() -> None:
    assert INTEGRATE not in needs_of(gated(task("look", role="explorer")))
    assert INTEGRATE not in needs_of(gated(task("a", gates=(GATE,))))
    assert INTEGRATE not in needs_of(bare(task("a")))


def test_one_writing_end_without_the_plans_gates_gets_integrate() -> None:
    assert needs_of(gated(task("a"))) == {"a": (), INTEGRATE: ("a",)}


def test_a_writing_end_that_may_be_skipped_gets_integrate() -> None:
    when = When(task="a", field="approve", equals=True)
    plan = bare(task("a", role="reviewer"), task("b", when=when))
    assert needs_of(plan)[INTEGRATE] == ("b",)
    assert errors(plan) == []


def test_a_plan_with_its_own_integrate_keeps_it_and_must_need_all_ends() -> None:
    whole = gated(task("a"), task("b"), task(INTEGRATE, "a b", role=None))
    assert needs_of(whole)[INTEGRATE] == ("a", "b")
    assert errors(whole) == []
    (problem,) = errors(gated(task("a"), task("b"), task(INTEGRATE, "a", role=None)))
    assert problem.startswith("tasks.integrate.needs: the work of `b` reaches no common task")


def test_merge_nodes_get_the_plans_gates_unless_they_have_their_own() -> None:
    own = (Gate(name="own", run="make own"),)
    plan = gated(
        task("a"), task("b"), task("m", "a b"), task("n", "m b", gates=own), task("e", "n")
    )
    gates = gates_of(plan)
    assert gates["m"] == ("tests",)
    assert gates["n"] == ("own",)
    assert gates["e"] == ()


def test_a_merge_that_no_gate_checks_is_refused() -> None:
    (problem,) = errors(bare(task("a"), task("b"), task("m", "a b")))
    assert problem.startswith("tasks.m: `m` merges the work of `a`, `b` and no gate checks")
    (problem,) = errors(bare(task("a"), task("b")))
    assert problem.startswith("tasks.integrate: `integrate` merges the work of `a`, `b`")


def test_gathering_reports_is_no_merge() -> None:
    plan = bare(
        task("a", role="explorer"), task("b", role="explorer"), task("all", "a b", role="explorer")
    )
    assert errors(plan) == []


def overlapping(mode: str, *writes: tuple[str, ...] | None) -> list[Problem]:
    tasks = [task(f"t{n}", writes=patterns) for n, patterns in enumerate(writes)]
    return list(check_plan(gated(*tasks, overlap=mode), ROLES))


def test_overlapping_writes_are_refused_warned_of_or_serialised() -> None:
    both = (("src/api/",), ("src/**",))
    (refused,) = overlapping("refuse", *both)
    assert (refused.severity, refused.where) == ("error", ("tasks", "t1", "writes"))
    (warned,) = overlapping("allow", *both)
    assert warned.severity == "warning"
    assert overlapping("serialise", *both) == []
    assert overlapping("refuse", ("src/api/",), ("src/web/",)) == []


def test_tasks_that_wait_for_one_another_do_not_overlap() -> None:
    assert errors(gated(task("a"), task("b", "a"), overlap="refuse")) == []


def test_serialising_adds_as_few_edges_as_it_takes_in_plan_order() -> None:
    plan = gated(
        task("a", writes=("src/x/",)),
        task("other", writes=("src/y/",)),
        task("b", writes=("src/x/",)),
        task("c", writes=("src/x/",)),
        overlap="serialise",
    )
    needs = needs_of(plan)
    assert (needs["a"], needs["other"], needs["b"], needs["c"]) == ((), (), ("a",), ("b",))
    assert errors(plan) == []


def test_serialising_makes_no_circle_when_the_plan_lists_the_later_task_first() -> None:
    plan = gated(task("z", "a"), task("m"), task("a"), overlap="serialise")
    assert errors(plan) == []
    needs = needs_of(plan)
    assert (needs["z"], needs["m"], needs["a"]) == (("a",), (), ("m",))


@pytest.mark.parametrize(
    ("one", "two", "may"),
    [
        (None, ("a/",), True),
        (("*.py",), ("deep/er/x.md",), True),
        (("src/m1/",), ("src/m10/",), False),
        (("src/m1",), ("src/m10",), False),
        (("src/m1",), ("src/m1/x.py",), True),
        (("src/m*",), ("src/m10/x.py",), True),
        (("/docs",), ("docs/a.md",), True),
        (("docs/a.md",), ("src/", "docs/"), True),
        (("src/a/",), ("!src/a/", "src/b/"), False),
        ((), ("src/",), False),
        (("a\\*/b",), ("a*/b",), True),
    ],
)
def test_two_sets_of_patterns_may_name_one_file(
    one: tuple[str, ...] | None, two: tuple[str, ...] | None, may: bool
) -> None:
    first, second = overlaps([one, two])
    assert bool(first & 0b10) is may
    assert bool(second & 0b01) is may
