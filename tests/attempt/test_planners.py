"""Planners on a real repository: what their desk takes, and what it sends back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from orchestrator.core.goals import goal_plan
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import PlanSettings, RunBudget
from orchestrator.core.products import PlanProposal
from orchestrator.core.usage import Usage
from orchestrator.messages import Reply, Request
from orchestrator.ports import ModelError, Spend
from tests.attempt.rig import IMPLEMENTER, PLANNER, Rig, Watched, call, turn

FIRST = PLANNER.model_copy(update={"product": "plan"})
ROLES = {role.name: role for role in (PLANNER, IMPLEMENTER)}
(OWN,) = goal_plan(PlanSettings(), ROLES).tasks
EMPTY = GraphView(
    settings=PlanSettings(),
    roles=tuple(ROLES.values()),
    tasks=(TaskView(task=OWN, status="running"),),
)


def task(key: str, *needs: str, **rest: JsonValue) -> dict[str, JsonValue]:
    return {"id": key, "role": "implement", "prompt": "Do it.", "needs": list(needs), **rest}


def plan(*tasks: dict[str, JsonValue], gates: JsonValue = "make test") -> dict[str, JsonValue]:
    return {"tasks": list(tasks), "gates": gates, "name": "a plan"}


def submit(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"SubmitPlan": arguments}


@pytest.mark.asyncio
async def test_a_plan_that_cannot_be_run_goes_back_with_all_that_is_wrong(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(submit(plan(task("a", "nowhere"), task("b", role="plumber")))),
        turn(submit(plan(task("a"), task("b"))), expect="the plan cannot be run"),
        turn(submit(plan(task("a"), task("b", "a"))), expect="write the same files"),
    )
    outcome = await rig.run(rig.spec(FIRST, graph=EMPTY))
    assert outcome.status == "succeeded"
    assert isinstance(outcome.product, PlanProposal)
    assert [item.id for item in outcome.product.tasks] == ["a", "b"]
    first = rig.model.results()[0].splitlines()
    assert first[1:] == [
        "- tasks.b.role: there is no role `plumber` (there is `plan`, `implement`)",
        "- tasks.a.needs.0: there is no task `nowhere` (there is `b`)",
    ]
    assert (outcome.commit, outcome.usage.calls) == (rig.base, 3)


@pytest.mark.asyncio
async def test_P05_fenced_then_a_number_then_500_tasks_fails_as_planner_invalid(
    tmp_path: Path,
) -> None:
    rig = await Rig.make(tmp_path)
    overlapping = plan(task("a"), task("b"))
    number: dict[str, JsonValue] = {**plan(), "tasks": [{"id": 1}]}
    many = plan(*(task(f"t{n}") for n in range(500)))
    usage: JsonValue = {"input_tokens": 100, "output_tokens": 10, "calls": 1, "usd": 0.25}
    rig.script(
        turn(say=f"```json\n{json.dumps(overlapping)}\n```", usage=usage),
        turn(say=f"Sorry: {json.dumps(number)}", expect="write the same files", usage=usage),
        turn(submit(many), expect="tasks.0.id: Input should be a valid string", usage=usage),
        turn(submit(plan(task("a")))),
    )
    outcome = await rig.run(rig.spec(FIRST, graph=EMPTY))
    assert (outcome.status, outcome.reason) == ("failed", "planner_invalid")
    assert "refused 3 times" in outcome.evidence
    assert outcome.evidence.count("500 tasks are more than 50") == 1
    assert (outcome.usage.calls, outcome.usage.usd) == (3, 0.75)
    assert (outcome.product, outcome.commit) == (None, None)


@pytest.mark.asyncio
@pytest.mark.parametrize("form", ["```json\n{}\n```", "My plan:\n{}\nThat is all."])
async def test_P05_a_plan_in_text_is_taken(tmp_path: Path, form: str) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(say=form.replace("{}", json.dumps(plan(task("a")), indent=1))))
    outcome = await rig.run(rig.spec(FIRST, graph=EMPTY))
    assert outcome.status == "succeeded"
    assert isinstance(outcome.product, PlanProposal)


@pytest.mark.asyncio
async def test_R05_the_id_of_finished_work_cannot_be_had_for_a_new_task(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    again = call("SubmitPatch", add=[task("work")], why="once more")
    rig.script(turn(again), turn(again, expect="the id `work` is taken"), turn(again))
    done = TaskView(task=OWN.model_copy(update={"id": "work"}), status="succeeded")
    graph = EMPTY.model_copy(update={"tasks": (done,)})
    outcome = await rig.run(rig.spec(PLANNER, graph=graph))
    assert outcome.reason == "planner_invalid"


class Limited:
    """A model whose provider will not go on for now."""

    async def complete(self, _request: Request, spend: Spend | None = None) -> Reply:
        raise ModelError(
            "pause", "rate limited", usage=Usage(input_tokens=7, usd=0.5), until=1_800_000_000.0
        )


@pytest.mark.asyncio
async def test_a_pause_says_until_when_and_what_was_paid(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.model = Watched(Limited())
    outcome = await rig.run(rig.spec(FIRST, graph=EMPTY))
    assert (outcome.status, outcome.until) == ("paused", 1_800_000_000.0)
    assert (outcome.usage.tokens, outcome.usage.usd) == (7, 0.5)


@pytest.mark.asyncio
async def test_a_model_without_a_price_is_refused_where_there_is_a_budget(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    budget = PlanSettings(budget=RunBudget(usd=1))
    graph = EMPTY.model_copy(update={"settings": budget})
    rig.script(
        turn(submit(plan(task("a", model="nobody-knows")))),
        turn(
            submit(plan(task("a", model="claude-opus-5-5"))),
            expect="no price is known for the model nobody-knows, and the run has a budget",
        ),
    )
    outcome = await rig.run(rig.spec(FIRST, graph=graph))
    assert outcome.status == "succeeded"
    assert isinstance(outcome.product, PlanProposal)
    assert outcome.product.tasks[0].model == "claude-opus-5-5"
