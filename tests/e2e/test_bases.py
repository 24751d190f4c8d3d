"""Where a run is started from: its base is the caller's own HEAD, and nobody's tree is switched."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.events import RunStarted
from tests.e2e.support import (
    Place,
    bash,
    change,
    changes,
    finished,
    make_place,
    meeting_point,
    met,
    snapshot,
    turns,
    wait_at,
    with_programs_in,
    writer,
)
from tests.support.repositories import commit_files, git

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """On `feature`, two commits ahead of main; a linked worktree `other` on a branch of its own."""
    place = make_place(tmp_path, {"a.txt": "1\n", "sub/b.txt": "b\n"})
    top = place.repository
    git(top, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    commit_files(tmp_path / "other", {"other.txt": "o\n"})
    git(top, "checkout", "-q", "-b", "feature")
    commit_files(top, {"f1.txt": "1\n"})
    commit_files(top, {"f2.txt": "2\n"})
    return place


def words(place: Place) -> list[str]:
    return place.plan({"w": writer()}, {"w": turns(bash("ls > files.txt"), change())})


@pytest.mark.parametrize(
    ("folder", "branch", "files"),
    [
        ("kite/sub", "feature", "a.txt f1.txt f2.txt sub"),
        ("other", "other", "a.txt other.txt sub"),
        ("other/sub", "other", "a.txt other.txt sub"),
    ],
)
def test_W12_T05_the_base_is_the_head_of_the_folder_that_one_stands_in(
    place: Place, folder: str, branch: str, files: str
) -> None:
    cwd = place.repository.parent / folder
    before = snapshot(place.repository), snapshot(place.repository.parent / "other")
    result = place.run(*words(place), cwd=cwd)
    assert result.code == 0, result.err
    head = git(place.repository, "rev-parse", branch)
    assert head[:12] in result.err
    started = place.events()[0]
    assert isinstance(started, RunStarted)
    assert (started.base, started.base_branch) == (head, branch)
    assert git(place.repository, "rev-parse", f"orchestrate/{place.id}^") == head
    seen = git(place.repository, "show", f"orchestrate/{place.id}:files.txt").split()
    assert [name for name in seen if name != "files.txt"] == files.split()
    assert changes(before[0], place.repository) == []
    assert changes(before[1], place.repository.parent / "other") == []


def test_W12_base_by_option_and_from_elsewhere(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    result = place.run(
        *words(place), "--repo", str(place.repository), "--base", "main", cwd=tmp_path / "elsewhere"
    )
    assert result.code == 0, result.err
    parent = git(place.repository, "rev-parse", f"orchestrate/{place.id}^")
    assert parent == git(place.repository, "rev-parse", "main")


def test_D07_the_base_stays_when_the_branch_moves_meanwhile(place: Place) -> None:
    base = git(place.repository, "rev-parse", "HEAD")
    bin_folder = place.repository.parent / "bin"
    here = meeting_point(bin_folder / "here")
    plan = place.plan({"w": writer()}, {"w": turns(wait_at(here), bash("> w.txt"), change())})
    with place.started(*plan, **with_programs_in(bin_folder)) as process:
        met(here, process)
    here.unlink()
    moved = commit_files(place.repository, {"a.txt": "moved\n"})
    git(place.repository, "checkout", "-q", "main")
    resumed = place.run("resume", place.id)
    assert resumed.code == 0, resumed.err
    assert git(place.repository, "rev-parse", f"orchestrate/{place.id}^") == base
    assert git(place.repository, "rev-parse", "feature") == moved


def test_W15_workspaces_lie_outside_the_repository(place: Place) -> None:
    """While an agent works in one, the repository looks as if nobody was there."""
    status = git(place.repository, "status", "--porcelain", "--ignored")
    bin_folder = place.repository.parent / "bin"
    here = meeting_point(bin_folder / "here")
    plan = place.plan({"w": writer()}, {"w": turns(wait_at(here))})
    with place.started(*plan, **with_programs_in(bin_folder)) as process:
        met(here, process)
        (tree,) = place.state.trees.glob("*/tree")
        assert not tree.resolve().is_relative_to(place.repository)
        assert git(place.repository, "status", "--porcelain", "--ignored") == status
        assert len(git(place.repository, "worktree", "list").splitlines()) == 2
        process.terminate()
        assert finished(process).code == 143
    assert place.left_behind() == []
