"""Ctrl-C and SIGTERM in the middle of agents' commands; and two who want one run."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.support import (
    Place,
    bash,
    change,
    finished,
    make_place,
    meeting_point,
    met,
    of_task,
    turns,
    wait_at,
    with_programs_in,
    writer,
)
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

NAMES = ("a", "b")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"x.txt": "1\n"}, **with_programs_in(tmp_path / "bin"))


def stopping(place: Place, here: Path) -> list[str]:
    """The words for a run whose two writers stop at the meeting point."""
    return place.plan(
        {name: writer(writes=[f"/{name}.txt"]) for name in NAMES},
        {name: turns(bash(f"echo > {name}.txt"), wait_at(here), change()) for name in NAMES},
        gates=["test -f a.txt && test -f b.txt"],
    )


def assert_whole(place: Place) -> None:
    """The run has ended well, without the file that interrupted commands had still to make."""
    names = git(place.repository, "ls-tree", "--name-only", place.branches()[place.id])
    assert names.split() == ["a.txt", "b.txt", "x.txt"]
    assert place.left_behind() == []


@pytest.mark.parametrize(
    ("numbers", "code", "sandbox"),
    [
        ([signal.SIGINT], 130, "auto"),
        ([signal.SIGTERM], 143, "auto"),
        ([signal.SIGTERM], 143, "off"),
        ([signal.SIGINT, signal.SIGINT], 130, "off"),
    ],
)
def test_S03_a_signal_ends_all_commands_and_the_run_can_go_on(
    place: Place, numbers: list[signal.Signals], code: int, sandbox: str
) -> None:
    here = meeting_point(place.repository.parent / "bin" / "here")
    with place.started(*stopping(place, here), "--sandbox", sandbox) as process:
        met(here, process, times=2)
        for number in numbers:
            process.send_signal(number)
        result = finished(process)
    here.unlink()
    assert result.code == code, result.err
    assert f"orchestrate resume {place.id}" in result.err.splitlines()[-1]
    assert "Traceback" not in result.err
    assert place.left_behind() == []
    events = place.events()
    assert [event.type for event in events[-3:]] == ["AttemptLost", "AttemptLost", "RunPaused"]
    assert all(of_task(events, name) == ["AttemptStarted", "AttemptLost"] for name in NAMES)
    resumed = place.run("resume", place.id[:-2], "--sandbox", sandbox)
    assert resumed.code == 0, resumed.err
    assert_whole(place)


def test_D03_the_second_who_wants_a_run_is_sent_away(place: Place) -> None:
    here = meeting_point(place.repository.parent / "bin" / "here")
    with place.started(*stopping(place, here)) as first:
        met(here, first, times=2)
        beside = place.run("resume")
    with place.started("resume") as second:
        met(here, second, times=2)
        third = place.run("resume")
        second.send_signal(signal.SIGTERM)
        assert finished(second).code == 143
    here.unlink()
    for refused, holder in ((beside, first), (third, second)):
        assert (refused.code, refused.out) == (5, ""), refused.err
        assert refused.err.startswith(f"run {place.id} is being run by process {holder.pid} on ")
        assert len(refused.err.splitlines()) == 1
    assert place.run("resume").code == 0
    assert_whole(place)
