"""From a sentence to a branch: a planner, its plan, the plan's agents, all behind a test server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from orchestrator import data
from orchestrator.core.events import AttemptFailed, PlanRevised
from orchestrator.core.plan import Task
from orchestrator.documents import load_document
from tests.cli.inside import run_inside
from tests.cli.program import Result
from tests.e2e.served import MODEL, assert_bodies_are_append_only, demo_place
from tests.e2e.support import Place, of_task, types, with_programs_in
from tests.support.api.conversation import (
    Conversation,
    Policy,
    Raw,
    Turn,
    call,
    say,
    script_policy,
    thoughtful,
)
from tests.support.api.server import KEY, ApiServer
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

GOAL = "Add a --status filter to the search command"
PLANNED = ("filter", "docs", "review", "integrate")
"""Tasks of the bundled plan that the planner here hands in, without those that only explore."""


def proposal() -> Raw:
    """The bundled plan as `SubmitPlan` takes it."""
    path = data.demo("kitebase").plan
    document = load_document(path.read_bytes(), str(path)).data
    plan: Raw = json.loads(json.dumps(document))
    tasks = [
        {
            "id": name,
            **plan["tasks"][name],
            "needs": [need for need in plan["tasks"][name]["needs"] if need in PLANNED],
        }
        for name in PLANNED
    ]
    return {
        "name": "status filter",
        "goal": GOAL,
        "gates": plan["gates"],
        "tasks": tasks,
        "why": "Code and documentation can be written side by side.",
    }


def policy(first_plan: Raw | None = None) -> Policy:
    """A planner that looks around and hands in, and the agents of the bundled script."""
    agents = script_policy(data.demo("kitebase").script)
    plans = [plan for plan in (first_plan, proposal()) if plan is not None]

    def answer(conversation: Conversation) -> Turn:
        if conversation.task != "plan":
            return agents(conversation)
        if conversation.turn == 0:
            read = call("Read", file_path="AGENTS.md")
            return Turn((say("I look around."), read, call("Grep", pattern="search_tickets")))
        return Turn((call("SubmitPlan", plans[conversation.turn - 1]),))

    return thoughtful(answer)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return demo_place(tmp_path)


def orchestrate(place: Place, server: ApiServer, *words: str) -> Result:
    options = ["--repo", str(place.repository), "--base-url", server.url, "--model", MODEL]
    variables = {"ANTHROPIC_API_KEY": KEY, **with_programs_in(Path(sys.executable).parent)}
    return run_inside(*words, *options, "--sandbox", "off", home=place.home, **variables)


def planned(place: Place, run: str) -> list[Task]:
    """The tasks of a run's plan, without the planner's own."""
    revised = [event for event in place.events(run) if isinstance(event, PlanRevised)]
    first = next(event for event in revised if [task.id for task in event.add] != ["plan"])
    return sorted(first.add, key=lambda task: task.id)


def essence(task: Task) -> tuple[object, ...]:
    return task.id, task.role, task.needs, task.gates, task.writes, task.prompt


def tree_of(place: Place) -> str:
    """Tree of the newest run's branch."""
    return git(place.repository, "rev-parse", f"orchestrate/{place.runs()[-1]}^{{tree}}")


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, ApiServer]:
    """The goal, run in one go."""
    place = demo_place(tmp_path_factory.mktemp("goal"))
    with ApiServer(policy()) as server:
        result = orchestrate(place, server, "run", "--goal", GOAL, "--yes")
    assert result.code == 0, result.err
    return place, server


def test_a_goal_becomes_a_plan_parallel_work_a_gate_and_a_branch(
    at_once: tuple[Place, ApiServer],
) -> None:
    place, server = at_once
    assert [item.error for item in server.log if item.status != 200] == []
    assert_bodies_are_append_only(server.log)
    events = place.events()
    assert of_task(events, "plan") == ["AttemptStarted", "AttemptSucceeded"]
    assert {task.id for task in planned(place, place.id)} == set(PLANNED)
    starts = [event.type for event in events if getattr(event, "task", "") in ("filter", "docs")]
    assert starts[:2] == ["AttemptStarted", "AttemptStarted"], "side by side"
    (failed,) = (event for event in events if isinstance(event, AttemptFailed))
    assert (failed.task, failed.reason) == ("integrate", "gate_red")
    assert types(events)["RunFinished"] == 1
    branch = f"orchestrate/{place.id}"
    assert "--status" in git(place.repository, "show", f"{branch}:README.md")
    assert "ValueError" in git(place.repository, "show", f"{branch}:tickets/search.py")
    assert place.left_behind() == []


def test_the_plan_as_a_file_gives_the_same_tasks(
    at_once: tuple[Place, ApiServer], place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    with ApiServer(policy()) as server:
        made = orchestrate(place, server, "plan", GOAL, "-o", str(file))
        assert made.code == 0, made.err
        assert place.branches() == {}, "a plan alone changes nothing"
        assert {item.task for item in server.log} == {"plan"}
        ran = orchestrate(place, server, "run", str(file))
    assert ran.code == 0, ran.err
    other, _ = at_once
    of_file = planned(place, place.runs()[-1])
    assert {task.id for task in of_file} == set(PLANNED)
    assert list(map(essence, of_file)) == list(map(essence, planned(other, other.id)))
    assert tree_of(place) == tree_of(other)


def test_P05_a_plan_with_a_fault_comes_back_to_the_planner(place: Place) -> None:
    wrong = proposal()
    wrong["tasks"][0]["needs"] = ["nowhere"]
    with ApiServer(policy(wrong)) as server:
        result = orchestrate(place, server, "plan", GOAL)
    assert result.code == 0, result.err
    told = server.asked("plan")[-1].body["messages"][-1]["content"]
    assert [block["is_error"] for block in told if block["type"] == "tool_result"] == [True]
    assert "nowhere" in json.dumps(told)
    assert "- id: filter" in result.out
    assert "nowhere" not in result.out
