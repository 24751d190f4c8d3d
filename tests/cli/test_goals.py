"""`run --goal` and `plan`: what is asked, what is printed, what is left, however it ends."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.core.events import AttemptFailed, Event, PlanRevised, RunPaused
from orchestrator.core.plan import Task
from orchestrator.data import builtin
from orchestrator.documents import load_document
from orchestrator.planfile import load_plan
from orchestrator.roles import load_roles, role_sources
from tests.cli.at_terminal import at_terminal
from tests.cli.inside import run_inside
from tests.cli.planning import GATE, GOAL, beside, proposal, scripted
from tests.cli.program import Result, command, environment
from tests.e2e.support import (
    Place,
    change,
    changes,
    json_lines,
    killed,
    make_place,
    of_task,
    refs,
    snapshot,
    submit_patch,
    turns,
    types,
    write,
    writer,
)
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

QUESTION = "Carry this out? [y/N]"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


def inside(place: Place, *words: str) -> Result:
    """The program on the repository, without a start of its own."""
    return run_inside(*words, "--repo", str(place.repository), home=place.home)


def planned(events: list[Event]) -> tuple[Task, ...]:
    """The tasks that the planner's plan has brought in."""
    (revised,) = (one for one in events if isinstance(one, PlanRevised) and one.by == "plan")
    return revised.add


def assert_waits(place: Place, before: dict[str, str], base: str) -> None:
    """The run waits for a person, and the repository knows nothing but a branch at the base."""
    events = place.events()
    assert of_task(events, "plan") == ["AttemptStarted", "AttemptSucceeded", "ApprovalAsked"]
    assert isinstance(events[-1], RunPaused)
    assert events[-1].reason == "approval"
    assert types(events)["PlanRevised"] == 1, "the plan is not applied yet"
    assert place.branches() == {place.id: base}
    assert changes(before, place.repository) == []
    assert place.left_behind() == []


def assert_done(place: Place) -> None:
    """Both files are there, and each task was run once."""
    events = place.events()
    assert types(events)["AttemptStarted"] == 4, "plan, a, b, integrate"
    names = git(place.repository, "ls-tree", "--name-only", place.branches()[place.id])
    assert names.split() == ["a.txt", "b.txt", "list.txt"]
    assert place.left_behind() == []


def test_without_a_terminal_the_plan_is_shown_and_the_run_waits(place: Place) -> None:
    before, base = snapshot(place.repository), git(place.repository, "rev-parse", "HEAD")
    shell = " ".join(f"'{word}'" for word in command("run", "--goal", GOAL, *scripted(place)))
    done = subprocess.run(
        ["bash", "-c", f"{shell} <&-"],
        cwd=place.repository,
        env=environment(place.home),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 4, done.stderr
    for shown in (f"# A plan for: {GOAL}\n", "\n  - id: a\n", "\n  - id: b\n"):
        assert shown in done.stderr
        assert shown not in done.stdout
    assert done.stderr.splitlines()[-1].endswith(f"orchestrate resume {place.id} --approve")
    assert_waits(place, before, base)
    (file,) = re.findall(r"^the plan as a file: (.+)$", done.stderr, re.MULTILINE)
    kept, *_ = load_plan(Path(file), load_roles(role_sources(bundled=builtin("roles")))).plan.tasks
    assert kept.id == "a"
    again = inside(place, "resume")
    assert again.code == 4, again.err
    assert "\n  - id: a\n" in again.err
    assert place.events()[-1].type == "RunPaused"
    assert place.branches() == {place.id: base}
    agreed = inside(place, "resume", "--approve")
    assert agreed.code == 0, agreed.err
    assert types(place.events())["ApprovalGiven"] == 1
    assert_done(place)


def test_yes_carries_it_out_at_once_and_stdout_is_json_lines_alone(place: Place) -> None:
    result = inside(place, "run", "--goal", GOAL, *scripted(place), "--yes", "--json")
    assert result.code == 0, result.err
    assert QUESTION not in result.err
    *events, last = json_lines(result)
    assert [event["type"] for event in events] == [one.type for one in place.events()]
    assert types(place.events())["ApprovalAsked"] == 0
    assert (last["type"], last["status"]) == ("result", "succeeded")
    assert last["commit"] == place.branches()[place.id]
    assert_done(place)


def test_json_lines_of_a_run_that_waits_end_with_its_result(place: Place) -> None:
    result = inside(place, "run", "--goal", GOAL, *scripted(place), "--json")
    assert result.code == 4
    *events, last = json_lines(result)
    assert [event["type"] for event in events] == [one.type for one in place.events()]
    assert (last["type"], last["status"], last["branch"]) == ("result", "paused", None)
    approved = inside(place, "resume", "--yes", "--json")
    assert approved.code == 0
    assert json_lines(approved)[-1]["status"] == "succeeded"


def test_on_a_terminal_it_is_asked_and_no_is_the_default(place: Place) -> None:
    before, base = snapshot(place.repository), git(place.repository, "rev-parse", "HEAD")
    with at_terminal(place, "run", "--goal", GOAL, *scripted(place)) as session:
        assert "  - id: b" in session.shows(QUESTION)
        session.type(b"\n")
        declined = session.ended()
    assert declined.code == 4
    go_on = f"go on: orchestrate resume {place.id} --approve"
    assert "".join(declined.err.splitlines()).endswith(go_on)
    assert_waits(place, before, base)

    with at_terminal(place, "resume") as session:
        session.shows(QUESTION)
        session.ctrl_c()
        interrupted = session.ended()
    assert interrupted.code == 130
    assert "".join(interrupted.err.splitlines()).endswith(go_on)
    assert place.events()[-1].type == "RunPaused"
    assert place.branches() == {place.id: base}
    assert place.left_behind() == []

    with at_terminal(place, "resume", "--json") as session:
        session.shows(QUESTION)
        session.type(b"y\n")
        agreed = session.ended()
    assert agreed.code == 0, agreed.err
    assert json_lines(agreed)[-1]["status"] == "succeeded"
    assert_done(place)


def test_plan_prints_a_file_that_gives_the_tasks_of_run_goal(place: Place) -> None:
    at_first = refs(place.repository)
    made = place.run("plan", GOAL, *scripted(place))
    assert made.code == 0, made.err
    assert made.out.startswith(f"# A plan for: {GOAL}\n")
    assert refs(place.repository) == at_first
    file = beside(place, "plan.yaml")
    file.write_text(made.out, encoding="utf-8")
    plan = load_plan(file, load_roles(role_sources(bundled=builtin("roles")))).plan
    assert [gate.run for gate in plan.gates] == [GATE]
    checked = inside(place, "check", str(file))
    assert (checked.code, checked.err) == (0, "")
    ran = inside(place, "run", "--goal", GOAL, *scripted(place), "--yes")
    assert ran.code == 0, ran.err
    assert planned(place.events(place.runs()[-1])) == plan.tasks
    ran = inside(place, "run", str(file), *scripted(place))
    assert ran.code == 0, ran.err
    first, second = (place.branches()[run] for run in place.runs()[1:])
    trees = {git(place.repository, "rev-parse", f"{one}^{{tree}}") for one in (first, second)}
    assert len(trees) == 1


def test_plan_writes_where_it_is_told_or_runs_nothing(place: Place, tmp_path: Path) -> None:
    words = ("plan", GOAL, *scripted(place))
    for wrong, why in ((tmp_path / "no" / "p.yaml", "no such folder"), (tmp_path, "a folder")):
        refused = inside(place, *words, "-o", str(wrong))
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"-o {wrong}: ")
        assert why in refused.err
        assert len(refused.err.splitlines()) == 1
        assert not place.home.exists()
    at_first = refs(place.repository)
    file = tmp_path / "p.yaml"
    made = inside(place, *words, "--output", str(file))
    assert (made.code, made.out) == (0, "")
    assert f"orchestrate run {file}" in made.err.splitlines()[-1]
    assert inside(place, "check", str(file)).code == 0
    told = inside(place, *words, "--json", "--yes")
    *events, last = json_lines(told)
    assert (told.code, last["type"], last["branch"]) == (0, "result", None)
    assert [event["type"] for event in events] == [
        one.type for one in place.events(place.runs()[-1])
    ]
    assert refs(place.repository) == at_first
    assert types(place.events(place.runs()[-1]))["ApprovalAsked"] == 0


def test_a_planner_that_cannot_make_one_is_told_about(place: Place) -> None:
    wrong = proposal(gates=[], tasks=[{**proposal()["tasks"][0], "needs": ["nowhere"]}])
    result = inside(place, "plan", GOAL, *scripted(place, wrong, wrong, wrong))
    assert (result.code, result.out) == (1, ""), "stdout is for the plan"
    (failed,) = (one for one in place.events() if isinstance(one, AttemptFailed))
    assert failed.reason == "planner_invalid"
    assert "planner_invalid" in result.err
    assert "nowhere" in result.err
    assert place.branches() == {}


@pytest.mark.parametrize("record", [3, 5])
def test_a_plan_that_was_killed_is_printed_by_resume(place: Place, record: int) -> None:
    at_first = refs(place.repository)
    words = ("plan", GOAL, *scripted(place))
    assert killed(place.run(*words, ORCHESTRATE_FAULT=f"journal:{record}:kill"))
    assert refs(place.repository) == at_first
    resumed = inside(place, "resume")
    assert resumed.code == 0, resumed.err
    assert resumed.out.startswith(f"# A plan for: {GOAL}\n")
    assert refs(place.repository) == at_first
    assert place.left_behind() == []
    again = inside(place, "resume")
    assert (again.code, again.out) == (0, resumed.out), "it is still there"


def test_a_patch_is_shown_before_it_is_agreed_to(place: Place) -> None:
    fix = {
        "id": "fix",
        "role": "implementer",
        "prompt": "Write c.txt too",
        "needs": ["a", "b"],
        "writes": ["/c.txt"],
        "gates": [{"name": "c", "run": "test -f c.txt"}],
    }
    patch = submit_patch(
        add=[fix],
        rewire=[{"id": "integrate", "needs": ["a", "b", "fix"]}],
        why="Nobody wrote c.txt",
    )
    words = place.plan(
        {name: writer(writes=[f"/{name}.txt"]) for name in ("a", "b")},
        {
            **{name: turns(write(f"{name}.txt", "1\n"), change()) for name in ("a", "b")},
            "replan-1": turns(patch),
            "fix": turns(write("c.txt", "1\n"), change()),
        },
        gates=["test -f c.txt"],
        approve=["replans"],
    )
    result = inside(place, *words)
    assert result.code == 4, result.err
    at = result.err.index("why: Nobody wrote c.txt\n")
    shown = load_document(result.err[at : result.err.index("\nrun ", at)], "patch")
    assert shown.data == {
        "why": "Nobody wrote c.txt",
        "add": [fix],
        "rewire": [{"id": "integrate", "needs": ["a", "b", "fix"]}],
    }
    assert inside(place, "resume", "--approve").code == 0
    names = git(place.repository, "ls-tree", "--name-only", place.branches()[place.id])
    assert "c.txt" in names.split()
