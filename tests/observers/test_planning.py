"""What people see of a plan for a goal, of approvals, of pauses with an end, and of landing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptStarted,
    Event,
    Landed,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
)
from orchestrator.core.machine import evolve, fold
from orchestrator.core.plan import PlanSettings, Task
from orchestrator.core.products import PlanProposal
from orchestrator.core.state import RunState
from orchestrator.observers.lines import line_printer
from orchestrator.observers.products import product_files
from orchestrator.observers.report import report_json, report_markdown
from orchestrator.observers.summary import moment, product_line, resume_command, summary_lines
from orchestrator.observers.text import Style
from orchestrator.state_folder import RunFolder
from tests.observers.story import (
    BASE,
    ESCAPES,
    FINAL,
    FIX,
    RUN,
    beginning,
    gate,
    started,
    stored,
    succeeded,
    whole,
)

PLANNER = Task(id="plan", role="planner", prompt="Plan.", on_failure="fail")
PROPOSAL = PlanProposal.model_validate(
    {
        "name": "status filter",
        "why": f"One part. {ESCAPES}",
        "gates": ["make test"],
        "tasks": [
            {"id": "fix", "role": "implementer", "prompt": f"Add it. {ESCAPES}\n## x", "needs": []}
        ],
    }
)
FIX_TASK = Task(id="fix", role="implementer", prompt="Add it.")


def waiting() -> list[Event]:
    """Up to the pause for an approval."""
    return [
        beginning()[0],
        PlanRevised(by=None, add=(PLANNER,), why="the plan"),
        started("plan"),
        succeeded("plan", BASE, product=PROPOSAL),
        ApprovalAsked(what="plan", task="plan"),
        RunPaused(reason="approval", detail="what `plan` handed in waits for a person"),
    ]


def done() -> list[Event]:
    """To the end, and landed."""
    return [
        *waiting(),
        RunResumed(),
        ApprovalGiven(task="plan"),
        PlanRevised(
            by="plan", add=(FIX_TASK,), why="One part.", settings=PlanSettings(name="status filter")
        ),
        AttemptStarted(task="fix", attempt=1, limits=started("fix").limits),
        succeeded("fix", FIX),
        RunFinished(status="succeeded", branch=f"orchestrate/{RUN}", commit=FIX),
        Landed(branch="main", before=BASE, commit=FINAL, gates=(gate(),)),
    ]


def told(events: list[Event]) -> list[str]:
    stream = io.StringIO()
    observe = line_printer(stream, Style())
    state = RunState(RUN)
    for event in stored(events):
        observe(event, evolve(state, event))
    return [line.split("  [")[0].strip() for line in stream.getvalue().splitlines()]


def test_a_plan_is_told_as_it_is_made_waits_and_is_carried_out() -> None:
    lines = told(done())
    assert "4.0s  plan: its plan waits for approval" in lines
    assert "5.0s  paused (approval): what `plan` handed in waits for a person" in lines
    assert "7.0s  plan: approved" in lines
    assert "8.0s  plan made by plan: adds fix" in lines
    assert "12.0s  landed in main, which was at bbbbbbbbbbbb" in lines
    assert lines[-2:] == ["now at 444444444444", "gates: tests passed (0.5s, passed on the base)"]
    assert any(
        line.startswith("3.0s  plan #1 succeeded in 1.5s: 1 task: One part.") for line in lines
    )


def test_a_patch_that_waits_is_called_so() -> None:
    lines = told([*waiting()[:4], ApprovalAsked(what="replans", task="plan")])
    assert lines[-1] == "4.0s  plan: its patch waits for approval"


def test_the_summary_says_how_to_go_on() -> None:
    state = fold(RUN, stored(waiting()))
    assert resume_command(state) == f"orchestrate resume {RUN} --approve"
    assert f"go on:  orchestrate resume {RUN} --approve" in list(summary_lines(state))
    state = fold(RUN, stored([*waiting()[:5], RunPaused(reason="budget", detail="used up")]))
    assert resume_command(state) == f"orchestrate resume {RUN} --budget-usd X --approve"


def test_a_pause_says_when_going_on_may_help() -> None:
    # 1,767,323,045 seconds after 1970 are 2026-01-02 03:04:05.
    paused = [*beginning(), RunPaused(reason="provider", detail="limit", until=1_767_323_045.5)]
    assert told(paused)[-1] == "going on may help from 2026-01-02 03:04 UTC"
    (line,) = [
        line for line in summary_lines(fold(RUN, stored(paused))) if line.startswith("go on")
    ]
    assert line == f"go on:  orchestrate resume {RUN}, from 2026-01-02 03:04 UTC on"


@pytest.mark.parametrize("at", [1e300, -1e300, 1e18])
def test_a_moment_that_is_none_harms_nobody(at: float) -> None:
    assert moment(at) == "an unknown time"


def test_a_plan_is_one_line_and_cannot_drive_a_terminal() -> None:
    line = product_line(PROPOSAL)
    assert line.startswith("1 task: One part. ")
    assert line.isprintable()
    unsaid = PROPOSAL.model_copy(update={"why": ""})
    assert product_line(unsaid) == "1 task: status filter"


def test_the_report_tells_the_plan_its_approval_and_where_it_landed() -> None:
    events = stored(done())
    state = fold(RUN, events)
    report = report_markdown(state, events)
    assert f"- Landed: in `main` at `{FINAL}`\n" in report
    assert "\n## Planning\n\n- what plan handed in waited for approval\n" in report
    assert "- what plan handed in was approved\n- plan made the plan: One part.\n" in report
    assert "  - adds `fix`\n" in report
    assert "- `fix` Add it. " in report
    assert "\n## x" not in report
    document = json.loads(report_json(state, events))
    assert document["landed"]["branch"] == "main"
    assert [one["by"] for one in document["replans"]] == ["plan"]
    assert json.loads(report_json(fold(RUN, stored(whole())), []))["landed"] is None


def test_the_summary_says_where_it_landed_and_no_more_how_to_take_it() -> None:
    lines = list(summary_lines(fold(RUN, stored(done()))))
    assert f"landed: main at {FINAL[:12]}" in lines
    assert not [line for line in lines if line.startswith("take it")]
    assert lines[0] == f"run {RUN}: succeeded in 11.0s", "not until it was landed"


def test_a_plan_is_kept_as_a_file_like_any_product(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.product("plan").parent.mkdir(parents=True)
    observe = product_files(folder)
    state = RunState(RUN)
    for event in stored(done()):
        observe(event, evolve(state, event))
    (kept,) = folder.product("plan").parent.iterdir()
    assert PlanProposal.model_validate_json(kept.read_text(encoding="utf-8")) == PROPOSAL
