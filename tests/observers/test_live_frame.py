"""The live table as text: what is on it at which moment of a story, and that it always fits."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from orchestrator.core.events import (
    ApprovalAsked,
    AttemptFailed,
    Event,
    PlanRevised,
    RunPaused,
    RunStarted,
    TaskBlocked,
)
from orchestrator.core.machine import evolve, fold
from orchestrator.core.plan import PlanSettings, RunBudget, Task
from orchestrator.core.products import Change, PlanPatch
from orchestrator.core.state import RunState
from orchestrator.observers.activity import Activity
from orchestrator.observers.board import NEEDS_YOU, ROWS_MAX, Board, BoardKeeper
from orchestrator.observers.frame import frame
from orchestrator.observers.text import clean_line
from tests.observers.story import (
    BASE,
    FILTER,
    REPLAN,
    ROLES,
    RUN,
    beginning,
    failing,
    gate,
    started,
    stored,
    succeeded,
    usage,
    whole,
)

INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def board_of(events: Sequence[Event]) -> Board:
    keeper, state, board = BoardKeeper(), RunState(RUN), Board()
    for event in stored(events):
        board = keeper.see(event, evolve(state, event))
    return board


def picture(
    board: Board,
    width: int = 79,
    height: int = 23,
    *,
    later: float = 0,
    doing: dict[str, Activity] | None = None,
) -> list[str]:
    console = Console(
        file=io.StringIO(), record=True, width=width, height=height, color_system=None, emoji=False
    )
    console.print(frame(board, doing or {}, board.at + later, width, height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def run_of(tasks: Sequence[Task], **keys: object) -> list[Event]:
    first = RunStarted(
        repository="/somewhere/.git",
        base=BASE,
        base_branch=None,
        settings=PlanSettings.model_validate({"name": "p", **keys}),
        roles=ROLES,
        model="m",
        sandbox="none",
        workspace="checkout",
    )
    return [first, PlanRevised(by=None, add=tuple(tasks))]


def test_who_works_on_what_and_who_waits_for_whom() -> None:
    doing = {"filter": Activity("Edit tickets/search.py", False, usage(0.5))}
    board = board_of([*beginning(), started("filter")])
    assert picture(board, later=7, doing=doing) == [
        "running 11.0s  1/3 done  $0.7500  cache 96%  6,320 tokens",
        "status     task       try  time     cost  now, or result",
        "succeeded  look         1  1.5s  $0.2500  It is in search.py",
        "running    filter       1  7.0s  $0.5000  Edit tickets/search.py",
        "pending    integrate                      waits for filter",
        "longest chain left, 2 tasks: filter > integrate",
    ]


def test_a_wide_table_has_roles_tokens_and_the_runs_id() -> None:
    board = board_of([*beginning(), started("filter")])
    assert picture(board, 119) == [
        f"running 4.0s  1/3 done  $0.2500  cache 96%  3,160 tokens  {RUN}",
        "status     task       role         try  time  tokens     cost  now, or result",
        "succeeded  look       explorer       1  1.5s   3,160  $0.2500  It is in search.py",
        "running    filter     implementer    1  0.0s                   starts",
        "pending    integrate                                           waits for filter",
        "longest chain left, 2 tasks: filter > integrate",
    ]


def test_a_red_gate_shows_its_end_until_it_is_mended() -> None:
    replanning: list[Event] = [
        *failing(),
        PlanRevised(by=None, replans="integrate", add=(REPLAN,)),
        started("replan-1"),
    ]
    lines = picture(board_of(replanning), 99)
    assert lines[0].endswith("1 of 3 replans  9,480 tokens")
    assert lines[4] == (
        "failed     integrate    1  0.5s           "
        "replan-1 is to mend it; gate tests failed: search return…"
    )
    assert lines[-2:] == ["integrate: gate tests failed", "| search returned []"]
    assert not any("gate tests failed" in line for line in picture(board_of(whole()), 99))


def test_money_and_time_stand_against_the_budget() -> None:
    events = run_of([Task(id="a", role="explorer")], budget=RunBudget(usd=3, minutes=30))
    told = picture(board_of([*events, started("a")]), later=124)
    assert told[0].startswith("running 2m06s of 30m00s  0/1 done  $0.0000 of $3.0000")


def test_what_an_ended_attempt_has_cost_is_counted_once() -> None:
    events = [*run_of([Task(id="a", role="explorer")]), started("a"), succeeded("a", BASE)]
    still = {"a": Activity(usage=usage(5_000))}
    assert picture(board_of(events), doing=still)[0] == picture(board_of(events))[0]


def test_a_pause_says_why_and_how_to_go_on() -> None:
    asked: list[Event] = [
        *failing(),
        PlanRevised(by=None, replans="integrate", add=(REPLAN,)),
        started("replan-1"),
        succeeded("replan-1", FILTER, product=PlanPatch(why="Another task is needed")),
        ApprovalAsked(what="replans", task="replan-1"),
        RunPaused(reason="approval", detail="of `replan-1`"),
    ]
    lines = picture(board_of(asked), later=500)
    assert lines[0].startswith("paused 14.0s  ")
    assert lines[1] == "paused: approval: of `replan-1`"
    assert lines[2].startswith(f"go on:  orchestrate resume {RUN}")
    assert any(line.startswith(NEEDS_YOU) and "you to agree: Another" in line for line in lines)


def test_more_tasks_than_lines_are_counted_the_urgent_ones_first() -> None:
    tasks = [Task(id=f"t{n}", role="explorer", on_failure="fail", attempts=1) for n in range(50)]
    last = Task(id="last", role="explorer", needs=("t2",))
    failed = AttemptFailed(
        task="t2",
        attempt=1,
        reason="own_gate_red",
        evidence="",
        signature="s",
        gates=(gate("failed"),),
    )
    events = [
        *run_of([*tasks, last], workers=8),
        *[started(f"t{n}") for n in (2, 9, 4)],
        failed,
        TaskBlocked(task="last", by="t2"),
    ]
    lines = picture(board_of(events), 79, 8)
    assert [line.split()[:2] for line in lines[2:7]] == [
        ["running", "t4"],
        ["running", "t9"],
        ["failed", "t2"],
        ["ready", "t0"],
        ["ready", "t1"],
    ]
    assert lines[7] == "and 45 ready, 1 blocked"
    assert len(lines) == 8


def test_markup_in_a_summary_is_text() -> None:
    summary = "[red]all[/red] :smile: [link=http://x]y[/link] 漢字 🙂"
    events = [
        *beginning(),
        started("filter"),
        succeeded("filter", FILTER, product=Change(summary=summary)),
    ]
    assert any(line.endswith(summary) for line in picture(board_of(events), 120))


def test_Z11_no_control_or_invisible_character_is_drawn() -> None:
    for count in range(1, len(whole()) + 1):
        board = board_of(whole()[:count])
        assert not INVISIBLE.search("".join(picture(board, 119)))


@settings(max_examples=60)
@given(
    count=st.integers(1, len(whole())),
    width=st.integers(1, 220),
    height=st.integers(1, 60),
    text=st.text(max_size=60),
)
def test_T08_it_fits_whatever_the_size(count: int, width: int, height: int, text: str) -> None:
    said = clean_line(text)
    doing = {"filter": Activity(said, False), "look": Activity(said, True)}
    lines = picture(board_of(whole()[:count]), width, height, doing=doing)
    assert 1 <= len(lines) <= height
    assert max(cell_len(line) for line in lines) <= width


def test_catching_up_gives_the_same_board_as_having_been_there() -> None:
    for count in range(1, len(whole()) + 1):
        events = stored(whole()[:count])
        assert BoardKeeper().catch_up(fold(RUN, events), events).rows == (
            board_of(whole()[:count]).rows
        )


def test_counts_are_those_of_the_state() -> None:
    keeper, state = BoardKeeper(), RunState(RUN)
    for event in stored(whole()):
        board = keeper.see(event, evolve(state, event))
        counted: dict[str, int] = {}
        for task in state.tasks.values():
            counted[task.status.value] = counted.get(task.status.value, 0) + 1
        assert dict(board.counts) == counted
        assert {row.task for row in board.rows} == set(state.tasks)


def calls_of_one_event(tasks: int) -> int:
    """How many functions are called to see one more event of a run of so many tasks."""
    events = run_of([Task(id=f"t{n}", role="explorer") for n in range(tasks)], workers=4)
    for number in range(tasks // 2):
        events += [started(f"t{number}"), succeeded(f"t{number}", BASE)]
    events += [started(f"t{tasks // 2}"), succeeded(f"t{tasks // 2}", BASE)]
    *before, event = stored(events)
    keeper, state, calls = BoardKeeper(), RunState(RUN), 0
    for earlier in before:
        evolve(state, earlier)
    keeper.catch_up(state, before)
    evolve(state, event)

    def count(_frame: FrameType, _what: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        board = keeper.see(event, state)
    finally:
        sys.setprofile(None)
    assert len(board.rows) == ROWS_MAX
    return calls


def test_an_event_costs_what_is_shown_not_what_the_plan_holds() -> None:
    assert calls_of_one_event(5_000) <= 1.1 * calls_of_one_event(500)
