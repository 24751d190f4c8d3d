"""Whole runs whose agents are asked over the Messages API, by the real SDK, from a test server.

Faults that are waited out are in `test_faults`; here is what ends or pauses a run, and what a
model's answers may lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator import data
from orchestrator.cli import session
from orchestrator.cli.options import ResumeOptions, RunOptions
from orchestrator.core.events import AttemptFailed, RunPaused
from tests.e2e.served import (
    Served,
    assert_bodies_are_append_only,
    assert_no_tool_ran_twice,
    assert_nothing_was_refused,
    demo_place,
    environment,
    run_served,
    variables,
)
from tests.e2e.support import (
    Call,
    Place,
    bash,
    change,
    make_place,
    of_task,
    report,
    turns,
    types,
    write,
    write_yaml,
    writer,
)
from tests.support.api.answer import Outage
from tests.support.api.conversation import (
    Conversation,
    Turn,
    call,
    say,
    script_policy,
    thoughtful,
    turns_policy,
)
from tests.support.api.faults import Faults
from tests.support.api.server import ApiServer
from tests.support.repositories import git
from tests.support.virtual_clock import VirtualClock

pytestmark = pytest.mark.timeout(180)

READ: Call = {"Read": {"file_path": "list.txt"}}
EXPLORER = {"role": "explorer", "prompt": "look", "attempts": 1, "on_failure": "fail"}
CREDIT = Outage(
    400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
)
REVOKED = Outage(401, "authentication_error", "invalid x-api-key")
FAR = Outage(429, "rate_limit_error", "This would exceed your limit", {"retry-after": "90000"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


def plan(place: Place, tasks: Mapping[str, object], **settings: object) -> Path:
    return write_yaml(place.repository.parent / "plan.yaml", {**settings, "tasks": dict(tasks)})


def evidence(served: Served, task: str) -> tuple[str, str]:
    """Reason and evidence of the only failure of a task."""
    (failed,) = (
        event
        for event in served.place.events()
        if isinstance(event, AttemptFailed) and event.task == task
    )
    return failed.reason, failed.evidence


def test_the_demo_ends_with_the_same_tree_as_with_the_scripted_model(tmp_path: Path) -> None:
    demo = data.demo("kitebase")
    policy = thoughtful(script_policy(demo.script))
    served = run_served(demo_place(tmp_path / "served"), demo.plan, policy, demo=True)
    scripted = demo_place(tmp_path / "scripted")
    options = RunOptions(
        plan=demo.plan, repo=scripted.repository, scripted=demo.script, sandbox="off", demo=True
    )
    with variables({"ORCHESTRATE_HOME": str(scripted.home)}):
        assert session.start(options) == 0
    assert served.code == 0
    assert served.tree == git(
        scripted.repository, "rev-parse", f"orchestrate/{scripted.id}^{{tree}}"
    )
    assert_nothing_was_refused(served)
    assert_no_tool_ran_twice(served)
    assert_bodies_are_append_only(served.server.log)


def test_a_recorded_run_is_replayed_offline_to_the_same_tree(tmp_path: Path) -> None:
    place = make_place(tmp_path / "one", {"list.txt": "one\n"})
    file = plan(place, {"w": writer(gates=["test -f new.txt"])})
    tape = tmp_path / "run.jsonl"
    script = {"w": turns(READ, write("new.txt", "1\n"), change())}
    served = run_served(place, file, thoughtful(script_policy(script)), record=tape)
    assert served.code == 0
    again = make_place(tmp_path / "two", {"list.txt": "one\n"})
    with variables({"ORCHESTRATE_HOME": str(again.home)}):
        code = session.start(
            RunOptions(plan=file, repo=again.repository, replay=tape, model=None, sandbox="off")
        )
    assert code == 0
    tree = git(again.repository, "rev-parse", f"orchestrate/{again.id}^{{tree}}")
    assert tree == served.tree


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(CREDIT, id="L03 no credit"),
        pytest.param(FAR, id="L03 far reset"),
        pytest.param(REVOKED, id="L16 key revoked"),
    ],
)
def test_L03_L16_a_hard_limit_pauses_the_run_and_resume_goes_on(
    place: Place, outage: Outage
) -> None:
    tasks = {name: writer(writes=[f"/{name}.txt"]) for name in ("a", "b")}
    file = plan(place, tasks, gates=["test -f a.txt -a -f b.txt"])
    script = {
        name: turns(READ, bash(f"echo {name} >> {name}.txt"), change(name)) for name in ("a", "b")
    }
    policy = thoughtful(script_policy(script))

    def before(conversation: Conversation) -> Outage | None:
        return outage if conversation.turn >= 1 else None

    served = run_served(place, file, policy, before=before)
    assert served.code == 4
    events = place.events()
    (paused,) = (event for event in events if isinstance(event, RunPaused))
    assert paused.reason == "provider"
    assert (paused.until is not None) == (outage is FAR)
    assert types(events)["AttemptFailed"] == 0
    assert types(events)["PlanRevised"] == 1
    assert len(served.server.log) <= 4, "nobody asks on"
    with ApiServer(policy) as server, variables(environment(place)):
        again = ResumeOptions(repo=place.repository, base_url=server.url, sandbox="off")
        assert session.resume(None, again, clock=VirtualClock()) == 0
    assert types(place.events())["AttemptFailed"] == 0
    branch = f"orchestrate/{place.id}"
    assert git(place.repository, "show", f"{branch}:a.txt") == "a"
    assert git(place.repository, "show", f"{branch}:b.txt") == "b"


def test_L04_three_minutes_of_overload_are_waited_for_and_nobody_hammers(place: Place) -> None:
    tasks = {f"look-{number}": EXPLORER for number in range(6)}
    down_until = 180.0
    asked = list[float]()

    def before(conversation: Conversation) -> Outage | None:
        if served_clock.now() < down_until:
            asked.append(served_clock.now())
            return Outage(529, "overloaded_error", "Overloaded")
        return None

    served_clock = VirtualClock()
    policy = script_policy({"*": turns(READ, report())})
    served = run_served(
        place, plan(place, tasks, workers=6), policy, before=before, clock=served_clock
    )
    assert served.code == 0
    assert served_clock.now() >= down_until
    assert len(asked) < 6 + 60, "one asks for all"
    assert types(place.events())["AttemptFailed"] == 0


def test_L06_thoughts_come_back_and_no_model_is_shown_another_ones(place: Place) -> None:
    tasks = {
        "a": {**EXPLORER, "model": "claude-sonnet-5-5"},
        "b": {**EXPLORER, "needs": ["a"], "model": "claude-fable-5-1"},
    }
    policy = thoughtful(script_policy({"*": turns(READ, report())}))
    served = run_served(place, plan(place, tasks), policy)
    assert served.code == 0
    assert_nothing_was_refused(served)
    thoughts = [
        block["type"]
        for item in served.server.log
        for message in item.body["messages"]
        if message["role"] == "assistant"
        for block in message["content"][:1]
    ]
    assert thoughts == ["thinking", "thinking"]


def test_L08_many_parallel_calls_over_many_turns_keep_to_four_marks(place: Place) -> None:
    reads: list[Call] = [{"Read": {"file_path": "list.txt", "limit": n + 1}} for n in range(24)]
    script = {"look": turns(reads[:6], reads[6:12], reads[12:18], reads[18:], report())}
    served = run_served(
        place,
        plan(place, {"look": EXPLORER}),
        thoughtful(script_policy(script)),
        least_cached=1,
    )
    assert served.code == 0
    assert_nothing_was_refused(served)
    assert_bodies_are_append_only(served.server.log)
    counters = [item.counters for item in served.server.log]
    assert [counted.input for counted in counters] == [0] * 5, "everything is kept"
    for before, after in pairwise(counters):
        assert after.read == before.prompt, "all that was sent before is read"


def test_A02_A10_cut_replies_run_nothing_and_end_the_attempt(place: Place) -> None:
    cut = Turn(
        (say("I write."), call("Write", file_path="new.txt", content="x" * 99)), "max_tokens"
    )
    tasks = {"w": writer(attempts=1, on_failure="fail")}
    served = run_served(place, plan(place, tasks), turns_policy(*[cut] * 9))
    assert served.code == 1
    reason, why = evidence(served, "w")
    assert (reason, why.split(":")[0]) == ("limit", "output_too_long")
    assert len(served.server.log) == 3
    assert [item.body["max_tokens"] for item in served.server.log[1:]] == [
        2 * served.server.log[0].body["max_tokens"]
    ] * 2
    assert place.branches() == {}


def test_A03_A25_saying_nothing_and_saying_done_are_no_work(place: Place) -> None:
    tasks = {"w": writer(attempts=1, on_failure="fail")}
    policy = turns_policy(Turn(), Turn((say("All tests pass."),)))
    served = run_served(place, plan(place, tasks), policy)
    assert served.code == 1
    assert evidence(served, "w")[0] == "nothing_handed_in"
    assert_nothing_was_refused(served)


def test_A05_turns_that_run_out_are_no_success(place: Place) -> None:
    tasks = {"look": {**EXPLORER, "budget": {"turns": 2}}}
    policy = turns_policy(*[Turn((say("fine"), call("Glob", pattern=f"{n}"))) for n in range(9)])
    served = run_served(place, plan(place, tasks), policy)
    assert served.code == 1
    assert evidence(served, "look")[0] == "limit"
    assert len(served.server.log) == 2


def test_A09_the_same_call_again_and_again_is_stuck(place: Place) -> None:
    tasks = {"look": EXPLORER}
    policy = turns_policy(*[Turn((call("Bash", command="false"),))] * 50)
    served = run_served(place, plan(place, tasks), policy)
    assert served.code == 1
    assert evidence(served, "look")[0] == "stuck"
    assert len(served.server.log) == 5


def test_A16_arguments_that_stay_broken_fail_their_task_alone(place: Place) -> None:
    tasks = {"look": EXPLORER, "other": EXPLORER}
    served = run_served(
        place,
        plan(place, tasks),
        script_policy({"*": turns(READ, report())}),
        faults=Faults(0, {"bad_json": 1.0}),
        healthy=("other",),
    )
    assert served.code == 1
    assert evidence(served, "look")[0] == "provider"
    assert of_task(place.events(), "other") == ["AttemptStarted", "AttemptSucceeded"]
    assert len(served.server.asked("look")) <= 6


def test_A17_a_refusal_is_final_and_is_shown_with_its_task(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = Turn((), "refusal", {"type": "refusal", "category": "cyber", "explanation": "no"})
    served = run_served(place, plan(place, {"look": EXPLORER}), turns_policy(refusal))
    assert served.code == 1
    assert evidence(served, "look")[0] == "refused"
    assert len(served.server.log) == 1
    assert "refused" in capsys.readouterr().err


def test_L10_a_prompt_that_is_too_long_is_not_sent_again_as_it_is(place: Place) -> None:
    served = run_served(
        place,
        plan(place, {"look": {**EXPLORER, "attempts": 2}}),
        script_policy({"*": turns(READ, report())}),
        window_tokens=100,
    )
    assert served.code == 1
    prompts = [str(item.body["messages"]) for item in served.server.log]
    assert len(prompts) == len(set(prompts)) <= 2
    assert all("too long" in item.error for item in served.server.log)


def test_L13_the_last_turn_asks_to_hand_in_and_every_agent_reports(place: Place) -> None:
    tasks = {f"look-{n}": {**EXPLORER, "budget": {"turns": 2}} for n in range(4)}

    def policy(conversation: Conversation) -> Turn:
        last = "This is your last turn" in conversation.last_results
        return Turn(
            (call("SubmitReport", summary="so far") if last else call("Glob", pattern="*"),)
        )

    served = run_served(place, plan(place, tasks), policy)
    assert served.code == 0
    assert types(place.events())["AttemptSucceeded"] == 4


def test_L15_blocks_of_kinds_to_come_go_back_as_they_came(place: Place) -> None:
    strange = {"type": "hologram", "data": "\u00e9\u2028", "n": [1, 2.0, {"x": None}]}

    def policy(conversation: Conversation) -> Turn:
        asked = call("Read", file_path="list.txt") if conversation.turn == 0 else None
        return Turn((strange, asked or call("SubmitReport", summary="so")))

    served = run_served(place, plan(place, {"look": EXPLORER}), policy)
    assert served.code == 0
    assert_nothing_was_refused(served)
    assert served.server.log[1].body["messages"][1]["content"][0] == strange


def test_a_server_of_somebody_else_and_a_model_of_any_name_will_do(place: Place) -> None:
    served = run_served(
        place,
        plan(place, {"look": EXPLORER}),
        script_policy({"*": turns(READ, report())}),
        plain=True,
        model="qwen3-coder:30b",
    )
    assert served.code == 0
    assert {item.model for item in served.server.log} == {"qwen3-coder:30b"}


def test_a_paused_turn_is_sent_again_unchanged(place: Place) -> None:
    def policy(conversation: Conversation) -> Turn:
        if conversation.messages[-1]["role"] == "user" and conversation.turn == 0:
            return Turn((say("Wait."),), "pause_turn")
        return Turn((call("SubmitReport", summary="so"),))

    served = run_served(place, plan(place, {"look": EXPLORER}), policy)
    assert served.code == 0
    first, second = served.server.log
    assert second.body["messages"] == [
        *first.body["messages"],
        {"role": "assistant", "content": [{"type": "text", "text": "Wait."}]},
    ]
