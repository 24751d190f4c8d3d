"""What events mean: retries, losses, replans, blocking, skipping. Stories with values by hand."""

from __future__ import annotations

import pytest

from orchestrator.core.drafts import Amendment, Rewire
from orchestrator.core.events import (
    AttemptSucceeded,
    FailureReason,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    StoredEvent,
    TaskBlocked,
)
from orchestrator.core.machine import LOST_MAX, evolve
from orchestrator.core.plan import When
from orchestrator.core.products import PlanPatch, Verdict
from orchestrator.core.state import InvalidTransition
from orchestrator.core.task_drafts import TaskDraft
from tests.core.story import Story, plan, task
from tests.support.simulator import object_id


def fix(key: str, *needs: str) -> TaskDraft:
    return TaskDraft(id=key, role="implementer", prompt="Mend it.", needs=needs)


def mend(failed: str, key: str = "fix", *needs: str) -> PlanPatch:
    """A fix, and the failed task again on top of it."""
    return PlanPatch(add=(fix(key, *needs),), rewire=(Rewire(id=failed, needs=(key,)),))


def ended(story: Story) -> str:
    body = story.last().body
    assert isinstance(body, RunFinished)
    return body.status


# --- attempts ---------------------------------------------------------------------------------


def test_S10_exactly_as_many_attempts_as_the_task_has() -> None:
    story = Story(plan(task("a", attempts=3), replans=0))
    for _ in range(3):
        story.fail("a")
    assert story.starts_of("a") == 3
    assert story.status["a"] == "failed"
    assert ended(story) == "failed"


def test_S10_a_late_success_cannot_flip_a_state_that_is_final() -> None:
    story = Story(plan(task("a", attempts=1), replans=0))
    story.fail("a")
    late = AttemptSucceeded(task="a", attempt=1, commit=object_id("a"), tree=object_id("t"))
    with pytest.raises(InvalidTransition, match="task a:"):
        story.append(late)


def test_S10_a_success_of_an_earlier_attempt_does_not_count() -> None:
    story = Story(plan(task("a", attempts=2)))
    story.fail("a")
    late = AttemptSucceeded(task="a", attempt=1, commit=object_id("a"), tree=object_id("t"))
    with pytest.raises(InvalidTransition, match="AttemptSucceeded of attempt 1"):
        story.append(late)


def test_the_next_attempt_goes_on_from_the_work_and_evidence_of_the_last() -> None:
    story = Story(plan(task("a")))
    story.fail("a", evidence="three tests are red")
    held = story.state.tasks["a"]
    assert (held.attempt, held.kept, held.evidence) == (
        2,
        object_id("work on a"),
        "three tests are red",
    )


@pytest.mark.parametrize("reason", ["conflict", "gate_red", "rejected"])
def test_failures_of_the_inputs_are_not_tried_again(reason: FailureReason) -> None:
    story = Story(plan(task("a", attempts=3)))
    story.fail("a", reason=reason)
    assert story.starts_of("a") == 1
    assert story.charges == ["a"]


@pytest.mark.parametrize(
    ("on_failure", "starts", "charges"), [("replan", 1, 1), ("retry", 3, 0), ("fail", 1, 0)]
)
def test_on_failure_says_what_a_conflict_leads_to(
    on_failure: str, starts: int, charges: int
) -> None:
    story = Story(plan(task("a", attempts=3, on_failure=on_failure)))
    while "a" in story.running:
        story.fail("a", reason="conflict")
    assert (story.starts_of("a"), len(story.charges)) == (starts, charges)


@pytest.mark.parametrize("on_failure", ["replan", "retry", "fail"])
def test_attempts_are_used_up_before_on_failure_is_asked(on_failure: str) -> None:
    story = Story(plan(task("a", attempts=3, on_failure=on_failure)))
    while "a" in story.running:
        story.fail("a", reason="limit")
    assert story.starts_of("a") == 3
    assert len(story.charges) == (on_failure == "replan")


# --- losses -----------------------------------------------------------------------------------


def test_S11_a_lost_attempt_is_free_keeps_its_number_and_is_capped() -> None:
    story = Story(plan(task("a", attempts=1), task("other", role="explorer")))
    for _ in range(LOST_MAX):
        story.lose("a")
    assert story.running == {"a", "other"}
    assert story.state.tasks["a"].attempt == 1
    story.lose("a")
    assert story.status["a"] == "failed"
    assert story.running == {"other"}, "other tasks go on"
    assert story.charges == [], "a planner cannot mend a disk"
    story.succeed("other")
    assert ended(story) == "failed"


def test_S11_only_losses_in_a_row_count_and_interruptions_do_not() -> None:
    story = Story(plan(task("a", attempts=2)))
    for _ in range(LOST_MAX):
        story.lose("a")
    story.fail("a")
    for _ in range(LOST_MAX):
        story.lose("a")
        story.lose("a", interrupted=True)
    assert story.running == {"a"}
    assert story.state.tasks["a"].attempt == 2


def test_S11_a_repeated_attempt_knows_what_the_lost_one_knew() -> None:
    story = Story(plan(task("a", attempts=2)))
    story.fail("a", evidence="three tests are red")
    story.lose("a")
    held = story.state.tasks["a"]
    assert (held.attempt, held.evidence, held.kept) == (
        2,
        "three tests are red",
        object_id("work on a"),
    )


# --- what waits -------------------------------------------------------------------------------


def test_S01_a_failure_blocks_what_waits_for_it_once_and_the_run_ends() -> None:
    story = Story(
        plan(
            task("a", role="explorer", attempts=1),
            task("b", "a", role="explorer"),
            task("c", "b", role="explorer"),
            task("d", role="explorer"),
            replans=0,
        )
    )
    story.fail("a")
    assert story.blocks == [("b", "a"), ("c", "a")]
    story.succeed("d")
    assert story.status == {"a": "failed", "b": "blocked", "c": "blocked", "d": "succeeded"}
    assert story.blocks == [("b", "a"), ("c", "a")]
    assert ended(story) == "failed"


def test_S05_cancelling_a_task_blocks_what_waits_for_it_and_the_run_ends() -> None:
    story = Story(plan(task("a", role="explorer"), task("b", "a", role="explorer")))
    story.cancel("a")
    assert story.status == {"a": "cancelled", "b": "blocked"}
    assert story.blocks == [("b", "a")]
    assert ended(story) == "failed"


@pytest.mark.parametrize(
    ("require", "failures", "runs"),
    [("all", 1, False), ("any", 2, True), ("any", 3, False), (2, 1, True), (2, 2, False)],
)
def test_require_says_how_many_needs_must_succeed(
    require: str | int, failures: int, runs: bool
) -> None:
    above = [task(f"n{n}", role="explorer", attempts=1) for n in range(3)]
    below = task("t", "n0 n1 n2", role="explorer", require=require)
    story = Story(plan(*above, below, replans=0))
    for n in range(failures):
        story.fail(f"n{n}")
        assert "t" not in story.running, "not before all needs have ended"
    for n in range(failures, 3):
        assert "t" not in story.running
        story.succeed(f"n{n}")
    assert story.status["t"] == ("running" if runs else "blocked")


@pytest.mark.parametrize(("is_", "then"), [("succeeded", "running"), ("failed", "skipped")])
def test_when_looks_at_how_a_task_ended(is_: str, then: str) -> None:
    when = When.model_validate({"task": "a", "is": is_})
    story = Story(plan(task("a", role="explorer"), task("b", role="explorer", when=when)))
    assert story.running == {"a"}
    story.succeed("a")
    assert story.status["b"] == then


def test_when_a_task_failed_waits_until_the_failure_is_final() -> None:
    when = When.model_validate({"task": "a", "is": "failed"})
    story = Story(plan(task("a", attempts=1), task("b", role="explorer", when=when)))
    story.fail("a")
    assert story.running == {"replan-1"}
    story.patch("replan-1", PlanPatch(amend=(Amendment(id="a", prompt="Like this."),)))
    story.fail("a", evidence="a broke")
    assert story.running == {"b"}


@pytest.mark.parametrize(("approve", "then"), [(False, "running"), (True, "skipped")])
def test_when_looks_at_a_field_of_a_product(approve: bool, then: str) -> None:
    when = When(task="review", field="approve", equals=False)
    story = Story(
        plan(
            task("review", role="reviewer", on_failure="fail"),
            task("again", role="explorer", when=when),
        )
    )
    verdict = Verdict(approve=approve)
    if approve:
        story.succeed("review", product=verdict)
    else:
        story.fail("review", reason="rejected", product=verdict)
    assert story.status["again"] == then


def test_a_skipped_task_counts_as_done_and_is_seen_through() -> None:
    when = When.model_validate({"task": "a", "is": "failed"})
    story = Story(plan(task("a"), task("b", "a", when=when), task("c", "b", attempts=1)))
    story.succeed("a")
    assert story.status["b"] == "skipped"
    assert story.running == {"c"}
    story.fail("c")
    assert story.state.tasks["replan-1"].task.needs == ("b",), "through which it sees a's work"


def test_when_a_skipped_task_is_looked_at() -> None:
    story = Story(
        plan(
            task("a", role="explorer"),
            task("b", role="explorer", when=When.model_validate({"task": "a", "is": "failed"})),
            task("c", role="explorer", when=When.model_validate({"task": "b", "is": "skipped"})),
        )
    )
    story.succeed("a")
    assert story.running == {"c"}


# --- replanning -------------------------------------------------------------------------------


def test_the_planner_sees_the_failed_merge_or_the_base_after_a_conflict() -> None:
    for reason, needs in (("gate_red", ("a", "b")), ("conflict", ())):
        story = Story(plan(task("a"), task("b")))
        story.succeed("a", "b")
        story.fail("integrate", reason=reason)  # type: ignore[arg-type]
        assert story.state.tasks["replan-1"].task.needs == needs


def test_R02_each_planner_is_charged_before_it_starts_and_failing_ones_end_with_the_budget() -> (
    None
):
    story = Story(plan(task("a", attempts=1), replans=3))
    story.fail("a")
    for number in (1, 2, 3):
        assert story.running == {f"replan-{number}"}
        assert story.charges == ["a"] * number
        story.fail(f"replan-{number}", reason="script")
    assert story.charges == ["a", "a", "a"]
    assert story.status["a"] == "failed"
    assert ended(story) == "failed"


def test_R02_a_planner_that_failed_is_forgiven_when_the_next_one_mends_the_failure() -> None:
    story = Story(plan(task("a", attempts=1), replans=3))
    story.fail("a")
    story.fail("replan-1", reason="script")
    story.patch("replan-2", PlanPatch(amend=(Amendment(id="a", prompt="Like this."),)))
    story.succeed("a")
    story.succeed("integrate")
    assert ended(story) == "succeeded"
    assert story.status["replan-1"] == "cancelled"
    assert story.status["replan-2"] == "succeeded"


def test_R02_failures_at_once_do_not_exceed_the_budget() -> None:
    story = Story(plan(*(task(f"t{n}", role="explorer", attempts=1) for n in range(4)), replans=2))
    story.fail("t0", "t1", "t2", "t3")
    assert story.charges == ["t0", "t1"]
    assert story.state.replans == 2
    story.patch("replan-1", PlanPatch(drop=("t0",)))
    story.patch("replan-2", PlanPatch(drop=("t1",)))
    assert ended(story) == "failed"


def test_R02_without_replans_or_a_planner_nothing_is_charged() -> None:
    story = Story(plan(task("a", attempts=1), replans=0))
    story.fail("a")
    assert story.charges == []


def test_R04_the_same_failure_after_it_was_mended_ends_the_replanning() -> None:
    story = Story(plan(task("a", attempts=1), replans=9))
    story.fail("a", evidence="rule broken, 0.1s")
    story.patch("replan-1", PlanPatch(amend=(Amendment(id="a", prompt="Like this."),)))
    story.fail("a", evidence="rule broken, 0.7s")
    assert story.charges == ["a"]
    assert ended(story) == "failed"


def test_R04_another_failure_calls_the_planner_again() -> None:
    story = Story(plan(task("a", attempts=1), replans=9))
    story.fail("a", evidence="rule broken")
    story.patch("replan-1", PlanPatch(amend=(Amendment(id="a", prompt="Like this."),)))
    story.fail("a", evidence="something else")
    assert story.charges == ["a", "a"]


def test_R05_a_patch_that_repeats_a_finished_task_is_rejected_and_nothing_is_redone() -> None:
    story = Story(plan(task("a"), task("b")))
    story.succeed("a", "b")
    story.fail("integrate", reason="gate_red")
    story.patch("replan-1", PlanPatch(add=(fix("a"),), rewire=(Rewire(id="integrate", needs=()),)))
    assert any("the id `a` is taken" in problem for problem in story.rejections)
    assert story.starts_of("a") == 1
    assert story.running == {"replan-2"}, "another planner may try"


def test_R06_a_patch_that_makes_a_circle_leaves_the_old_graph_in_force() -> None:
    story = Story(plan(task("a"), task("b"), replans=1))
    story.succeed("a", "b")
    before = dict(story.state.living)
    story.fail("integrate", reason="gate_red")
    patch = PlanPatch(
        add=(fix("f", "integrate"),), rewire=(Rewire(id="integrate", needs=("f", "a")),)
    )
    story.patch("replan-1", patch)
    assert any("in a circle" in problem for problem in story.rejections)
    after = {key: item for key, item in story.state.living.items() if key != "replan-1"}
    assert after == before
    assert story.status["integrate"] == "failed"
    assert ended(story) == "failed"


def test_R06_a_patch_that_rewires_what_runs_is_rejected() -> None:
    story = Story(plan(task("a", attempts=1), task("b", role="explorer"), replans=1))
    story.fail("a")
    assert story.running == {"b", "replan-1"}
    story.patch("replan-1", PlanPatch(rewire=(Rewire(id="b", needs=("a",)),)))
    assert any("`b` is running" in problem for problem in story.rejections)
    assert story.running == {"b"}


def test_R07_siblings_keep_their_successes_and_only_the_failed_and_blocked_run() -> None:
    siblings = [task(f"s{n}", role="explorer", attempts=1) for n in range(5)]
    story = Story(plan(*siblings, task("all", "s0 s1 s2 s3 s4", role="explorer")))
    story.succeed("s0", "s1", "s3", "s4")
    story.fail("s2")
    story.patch("replan-1", PlanPatch(amend=(Amendment(id="s2", prompt="Like this."),)))
    assert story.running == {"s2"}
    story.succeed("s2")
    story.succeed("all")
    starts = [story.starts_of(f"s{n}") for n in range(5)]
    assert starts == [1, 1, 2, 1, 1]
    assert ended(story) == "succeeded"


def test_R07_what_was_blocked_behind_a_rewired_task_runs_again() -> None:
    story = Story(
        plan(
            task("root", role="explorer", attempts=1, on_failure="fail"),
            task("mid", "root", role="explorer"),
            task("end", "mid", role="explorer"),
            task("far", "end", role="explorer"),
            task("bad", role="explorer", attempts=1),
        )
    )
    story.fail("root")
    assert story.blocks == [("mid", "root"), ("end", "root"), ("far", "root")]
    story.fail("bad")
    # The patch lets mid do without root; what follows is not named, its blocker is not touched.
    story.patch("replan-1", PlanPatch(drop=("bad",), rewire=(Rewire(id="mid", needs=()),)))
    assert story.running == {"mid"}
    story.succeed("mid")
    story.succeed("end")
    assert story.running == {"far"}


def test_what_was_about_to_start_on_a_failure_waits_when_that_is_tried_again() -> None:
    when = When.model_validate({"task": "root", "is": "failed"})
    story = Story(
        plan(
            task("root", role="explorer", attempts=1, on_failure="fail"),
            task("bad", role="explorer", attempts=1),
            task("rescue", role="explorer", when=when),
            workers=1,
        )
    )
    story.fail("root")
    story.fail("bad")
    assert story.running == {"replan-1"}
    assert story.status["rescue"] == "ready"
    again = (Amendment(id="root", prompt="Like this."),)
    story.patch("replan-1", PlanPatch(drop=("bad",), amend=again))
    assert story.running == {"root"}
    assert story.status["rescue"] == "pending"
    story.succeed("root")
    assert story.status["rescue"] == "skipped"
    assert ended(story) == "succeeded"


def test_a_patch_that_drops_the_other_planner_leaves_its_failure_to_another() -> None:
    story = Story(plan(*(task(key, role="explorer", attempts=1) for key in ("a", "b", "c"))))
    story.succeed("c")
    story.fail("a", "b")
    assert story.charges == ["a", "b"]
    story.patch("replan-1", PlanPatch(drop=("a", "replan-2")))
    assert story.charges == ["a", "b", "b"]
    assert story.running == {"replan-3"}


def test_a_fix_makes_the_run_succeed() -> None:
    story = Story(plan(task("a"), task("b")))
    story.succeed("a", "b")
    story.fail("integrate", reason="gate_red")
    story.patch("replan-1", mend("integrate", "fix", "a", "b"))
    assert story.running == {"fix"}
    story.succeed("fix")
    story.succeed("integrate")
    assert ended(story) == "succeeded"
    assert (story.starts_of("a"), story.starts_of("integrate")) == (1, 2)


def test_a_dropped_task_does_not_count_against_the_run() -> None:
    story = Story(plan(task("a", role="explorer", attempts=1), task("b", role="explorer")))
    story.fail("a")
    story.patch("replan-1", PlanPatch(drop=("a",)))
    story.succeed("b")
    assert story.status["a"] == "cancelled"
    assert ended(story) == "succeeded"


# --- the log ----------------------------------------------------------------------------------


def test_events_come_without_gaps() -> None:
    story = Story(plan(task("a")))
    event = StoredEvent(
        seq=story.state.seq + 2, run="run", at=0, cause=None, body=TaskBlocked(task="a", by="a")
    )
    with pytest.raises(InvalidTransition, match=r"event 5 follows 3"):
        evolve(story.state, event)


def test_causes_lead_back_to_the_failure() -> None:
    story = Story(plan(task("a", attempts=1)))
    story.fail("a")
    by_seq = {item.seq: item for item in story.events}
    planner = next(
        item
        for item in story.events
        if item.body.type == "AttemptStarted" and item.body.task == "replan-1"
    )
    revision = by_seq[planner.cause or 0]
    assert isinstance(revision.body, PlanRevised)
    assert by_seq[revision.cause or 0].body.type == "AttemptFailed"


def test_what_a_resumed_run_is_kept_in_is_what_its_reports_say() -> None:
    story = Story(plan(task("a")))
    story.append(RunPaused(reason="signal", detail="SIGINT"))
    story.append(RunResumed(sandbox="none"))
    assert story.state.started is not None
    assert story.state.started.sandbox == "none"
