"""`run --land`: what passed its gates comes into the branch that the user is on, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.events import Landed
from tests.cli.inside import run_inside
from tests.cli.planning import GOAL, proposal, scripted
from tests.cli.program import Result
from tests.e2e.support import Place, json_lines, make_place, snapshot
from tests.support.repositories import git, write_files

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


def run(place: Place, *words: str) -> Result:
    """A run for the goal, landed."""
    options = ("--repo", str(place.repository), "--yes", "--land", "--sandbox", "off")
    return run_inside("run", "--goal", GOAL, *words, *options, home=place.home)


def landed(place: Place) -> list[Landed]:
    return [event for event in place.events() if isinstance(event, Landed)]


def test_a_run_that_succeeds_is_landed(place: Place) -> None:
    base = git(place.repository, "rev-parse", "HEAD")
    result = run(place, *scripted(place))
    assert result.code == 0, result.err
    commit = place.branches()[place.id]
    assert git(place.repository, "symbolic-ref", "--short", "HEAD") == "main"
    assert git(place.repository, "rev-parse", "main") == commit
    assert git(place.repository, "status", "--porcelain") == ""
    assert (place.repository / "a.txt").read_text(encoding="utf-8") == "a\n"
    (event,) = landed(place)
    assert (event.branch, event.before, event.commit) == ("main", base, commit)
    assert result.out.splitlines()[-1].startswith(f"landed orchestrate/{place.id} in main")


def test_json_lines_stay_json_lines(place: Place) -> None:
    result = run(place, *scripted(place), "--json")
    assert result.code == 0, result.err
    last = json_lines(result)[-1]
    assert (last["type"], last["status"]) == ("result", "succeeded")
    assert last["commit"] == git(place.repository, "rev-parse", "main")
    assert f"landed orchestrate/{place.id} in main" in result.err


def test_M04_a_run_that_fails_is_not_landed(place: Place) -> None:
    before = snapshot(place.repository)
    tasks = [{**task, "on_failure": "fail"} for task in proposal()["tasks"]]
    red = proposal(gates=["test -f c.txt"], tasks=tasks)
    result = run(place, *scripted(place, red))
    assert result.code == 1, result.err
    assert landed(place) == []
    assert snapshot(place.repository) == before
    assert git(place.repository, "status", "--porcelain") == ""


def test_changes_of_the_user_stop_the_landing_and_lose_nothing(place: Place) -> None:
    write_files(place.repository, {"list.txt": "mine\n"})
    result = run(place, *scripted(place), "--json")
    assert result.code == 3, "the run has succeeded, its landing has not"
    assert json_lines(result)[-1]["status"] == "succeeded"
    assert f"git merge orchestrate/{place.id}" in result.err.splitlines()[-1]
    assert landed(place) == []
    assert (place.repository / "list.txt").read_text(encoding="utf-8") == "mine\n"
    assert place.id in place.branches()
    git(place.repository, "checkout", "--quiet", "list.txt")
    for _ in range(2):  # what was kept back is made up for, once
        again = run_inside("resume", "--repo", str(place.repository), home=place.home)
        assert again.code == 0, again.err
    (event,) = landed(place)
    assert event.commit == git(place.repository, "rev-parse", "main") == place.branches()[place.id]
