"""`cost`: what was paid, for what, by whom; from the journal and the transcripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent.transcript import Entry, Transcript
from orchestrator.core.events import (
    AttemptFailed,
    AttemptLost,
    Event,
    PlanRevised,
    RunStarted,
)
from orchestrator.core.machine import fold
from orchestrator.core.plan import ModelPrice, PlanSettings, RunBudget, Task
from orchestrator.core.usage import Usage
from orchestrator.journal import Journal, RunLog
from orchestrator.messages import Message, Request, TextBlock
from orchestrator.models.prices import price
from orchestrator.observers.cost import Talk, cost_lines, cost_record, split, tries
from orchestrator.state_folder import RunFolder, StateFolder
from tests.cli.inside import run_inside
from tests.cli.program import Result, record
from tests.observers.story import (
    BASE,
    ESCAPES,
    ROLES,
    RUN,
    failing,
    started,
    stored,
    whole,
)
from tests.support.repositories import make_repository

OWN = "model-of-the-plan"
PRICES = {OWN: ModelPrice(input=10, output=50, cache_write=20, cache_read=1)}
"""Dollars per million tokens."""

CALL = Usage(
    input_tokens=1_000,
    cache_write_5m_tokens=2_000,
    cache_read_tokens=7_000,
    output_tokens=400,
    calls=1,
    usd=0.01 + 0.04 + 0.007 + 0.02,
)
"""What a call of that model costs, worked out by hand: 0.077."""


def run_started(budget: RunBudget) -> RunStarted:
    return RunStarted(
        repository="/somewhere/.git",
        base=BASE,
        base_branch="main",
        settings=PlanSettings(name="kite", budget=budget, prices=PRICES),
        roles=ROLES,
        model="m",
        sandbox="none",
        workspace="checkout",
    )


def beginning() -> list[Event]:
    """A run of a task that was lost, failed, and is now running for the third time."""
    lost = AttemptLost(task="filter", attempt=1, why="the disk", usage=CALL)
    failed = AttemptFailed(
        task="filter", attempt=1, reason="stuck", evidence="e", signature="s", usage=CALL + CALL
    )
    return [
        run_started(RunBudget(usd=1.54, tokens=104_000)),
        PlanRevised(by=None, add=(Task(id="filter", role="implementer", prompt="p"),)),
        started("filter"),  # 3
        lost,
        started("filter"),  # 5
        failed,
        started("filter", 2),  # 7
    ]


def speak(folder: RunFolder, attempt: int, seq: int, *replies: tuple[str, Usage]) -> None:
    """Write the transcript of a try of `filter` that began with event `seq`."""

    async def write() -> None:
        transcript = await Transcript.create(folder.transcript("filter", attempt))
        names = {"task": "filter", "attempt": attempt, "model": "asked", "max_tokens": 1}
        request = Request.model_validate({**names, "tools": (), "system": (), "messages": ()})
        await transcript.begin(request, seq)
        for model, usage in replies:
            said = Message(role="assistant", blocks=(TextBlock(text="x"),))
            await transcript.append(Entry(message=said, usage=usage, model=model))
        await transcript.close()

    anyio.run(write)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kite", {"a": "1"})


def costs(repository: Path, home: Path) -> tuple[Result, Result]:
    """The account for people, and the one for programs."""
    words = ("cost", "--repo", str(repository))
    return run_inside(*words, home=home), run_inside(*words, "--json", home=home)


def test_lost_failed_and_running_tries_are_counted(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    speak(folder, 1, 3, (OWN, CALL))
    speak(folder, 1, 5, (OWN, CALL), (OWN, CALL))
    speak(folder, 2, 7, (OWN, CALL))
    assert {path.name for path in folder.transcripts.iterdir()} == {
        *("filter.1.lost-1.jsonl", "filter.1.jsonl", "filter.2.jsonl")
    }
    shown, document = costs(repository, home)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == f"run {RUN}: running, $0.3080 of $1.5400 (20%) and 104,000 tokens (40%)"
    rows = [line.split() for line in lines if line.startswith("filter")]
    numbers = ["2,000", "4,000", "14,000", "800", "70%", "$0.1540"]
    assert [row[1] for row in rows] == ["#1", "#1", "#2"]
    assert rows[1] == ["filter", "#1", "implementer", OWN, *numbers, "failed:", "stuck"]
    assert [row[-1] for row in rows] == ["lost", "stuck", "interrupted"]
    assert "in $0.0400, cache write $0.1600, cache read $0.0280, out $0.0800" in shown.out
    assert "total: 41,600 tokens, 70% cached, $0.3080" in shown.out
    account = json.loads(document.out)
    assert (account["usd"], account["budget_usd"], account["cache_share"]) == (0.308, 1.54, 0.7)
    assert account["usd_by_bucket"] == {
        "in": 0.04,
        "cache_write": 0.16,
        "cache_read": 0.028,
        "out": 0.08,
    }
    (task,) = account["tasks"].values()
    assert [one["usd"] for one in task["tries"]] == [0.077, 0.154, 0.077]
    assert [one["models"] for one in task["tries"]] == [[OWN]] * 3
    assert account["roles"]["implementer"]["tries"] == 3


def test_a_try_of_a_live_run_is_running(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    speak(folder, 2, 7, (OWN, CALL))
    database = StateFolder.for_repository(repository / ".git", home).database
    with RunLog.acquire(folder, Journal.open(database)):
        _, document = costs(repository, home)
    (task,) = json.loads(document.out)["tasks"].values()
    assert (task["tries"][-1]["outcome"], task["tries"][-1]["usd"]) == ("running", 0.077)


def test_a_model_without_a_price_is_named(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    free = CALL.model_copy(update={"usd": 0.0})
    speak(folder, 2, 7, (f"local {ESCAPES}", free), (OWN, CALL))
    shown, document = costs(repository, home)
    (line,) = [line for line in shown.out.splitlines() if line.startswith("no price for")]
    assert line.endswith(": 10,400 tokens counted as $0.0000")
    assert shown.out.replace("\n", "").isprintable()
    assert json.loads(document.out)["no_price"] == {f"local {ESCAPES}": 10_400}


def account(events: Sequence[Event]) -> dict[str, object]:
    log = stored(events)
    state = fold(RUN, log)
    return cost_record(state, tries(state, log, {}, live=False))


def test_replans_and_work_without_transcripts() -> None:
    found = account(whole())
    # Six tries of agents that cost 0.25 each, one of them the planner's.
    assert found["usd"] == 1.5 - 0.25
    assert found["usd_by_bucket"] == {
        "in": 0.0,
        "cache_write": 0.0,
        "cache_read": 0.0,
        "out": 0.0,
        "unknown": 1.25,
    }
    replans = found["replans"]
    assert isinstance(replans, dict)
    assert (replans["charged"], replans["usd"], replans["tries"]) == (1, 0.25, 1)
    log = stored(whole())
    state = fold(RUN, log)
    lines = list(cost_lines(state, tries(state, log, {}, live=False)))
    assert "replans: 1, $0.2500 (20% of the cost)" in lines
    assert not any(line.startswith("integrate") for line in lines), "nobody acted in it"


def test_a_run_that_has_cost_nothing() -> None:
    log = stored(failing()[:2])
    state = fold(RUN, log)
    lines = list(cost_lines(state, tries(state, log, {}, live=False)))
    assert lines[-1] == "total: 0 tokens, - cached, $0.0000"
    assert account(failing()[:2])["cache_share"] is None


def test_shares_of_a_call_worked_out_by_hand() -> None:
    shares = split(OWN, CALL, lambda model, usage: price(model, usage, PRICES))
    by_hand = {"in": 0.01, "cache write": 0.04, "cache read": 0.007, "out": 0.02}
    assert shares == pytest.approx({name: usd / 0.077 for name, usd in by_hand.items()})
    assert split("nobody-knows", CALL, price) == {}


counts = st.integers(0, 400_000)


@given(counts, counts, counts, counts, counts, st.sampled_from(["claude-haiku-5-5", OWN]))
def test_the_buckets_of_a_call_add_up_to_its_price(
    new: int, short: int, long: int, read: int, out: int, model: str
) -> None:
    def known(name: str, usage: Usage) -> float | None:
        return price(name, usage, PRICES)

    usage = Usage(
        input_tokens=new,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        cache_read_tokens=read,
        output_tokens=out,
    )
    cost = known(model, usage)
    assert cost is not None
    talk = Talk()
    talk.add(model, usage.model_copy(update={"usd": cost}), known)
    assert sum(talk.usd.values()) == pytest.approx(cost)
    assert talk.unpriced == {}
