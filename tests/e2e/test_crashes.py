"""Kill -9 after each journal record of the demo, then resume: the same result as without.

The whole matrix is marked slow; the default run takes every fifth record and the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.core.events import Event, PlanRevised
from tests.cli.program import Result, orchestrate
from tests.e2e.support import Place, changes, killed, of_task, snapshot, types
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

RECORDS = 25
"""Records of an uninterrupted demo, counted by hand: the run starts and ends (2); the plan, the
planner task and its patch (3); ten attempts that start and end (20): three explorers, filter, docs,
review, replan-1, fix-status, and integrate twice."""

TASKS = {
    *("explore-search", "explore-status", "explore-tests", "filter", "docs", "review"),
    *("integrate", "replan-1", "fix-status"),
}

EACH = [
    pytest.param(record, marks=() if record % 5 == 1 or record > RECORDS - 2 else pytest.mark.slow)
    for record in range(1, RECORDS + 1)
]


def run_demo(tmp_path: Path, **more: str) -> tuple[Result, Place]:
    """Run the demo; how it ended, and its repository with the program's state."""
    home, temp = tmp_path / "home", tmp_path / "temp"
    temp.mkdir()
    result = orchestrate("demo", cwd=tmp_path, home=home, TMPDIR=str(temp), **more)
    (repository,) = temp.glob("orchestrate-demo-*/kitebase")
    return result, Place(repository, home, {"TMPDIR": str(temp)})


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tree that the demo ends with when nothing goes wrong."""
    result, place = run_demo(tmp_path_factory.mktemp("uninterrupted"))
    assert result.code == 0, result.err
    assert len(place.events()) == RECORDS
    assert place.left_behind() == []
    return tree_of(place)


def tree_of(place: Place) -> str:
    return git(place.repository, "rev-parse", f"{place.branches()[place.id]}^{{tree}}")


def assert_ended_as_ever(place: Place, resumed: Result, tree: str, paid: Sequence[Event]) -> None:
    """The run is over and nobody can tell that it was interrupted. `paid`: events at the kill."""
    assert resumed.code == 0, resumed.err
    assert tree_of(place) == tree
    assert place.left_behind() == []
    events = place.events()
    assert list(paid) == events[: len(paid)]
    assert types(events)["RunFinished"] == 1
    assert types(events)["PlanRevised"] == 3
    assert sum(isinstance(event, PlanRevised) and event.by is not None for event in events) == 1
    for task in TASKS:
        told = of_task(events, task)
        ends = [kind for kind in told if kind not in ("AttemptStarted", "AttemptLost")]
        assert ends == ["AttemptFailed"] * (task == "integrate") + ["AttemptSucceeded"]
        assert told[-1] == "AttemptSucceeded", f"{task} was run again"
    assert_one_merge(place)


def assert_one_merge(place: Place) -> None:
    """The branch holds one commit of each writer and one merge, that of the last integrate."""
    commits = git(
        place.repository,
        "log",
        "--format=%(trailers:key=Orchestrate-Task,valueonly,separator=) %p",
        f"main..{place.branches()[place.id]}",
    )
    parents = {task: len(ids) for task, *ids in map(str.split, commits.splitlines())}
    assert parents == {"filter": 1, "docs": 1, "fix-status": 1, "integrate": 2}
    assert len(commits.splitlines()) == len(parents)


@pytest.mark.parametrize("record", EACH)
def test_D11_killed_after_a_record_the_run_ends_as_ever(
    tmp_path: Path, tree: str, record: int
) -> None:
    result, place = run_demo(tmp_path, ORCHESTRATE_FAULT=f"journal:{record}:kill")
    assert killed(result), result.err
    paid = place.events()
    assert len(paid) == record
    before = snapshot(place.repository)
    resumed = place.run("resume")
    assert_ended_as_ever(place, resumed, tree, paid)
    assert changes(before, place.repository) == []
    assert ("succeeded already" in resumed.err) == (record == RECORDS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (9, 3),
        *(
            pytest.param(*moments, marks=pytest.mark.slow)
            for moments in ((1, 1), (4, 1), (16, 2), (24, 1))
        ),
    ],
)
def test_D11_killed_again_while_resuming(
    tmp_path: Path, tree: str, first: int, second: int
) -> None:
    _, place = run_demo(tmp_path, ORCHESTRATE_FAULT=f"journal:{first}:kill")
    resumed = place.run("resume", ORCHESTRATE_FAULT=f"journal:{second}:kill")
    assert killed(resumed), resumed.err
    paid = place.events()
    assert len(paid) == first + second
    assert_ended_as_ever(place, place.run("resume"), tree, paid)


@pytest.mark.parametrize(
    ("mode", "code"), [("enospc", 6), pytest.param("raise", 70, marks=pytest.mark.slow)]
)
def test_D05_the_branch_is_there_and_its_record_is_not(
    tmp_path: Path, tree: str, mode: str, code: int
) -> None:
    """The last record fails: for `enospc` the branch has moved and the journal does not say so."""
    result, place = run_demo(tmp_path, ORCHESTRATE_FAULT=f"journal:{RECORDS}:{mode}")
    assert result.code == code, result.err
    assert "Traceback" not in result.err
    assert tree_of(place) == tree
    paid = place.events()
    assert_ended_as_ever(place, place.run("resume"), tree, paid)


def test_D05_a_full_disk_ends_the_run_and_loses_nothing(tmp_path: Path, tree: str) -> None:
    result, place = run_demo(tmp_path, ORCHESTRATE_FAULT="journal:8:enospc")
    assert result.code == 6, result.err
    assert "orchestrate resume" in result.err
    assert place.left_behind() == []
    paid = place.events()
    assert len(paid) == 7
    assert_ended_as_ever(place, place.run("resume"), tree, paid)


def test_W11_what_a_dead_run_left_is_swept_and_nothing_else(tmp_path: Path, tree: str) -> None:
    """Also under names that are never used again, half removed, with modes that forbid removal."""
    _, place = run_demo(tmp_path, ORCHESTRATE_FAULT="journal:3:kill")
    trees = place.state.trees
    others = trees / "kitebase-20200101-0000-beef.filter.1"
    for ghost in (trees / f"{place.id}.gone.1", trees / ".trash" / f"{place.id}.old.1.00", others):
        (ghost / "tree" / "closed").mkdir(parents=True)
        (ghost / "tree" / "closed" / "file").touch()
        (ghost / "tree" / "closed").chmod(0)
    resumed = place.run("resume")
    assert place.left_behind() == [f"workspace {others.name}"]
    (others / "tree" / "closed").chmod(0o700)
    (others / "tree" / "closed" / "file").unlink()
    (others / "tree" / "closed").rmdir()
    (others / "tree").rmdir()
    others.rmdir()
    assert_ended_as_ever(place, resumed, tree, place.events()[:3])
