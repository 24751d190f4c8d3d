"""The order that an attempt is given: inputs, decisions and evidence from the state alone."""

from __future__ import annotations

from orchestrator.core.decide import StartAttempt, decide
from orchestrator.core.events import (
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    PlanRevised,
    RunStarted,
    StoredEvent,
    TaskSkipped,
)
from orchestrator.core.machine import evolve
from orchestrator.core.plan import ModelPrice, PlanSettings, Task, When
from orchestrator.core.products import Change, Decision
from orchestrator.core.roles import Limits
from orchestrator.core.state import RunState
from orchestrator.engine.orders import order
from orchestrator.spec import AttemptSpec
from tests.engine.support import BASE, IMPLEMENTER, PLANNER, TREE, task


def _state(*tasks: Task) -> RunState:
    state = RunState("run")
    started = RunStarted(
        repository="/r",
        base=BASE,
        base_branch=None,
        settings=PlanSettings(goal="make it so"),
        roles=(IMPLEMENTER, PLANNER),
        model="told",
        sandbox="none",
        workspace="none",
    )
    _feed(state, started, PlanRevised(by=None, add=tasks))
    return state


def _feed(state: RunState, *bodies: Event) -> None:
    for body in bodies:
        seq = state.seq + 1
        evolve(state, StoredEvent(seq=seq, run="run", at=100.0 + seq, cause=None, body=body))


def _done(state: RunState, name: str, commit: str, product: Change | None = None) -> None:
    _feed(
        state,
        AttemptStarted(task=name, attempt=1, limits=Limits()),
        AttemptSucceeded(task=name, attempt=1, commit=commit, tree=TREE, product=product),
    )


def _order(state: RunState, name: str) -> AttemptSpec:
    start = next(
        item for item in decide(state) if isinstance(item, StartAttempt) and item.task == name
    )
    _feed(state, AttemptStarted(task=name, attempt=start.attempt, limits=start.limits))
    return order(state, start)


def test_inputs_come_in_plan_order_whatever_order_their_tasks_ended_in() -> None:
    state = _state(task("a"), task("b"), task("c", "b", "a"))
    _done(state, "b", "2" * 40)
    _done(state, "a", "1" * 40)
    assert [item.task for item in _order(state, "c").inputs] == ["a", "b"]


def test_a_deeper_input_is_merged_after_a_shallower_one() -> None:
    state = _state(
        task("deep0"), task("deep1", "deep0"), task("flat"), task("end", "deep1", "flat")
    )
    for name, digit in (("deep0", "1"), ("deep1", "2"), ("flat", "3")):
        _done(state, name, digit * 40)
    assert [item.task for item in _order(state, "end").inputs] == ["flat", "deep1"]


def test_a_skipped_need_is_seen_through_to_what_it_would_have_merged() -> None:
    skipped = task("b", "a").model_copy(update={"when": When(task="a", is_="failed")})
    state = _state(task("a"), skipped, task("c", "b"))
    _done(state, "a", "1" * 40)
    (fact,) = decide(state)
    assert fact.event.type == "TaskSkipped"  # type: ignore[union-attr]
    _feed(state, TaskSkipped(task="b", why="not wanted"))
    assert [(item.task, item.commit) for item in _order(state, "c").inputs] == [("a", "1" * 40)]


def test_decisions_of_all_ancestors_arrive() -> None:
    state = _state(task("a"), task("b", "a"), task("c", "b"))
    _done(state, "a", "1" * 40, Change(summary="s", decisions=(Decision(what="dates are UTC"),)))
    _done(state, "b", "2" * 40, Change(summary="s", decisions=(Decision(what="ids are text"),)))
    decisions = _order(state, "c").decisions
    assert [item.what for item in decisions] == ["dates are UTC", "ids are text"]


def test_a_new_attempt_goes_on_from_the_last_ones_tree_with_its_evidence() -> None:
    state = _state(task("a", attempts=2).model_copy(update={"on_failure": "retry"}))
    failed = AttemptFailed(
        task="a",
        attempt=1,
        reason="limit",
        evidence="out of turns",
        signature="0",
        commit="9" * 40,
    )
    _feed(state, AttemptStarted(task="a", attempt=1, limits=Limits()), failed)
    spec = _order(state, "a")
    assert (spec.attempt, spec.start_from, spec.evidence) == (2, "9" * 40, "out of turns")


def test_a_planner_is_given_the_failure_and_the_graph() -> None:
    state = _state(task("a"), task("b", "a").model_copy(update={"on_failure": "replan"}))
    _done(state, "a", "1" * 40)
    red = AttemptFailed(
        task="b", attempt=1, reason="gate_red", evidence="AssertionError: 3", signature="0"
    )
    _feed(state, AttemptStarted(task="b", attempt=1, limits=Limits()), red)
    (fact,) = decide(state)
    _feed(state, fact.event)  # type: ignore[union-attr]
    spec = _order(state, "replan-1")
    assert "AssertionError: 3" in spec.evidence
    assert spec.graph is not None
    assert spec.graph.mends == "b"
    assert [view.task.id for view in spec.graph.tasks] == ["a", "b", "replan-1"]
    assert [item.task for item in spec.inputs] == ["a"], "it looks at the merge that failed"


def planner(name: str, *needs: str) -> Task:
    return Task(id=name, role="planner", prompt="Plan.", needs=needs, on_failure="fail")


def test_a_planner_of_an_empty_graph_makes_the_plan() -> None:
    spec = _order(_state(planner("plan")), "plan")
    assert spec.role is not None
    assert (spec.role.name, spec.role.product, spec.role.submit_tool) == (
        "planner",
        "plan",
        "SubmitPlan",
    )
    assert spec.graph is not None
    assert [view.task.id for view in spec.graph.tasks] == ["plan"]
    assert (spec.goal, spec.evidence) == ("make it so", "")


def test_a_planner_of_a_graph_with_tasks_patches_it() -> None:
    spec = _order(_state(planner("look"), task("a", "look")), "look")
    assert spec.role is not None
    assert spec.role.product == "patch"


def test_an_order_has_the_prices_of_the_plan() -> None:
    prices = {"llama": ModelPrice(input=0, output=0)}
    state = _state(task("a"))
    assert state.started is not None
    settings = state.settings.model_copy(update={"prices": prices})
    state.started = state.started.model_copy(update={"settings": settings})
    assert _order(state, "a").prices == prices


def test_an_order_survives_json() -> None:
    state = _state(task("a"))
    spec = _order(state, "a")
    assert AttemptSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_lost_attempt_is_ordered_again_under_its_number_as_another_try() -> None:
    state = _state(task("a"))
    first = _order(state, "a")
    _feed(state, AttemptLost(task="a", attempt=1, why="disk"))
    second = _order(state, "a")
    assert (first.attempt, second.attempt) == (1, 1)
    assert first.started == 3, "the `seq` of AttemptStarted, after RunStarted and PlanRevised"
    assert second.started == 5
