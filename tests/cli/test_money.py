"""What a run with a real model may cost: looked at before anybody is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from orchestrator.core.events import AttemptSucceeded
from tests.cli.inside import run_inside
from tests.cli.program import Result
from tests.e2e.support import Call, Place, make_place, report, turns, write_yaml
from tests.support.api.answer import Outage
from tests.support.api.conversation import script_policy
from tests.support.api.server import KEY, ApiServer

pytestmark = pytest.mark.timeout(180)

READ: Call = {"Read": {"file_path": "list.txt"}}
ROLE = "---\nname: seer\ndescription: d\ntools: Read\norchestrate: {product: report}\n---\nSee.\n"
NO_BUDGET = "no budget: only the roles' own ceilings bound the cost; set --budget-usd to bound it"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(script_policy({"*": turns(READ, report())})) as server:
        yield server


def run(place: Place, server: ApiServer, command: str, *words: str) -> Result:
    options = ("--repo", str(place.repository), "--base-url", server.url, "--sandbox", "off")
    return run_inside(command, *words, *options, home=place.home, ANTHROPIC_API_KEY=KEY)


def plan(place: Place, task: Mapping[str, object] | None = None, **settings: object) -> str:
    """A plan with one explorer."""
    look = {"role": "explorer", "prompt": "look", "on_failure": "fail", **(task or {})}
    file = place.repository.parent / "plan.yaml"
    return str(write_yaml(file, {**settings, "tasks": {"look": look}}))


def assert_refused(result: Result, place: Place, server: ApiServer, *parts: str) -> None:
    """One line, and nothing has happened."""
    assert (result.code, result.out) == (2, ""), result
    assert result.err.count("\n") == 1
    for part in parts:
        assert part in result.err
    assert server.log == []
    assert not place.home.exists()
    assert place.branches() == {}


def test_a_budget_needs_a_price_which_the_plan_may_say(place: Place, server: ApiServer) -> None:
    model = ("--model", "in-house-7b")
    words = (plan(place), *model, "--budget-usd", "5")
    mend = "`prices: {in-house-7b: {input: 2, output: 10}}`"
    assert_refused(run(place, server, "run", *words), place, server, "$5", mend)
    own = plan(place, {"budget": {"usd": 2}}, budget={"replans": 0})
    assert_refused(run(place, server, "run", own, *model), place, server, "`look`", mend)
    prices = {"in-house-7b": {"input": 3, "output": 15}}
    result = run(place, server, "run", plan(place, prices=prices), *model, "--budget-usd", "5")
    assert result.code == 0, result.err
    assert "note:" not in result.err
    (done,) = (event for event in place.events() if isinstance(event, AttemptSucceeded))
    prompts = sum(item.counters.prompt for item in server.log)
    assert done.usage.tokens == prompts + done.usage.output_tokens
    assert done.usage.usd == pytest.approx(prompts * 3e-6 + done.usage.output_tokens * 15e-6), (
        "what is written to a cache or read from it costs as much where the plan says no more"
    )
    assert {item.model for item in server.log} == {"in-house-7b"}


def test_a_goal_has_no_file_to_put_a_price_into(place: Place, server: ApiServer) -> None:
    words = ("Look around", "--model", "in-house-7b", "--budget-usd", "5")
    for result in (run(place, server, "plan", *words), run(place, server, "run", "--goal", *words)):
        assert_refused(result, place, server, "in-house-7b", "leave out --budget-usd")


def test_a_task_without_a_model_is_named(place: Place, server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "seer.md").write_text(ROLE, encoding="utf-8")
    words = (plan(place, {"role": "seer"}), "--roles", str(tmp_path / "roles"))
    assert_refused(run(place, server, "run", *words), place, server, "`look`", "--model")
    result = run(place, server, "run", *words, "--model", "claude-haiku-5-5")
    assert result.code == 0, result.err
    assert {item.model for item in server.log} == {"claude-haiku-5-5"}


def test_without_a_budget_it_is_said_what_bounds_the_cost(place: Place, server: ApiServer) -> None:
    result = run(place, server, "run", plan(place))
    assert result.code == 0, result.err
    assert f"note: {NO_BUDGET}\n" in result.err
    bounded = run(place, server, "run", plan(place), "--budget-usd", "5")
    assert bounded.code == 0, bounded.err
    assert "note:" not in bounded.err
    free = run(place, server, "run", plan(place, budget={"replans": 0}), "--model", "in-house-7b")
    assert free.code == 0, free.err
    assert "note: no price is known for in-house-7b: its cost is not counted" in free.err
    assert NO_BUDGET not in free.err


def test_resume_may_not_set_what_cannot_be_kept(place: Place, server: ApiServer) -> None:
    server.state.before = lambda _asked: Outage(401, "authentication_error", "invalid x-api-key")
    words = (plan(place, budget={"replans": 0}), "--model", "in-house-7b")
    assert run(place, server, "run", *words).code == 4
    before, asked = place.events(), len(server.log)
    refused = run(place, server, "resume", "--budget-usd", "5")
    assert (refused.code, refused.out) == (2, "")
    assert "in-house-7b" in refused.err
    assert (place.events(), len(server.log)) == (before, asked)
    server.state.before = lambda _asked: None
    assert run(place, server, "resume").code == 0
