"""Any plan, any luck: every run ends and keeps the rules that `tests.core.ledger` reckons."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.checks import check_plan
from orchestrator.core.decide import decide
from orchestrator.core.events import EVENT, StoredEvent
from orchestrator.core.machine import evolve, fold
from orchestrator.core.state import RunState
from tests.core.ledger import Ledger
from tests.support.simulator import ROLES, Luck, Simulation, random_goal, random_plan

LUCKS = (
    Luck(),
    Luck(failure=0.6, lost=0.1),
    Luck(failure=0.9, lost=0, crash=0, provider=0),
    Luck(failure=0.1, lost=0.5, crash=0.2, provider=0.1),
    Luck(failure=0, lost=0, crash=0, provider=0),
)
SEEDS = 3_000
PARTS = 4


def audited(events: list[StoredEvent]) -> RunState:
    """The fold of a whole journal, with the ledger looking at each event."""
    state, ledger = RunState("run"), Ledger()
    for event in events:
        evolve(state, event)
        ledger(event, state)
    return state


def told(simulation: Simulation, steps_max: int = 5_000) -> RunState:
    """Run it to the end; what goes wrong is told with the run's story."""
    try:
        return simulation.run(steps_max)
    except Exception as error:
        error.add_note(simulation.story())
        raise


@settings(max_examples=150)
@given(rng=st.randoms(use_true_random=False), luck=st.sampled_from(LUCKS))
def test_every_graph_of_up_to_eight_tasks_ends_and_keeps_the_rules(rng: Random, luck: Luck) -> None:
    simulation = Simulation(random_plan(rng, 8), rng, luck, watch=[Ledger()])
    assert told(simulation).status in ("succeeded", "failed", "paused")


@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_seeded_plans_end_and_keep_the_rules(part: int) -> None:
    ends = set()
    for seed in range(part, SEEDS, PARTS):
        rng = Random(seed)
        luck = LUCKS[seed // PARTS % len(LUCKS)]
        simulation = Simulation(random_plan(rng, 12), rng, luck, watch=[Ledger()])
        try:
            ends.add(told(simulation).status)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert ends == {"succeeded", "failed", "paused"}, "the simulator tries too little"


def test_runs_for_a_goal_end_and_keep_the_rules() -> None:
    ends = set()
    for seed in range(600):
        rng = Random(seed)
        simulation = Simulation(
            random_goal(rng),
            rng,
            LUCKS[seed % len(LUCKS)],
            watch=[Ledger()],
            plan_only=seed % 5 == 0,
        )
        ends.add((told(simulation).status, "p0" in simulation.state.tasks))
    assert {("succeeded", True), ("succeeded", False), ("failed", False), ("paused", True)} <= ends


def test_random_plans_are_plans_that_the_checks_pass() -> None:
    for seed in range(300):
        problems = check_plan(random_plan(Random(seed), 12), ROLES)
        assert [str(item) for item in problems if item.severity == "error"] == []


@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=False), luck=st.sampled_from(LUCKS))
def test_the_fold_of_the_journal_is_the_state_also_after_json(rng: Random, luck: Luck) -> None:
    simulation = Simulation(random_plan(rng, 8), rng, luck)
    state = told(simulation)
    assert fold("run", simulation.events) == state
    read_again = [
        event.model_copy(update={"body": EVENT.validate_json(EVENT.dump_json(event.body))})
        for event in simulation.events
    ]
    assert read_again == simulation.events
    assert fold("run", read_again) == state


@settings(max_examples=80)
@given(rng=st.randoms(use_true_random=False), luck=st.sampled_from(LUCKS), data=st.data())
def test_a_journal_cut_off_anywhere_resumes_and_ends(
    rng: Random, luck: Luck, data: st.DataObject
) -> None:
    whole = Simulation(random_plan(rng, 8), rng, luck)
    told(whole)
    cut = data.draw(st.integers(2, len(whole.events)), label="events left")
    resumed = Simulation.resumed(whole.events[:cut], rng, luck)
    assert told(resumed).status in ("succeeded", "failed", "paused")
    assert resumed.events[:cut] == whole.events[:cut]
    assert audited(resumed.events) == resumed.state


def test_a_cut_after_each_event_of_some_runs_resumes_and_ends() -> None:
    for seed in range(12):
        whole = Simulation(random_plan(Random(seed), 8), Random(seed), LUCKS[1])
        told(whole)
        for cut in range(2, len(whole.events) + 1):
            resumed = Simulation.resumed(whole.events[:cut], Random(cut), LUCKS[1])
            told(resumed)
            assert audited(resumed.events) == resumed.state


def test_a_state_read_back_after_any_event_decides_the_same() -> None:
    decided: list[object] = []
    for seed in range(20):
        rng, state = Random(seed), RunState("run")
        decided.clear()
        whole = Simulation(
            random_goal(rng), rng, LUCKS[1], watch=[lambda _, now: decided.append(decide(now))]
        )
        told(whole)
        for event, before in zip(whole.events, decided, strict=True):
            body = EVENT.validate_json(EVENT.dump_json(event.body))
            assert decide(evolve(state, event.model_copy(update={"body": body}))) == before
