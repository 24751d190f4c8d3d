"""Runs for a goal, and what waits for a person: when it is asked, and what goes on meanwhile."""

from __future__ import annotations

import pytest

from orchestrator.core.decide import decide
from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    Event,
    Landed,
    PlanRejected,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
)
from orchestrator.core.goals import goal_plan
from orchestrator.core.machine import fold
from orchestrator.core.plan import Approval, PlanSettings, RunBudget
from orchestrator.core.products import PlanPatch, PlanProposal, Report
from orchestrator.core.roles import Limits
from orchestrator.core.state import InvalidTransition
from tests.core.story import Story, plan, task
from tests.core.test_machine import mend
from tests.support.simulator import ROLES

PROPOSAL = PlanProposal.model_validate(
    {
        "name": "status filter",
        "gates": ["make test"],
        "tasks": [
            {"id": "filter", "role": "implementer", "prompt": "Do it.", "needs": []},
            {"id": "docs", "role": "implementer", "prompt": "Tell.", "needs": ["filter"]},
        ],
        "why": "Two parts.",
    }
)


def goal(*approve: Approval, **rest: object) -> Story:
    """A run for a goal, its planner at work."""
    values = {"goal": "Add a filter", "approve": approve, **rest}
    return Story(goal_plan(PlanSettings.model_validate(values), ROLES))


def agree(story: Story, key: str) -> None:
    """A person agrees and resumes, as `resume --approve` does."""
    story.append(RunResumed())
    story.append(ApprovalGiven(task=key))
    story.go()


def last(story: Story) -> Event:
    return story.events[-1].body


def kinds(story: Story) -> list[str]:
    return [event.body.type for event in story.events]


def test_the_plan_of_the_planner_is_carried_out_in_the_same_run() -> None:
    story = goal()
    assert story.running == {"plan"}
    story.succeed("plan", product=PROPOSAL)
    assert story.status == {
        "plan": "succeeded",
        "filter": "running",
        "docs": "pending",
        "integrate": "pending",
    }
    assert (story.state.settings.name, story.state.settings.goal) == (
        "status filter",
        "Add a filter",
    )
    story.succeed("filter")
    story.succeed("docs")
    story.succeed("integrate")
    assert last(story) == RunFinished(
        status="succeeded", branch="orchestrate/run", commit=story.state.tasks["integrate"].commit
    )


def test_what_fails_later_is_patched_as_ever() -> None:
    story = goal()
    story.succeed("plan", product=PROPOSAL)
    story.succeed("filter")
    story.succeed("docs")
    story.fail("integrate", reason="gate_red")
    assert story.running == {"replan-1"}
    story.patch("replan-1", mend("integrate", "fix", "docs"))
    story.succeed("fix")
    assert story.running == {"integrate"}


@pytest.mark.parametrize("product", [None, PROPOSAL.model_copy(update={"gates": ()})])
def test_a_run_without_a_plan_has_failed(product: PlanProposal | None) -> None:
    story = goal()
    story.succeed("plan", product=product or Report(summary="no plan"))
    assert len(story.bodies(PlanRejected)) == 1
    assert last(story) == RunFinished(status="failed")


def test_R02_a_planner_that_hands_in_nothing_that_fits_ends_the_run() -> None:
    story = goal(budget=RunBudget(usd=10.0))
    story.fail("plan", reason="planner_invalid", usd=1.0)
    assert (story.status, story.charges) == ({"plan": "failed"}, [])
    assert last(story) == RunFinished(status="failed")
    assert story.state.usage.usd == 1.0


def test_R02_planners_that_err_again_and_again_are_charged_until_the_budget_of_replans_ends() -> (
    None
):
    story = Story(plan(task("a", attempts=1), replans=2))
    story.fail("a")
    for number in (1, 2):
        story.fail(f"replan-{number}", reason="planner_invalid", usd=0.5)
    assert story.charges == ["a", "a"]
    assert story.state.usage.usd == 1.0
    assert last(story) == RunFinished(status="failed")


def test_where_the_plan_is_all_that_is_wanted_it_is_the_result() -> None:
    begin = goal_plan(PlanSettings(goal="x", approve=("plan",)), ROLES)
    story = Story(begin, plan_only=True)
    story.succeed("plan", product=PROPOSAL)
    assert last(story) == RunFinished(status="succeeded")
    assert list(story.status) == ["plan"]
    failed = Story(begin, plan_only=True)
    failed.fail("plan", reason="planner_invalid")
    assert last(failed) == RunFinished(status="failed")


def test_a_plan_waits_until_a_person_agrees() -> None:
    story = goal("plan")
    story.succeed("plan", product=PROPOSAL)
    assert story.bodies(ApprovalAsked) == [ApprovalAsked(what="plan", task="plan")]
    assert last(story) == RunPaused(
        reason="approval", detail="what `plan` handed in waits for a person"
    )
    assert list(story.state.asked) == ["plan"]
    assert decide(story.state) == ()
    agree(story, "plan")
    assert story.running == {"filter"}
    assert (story.state.asked, story.state.approved) == ({}, set())


def test_going_on_without_an_answer_pauses_again_and_asks_once() -> None:
    story = goal("plan")
    story.succeed("plan", product=PROPOSAL)
    story.append(RunResumed())
    story.go()
    assert kinds(story)[-4:] == ["ApprovalAsked", "RunPaused", "RunResumed", "RunPaused"]
    agree(story, "plan")
    assert story.running == {"filter"}


def test_patches_wait_only_where_replans_do() -> None:
    for approve, waits in (((), False), (("plan",), False), (("replans",), True)):
        story = Story(plan(task("a", attempts=1), approve=approve))
        story.fail("a")
        story.patch("replan-1", mend("a"))
        assert (story.state.status == "paused") is waits
        assert bool(story.bodies(PlanRevised)[2:]) is not waits


def test_a_plan_is_no_replan_and_a_users_own_plan_waits_for_nobody() -> None:
    story = goal("replans")
    story.succeed("plan", product=PROPOSAL)
    assert story.running == {"filter"}
    story = Story(plan(task("a"), approve=("plan",)))
    assert story.running == {"a"}


def test_other_tasks_go_on_while_a_patch_waits() -> None:
    story = Story(
        plan(task("a", attempts=1), task("b"), task("c", "b", gates=()), approve=("replans",))
    )
    story.fail("a")
    story.patch("replan-1", mend("a"))
    assert story.bodies(ApprovalAsked) == [ApprovalAsked(what="replans", task="replan-1")]
    assert (story.state.status, story.running) == ("running", {"b"})
    story.succeed("b")
    assert story.running == {"c"}
    story.succeed("c")
    assert isinstance(last(story), RunPaused)
    agree(story, "replan-1")
    assert story.running == {"fix"}


def test_no_planner_starts_on_a_graph_that_is_about_to_change() -> None:
    story = Story(
        plan(task("a", attempts=1), task("b", attempts=1), replans=3, approve=("replans",))
    )
    story.fail("a", "b")
    story.patch("replan-1", mend("a"))
    assert story.charges == ["a", "b"]
    assert (story.state.status, story.status["replan-2"]) == ("paused", "ready")
    agree(story, "replan-1")
    assert story.running == {"fix", "replan-2"}


def test_an_approved_patch_that_does_not_fit_any_more_is_rejected() -> None:
    story = Story(plan(task("a", attempts=1), replans=1, approve=("replans",)))
    story.fail("a")
    story.patch("replan-1", PlanPatch())
    agree(story, "replan-1")
    assert story.rejections
    assert last(story) == RunFinished(status="failed")


def test_an_approval_is_asked_for_before_money() -> None:
    story = Story(
        plan(
            task("a", attempts=1),
            task("b", limits=Limits(usd=5.0)),
            workers=1,
            budget=RunBudget(usd=1.0),
            approve=("replans",),
        )
    )
    story.fail("a", usd=0.2)
    story.succeed("replan-1", product=mend("a"), usd=0.2)
    story.succeed("b", usd=0.6)
    paused = last(story)
    assert isinstance(paused, RunPaused)
    assert paused.reason == "approval"
    agree(story, "replan-1")
    paused = last(story)
    assert isinstance(paused, RunPaused)
    assert paused.reason == "budget"


def test_an_approval_that_nobody_asked_for_does_not_fit() -> None:
    story = goal("plan")
    with pytest.raises(InvalidTransition, match="nobody asked about `plan`"):
        story.append(ApprovalGiven(task="plan"))


def test_when_going_on_may_help_is_known_until_it_goes_on() -> None:
    story = goal()
    story.append(RunPaused(reason="provider", detail="limit", until=1_000_500.0))
    assert story.state.pause_until == 1_000_500.0
    story.append(RunResumed())
    assert story.state.pause_until is None


def test_a_landing_long_after_the_end_does_not_make_the_run_longer() -> None:
    story = Story(plan(task("a")))
    story.succeed("a")
    story.succeed("integrate")
    ended, elapsed = story.state.ended_at, story.state.elapsed_s
    story.watch = ()
    story.now += 86_400
    landed = Landed(branch="main", before="b" * 40, commit="c" * 40)
    story.append(landed)
    assert story.state.landed == landed
    assert (story.state.ended_at, story.state.elapsed_s) == (ended, elapsed)
    assert story.state.status == "succeeded"
    assert fold("run", story.events) == story.state
