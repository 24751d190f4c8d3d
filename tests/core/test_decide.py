"""What is started, in which order, with which slice of the budget; and how runs finish."""

from __future__ import annotations

from typing import Literal

import pytest

from orchestrator.core.decide import Finish, decide
from orchestrator.core.events import RunFinished, RunPaused, RunResumed
from orchestrator.core.plan import Plan, RunBudget, Task, When
from orchestrator.core.roles import Limits
from orchestrator.core.state import RunState
from tests.core.story import Story, plan, task
from tests.support.simulator import BASE, object_id


def explorer(key: str, needs: str = "", **rest: object) -> Task:
    return task(key, needs, role="explorer", **rest)


def once(key: str, **rest: object) -> Task:
    """An explorer with one attempt and no planner to call."""
    return task(key, "", "explorer", attempts=1, on_failure="fail", **rest)


def started(story: Story) -> list[str]:
    """Ids in the order in which their attempts were started."""
    return [item.body.task for item in story.events if item.body.type == "AttemptStarted"]


def finished(story: Story) -> RunFinished:
    body = story.events[-1].body
    assert isinstance(body, RunFinished)
    return body


def rounds(whole: Plan) -> int:
    """Length of a run whose tasks all take one unit of time."""
    story, count = Story(whole), 0
    while story.running:
        story.succeed(*sorted(story.running))
        count += 1
    return count


def test_the_longest_remaining_path_starts_first_and_ties_go_by_plan_order() -> None:
    story = Story(
        plan(
            explorer("single"),
            explorer("short"),
            explorer("mid", "short"),
            explorer("long"),
            explorer("next", "long"),
            explorer("last", "next"),
            explorer("other"),
        )
    )
    assert started(story) == ["long", "short", "single", "other"]


def test_a_long_chain_that_is_listed_last_costs_no_time() -> None:
    singles = [explorer(f"s{n}") for n in range(4)]
    chain = [explorer(f"c{n}", f"c{n - 1}" if n else "") for n in range(4)]
    # Eight units of work for two workers, a chain of four: four rounds. In plan order it is six.
    assert rounds(plan(*singles, *chain, workers=2)) == 4


def test_planners_go_before_everything_else() -> None:
    story = Story(
        plan(
            explorer("busy"),
            explorer("bad", on_failure="replan", attempts=1),
            *(explorer(f"c{n}", f"c{n - 1}" if n else "busy") for n in range(3)),
            workers=1,
        )
    )
    assert story.running == {"busy"}
    story.succeed("busy")
    story.succeed("c0")
    story.succeed("c1")
    assert story.running == {"bad"}
    story.fail("bad")
    assert story.running == {"replan-1"}, "and not c2, which was ready before"


def test_two_planners_are_never_at_work_at_once() -> None:
    story = Story(plan(task("a", attempts=1), task("b", attempts=1)))
    story.fail("a", "b")
    assert story.charges == ["a", "b"]
    assert story.running == {"replan-1"}
    assert story.status["replan-2"] == "ready"
    story.fail("replan-1")
    assert "replan-2" in story.running or "replan-3" in story.running
    assert len(story.running) == 1


def test_no_more_than_the_workers_there_are() -> None:
    story = Story(plan(*(explorer(f"e{n}") for n in range(5)), workers=2))
    assert started(story) == ["e0", "e1"]
    story.succeed("e1")
    assert started(story) == ["e0", "e1", "e2"]


def slices(story: Story) -> dict[str, Limits]:
    return {key: story.state.tasks[key].limits for key in story.running}


def test_what_is_left_is_shared_among_tasks_to_come_with_one_share_for_replans() -> None:
    budget = RunBudget(usd=12.0, tokens=1200)
    story = Story(plan(explorer("a"), explorer("b"), explorer("c", "a b"), budget=budget))
    assert slices(story) == {
        "a": Limits(usd=3.0, tokens=300),
        "b": Limits(usd=3.0, tokens=300),
    }
    story.succeed("a", usd=1.0)
    story.succeed("b", usd=3.0)
    # 8 dollars are left for c and a replan.
    assert slices(story)["c"].usd == 4.0


def test_a_tasks_own_limit_is_its_slice_as_far_as_there_is_enough() -> None:
    limits = Limits(usd=7.0, turns=9)
    story = Story(
        plan(explorer("a", limits=limits), explorer("b", limits=limits), budget=RunBudget(usd=10.0))
    )
    assert slices(story) == {
        "a": Limits(usd=7.0, turns=9),
        "b": Limits(usd=3.0, turns=9),
    }


def test_a_task_without_an_agent_takes_no_slice() -> None:
    story = Story(plan(task("gate", role=None), budget=RunBudget(usd=1.0, minutes=5)))
    limits = slices(story)["gate"]
    assert (limits.usd, limits.tokens, limits.turns) == (None, None, None)
    assert limits.minutes == pytest.approx(5, abs=0.1)


def test_a_run_without_budget_left_pauses_and_fails_no_task() -> None:
    whole = Limits(usd=1.0)
    story = Story(plan(explorer("a", limits=whole), explorer("b", "a"), budget=RunBudget(usd=1.0)))
    story.succeed("a", usd=1.0)
    last = story.last().body
    assert isinstance(last, RunPaused)
    assert last.reason == "budget"
    assert story.status == {"a": "succeeded", "b": "ready"}
    assert decide(story.state) == ()


def test_minutes_count_while_the_run_is_not_paused() -> None:
    story = Story(plan(explorer("a"), explorer("b", "a"), budget=RunBudget(minutes=10)))
    story.now += 6 * 60
    story.append(RunPaused(reason="signal", detail="Ctrl-C"))
    story.now += 3 * 3600
    story.append(RunResumed())
    story.succeed("a")
    limits = story.state.tasks["b"].limits
    assert limits.minutes == pytest.approx(4, abs=0.2)


def test_the_result_is_the_commit_of_the_one_writing_end() -> None:
    story = Story(plan(task("a"), task("b"), task("look", role="explorer")))
    story.succeed("a", "b", "look")
    story.succeed("integrate")
    assert finished(story).status == "succeeded"
    assert finished(story).commit == object_id("integrate")


def test_without_a_writer_there_is_no_result() -> None:
    story = Story(plan(explorer("a")))
    story.succeed("a")
    assert (finished(story).status, finished(story).commit) == ("succeeded", None)


def test_a_result_that_is_the_base_is_none() -> None:
    story = Story(plan(task("a")))
    story.succeed("a")
    story.succeed("integrate", commit=BASE)
    assert (finished(story).status, finished(story).commit) == ("succeeded", None)


def test_a_failed_end_gives_no_result() -> None:
    story = Story(plan(task("a", gates=plan().gates, on_failure="fail", attempts=1)))
    story.fail("a")
    assert (finished(story).status, finished(story).commit) == ("failed", None)


def test_a_writer_that_is_skipped_leaves_the_work_before_it_as_the_result() -> None:
    story = Story(
        plan(task("a"), task("b", "a", when=When(task="a", field="summary", equals="no")))
    )
    story.succeed("a")
    assert story.status["b"] == "skipped"
    assert story.running == {"integrate"}
    story.succeed("integrate")
    assert finished(story).status == "succeeded"
    assert finished(story).commit == object_id("integrate")


def test_an_empty_run_has_not_succeeded() -> None:
    story = Story(plan(explorer("a")))
    state = RunState("run", started=story.state.started, status="running")
    assert decide(state) == (Finish("failed", None, 0),)


def test_a_ceiling_that_the_runs_budget_lowered_charges_nobody() -> None:
    story = Story(plan(once("a"), once("b"), budget=RunBudget(usd=9.0)))
    assert {key: held.usd for key, held in slices(story).items()} == {"a": 3.0, "b": 3.0}
    story.fail("a", reason="limit", usd=3.0, ceiling="usd")
    # 9 - 3 spent - 3 set aside for b: 3 are left, no more than did not suffice.
    assert story.status == {"a": "ready", "b": "running"}
    story.succeed("b", usd=1.0)
    assert slices(story) == {"a": Limits(usd=5.0)}
    assert story.state.tasks["a"].charged == 0


def test_a_run_whose_rest_does_not_suffice_pauses_and_goes_on_with_more_money() -> None:
    story = Story(plan(once("a", limits=Limits(usd=4.0)), budget=RunBudget(usd=2.0)))
    assert slices(story) == {"a": Limits(usd=2.0)}
    story.fail("a", reason="limit", usd=2.0, ceiling="usd")
    last = story.last().body
    assert isinstance(last, RunPaused)
    assert last.reason == "budget"
    assert story.status == {"a": "ready"}
    story.append(RunResumed())
    story.go()
    assert isinstance(story.last().body, RunPaused), "the same money is as little as before"
    story.append(RunResumed(budget=RunBudget(usd=7.0)))
    story.go()
    assert slices(story) == {"a": Limits(usd=4.0)}
    story.fail("a", reason="limit", usd=4.0, ceiling="usd")
    assert story.status == {"a": "failed"}, "its own ceiling is its own affair"


@pytest.mark.parametrize("ceiling", ["turns", None])
def test_a_limit_that_the_runs_budget_did_not_lower_is_the_tasks_own_affair(
    ceiling: Literal["turns"] | None,
) -> None:
    whole = plan(once("a", limits=Limits(turns=3)), budget=RunBudget(usd=9.0))
    story = Story(whole)
    assert slices(story) == {"a": Limits(usd=4.5, turns=3)}, "the dollars are fewer than wanted"
    story.fail("a", reason="limit", usd=0.1, ceiling=ceiling)
    assert story.status == {"a": "failed"}


def test_what_costs_nothing_starts_although_the_budget_is_short() -> None:
    gate_ = task("gate", role=None)
    dear = explorer("a", limits=Limits(usd=1.0))
    story = Story(plan(dear, explorer("b"), gate_, budget=RunBudget(usd=1.0), workers=1))
    story.succeed("a", usd=1.0)
    assert started(story) == ["a", "gate"]
    story.succeed("gate")
    assert isinstance(story.last().body, RunPaused)
