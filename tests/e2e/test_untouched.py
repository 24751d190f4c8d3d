"""The user's repository is byte for byte as before, however a run ends; one branch aside.

The repository is as hostile to machine commits as settings and hooks can make it.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.support import (
    Place,
    bash,
    change,
    changes,
    finished,
    make_place,
    meeting_point,
    met,
    refs,
    snapshot,
    turns,
    wait_at,
    with_programs_in,
    write,
    writer,
)
from tests.support.repositories import commit_files, git, write_files

pytestmark = pytest.mark.timeout(180)

HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-changelist", "post-applypatch"),
    *("post-checkout", "post-commit", "post-index-change", "post-merge", "post-receive"),
    *("post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc", "pre-commit"),
    *("pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg"),
    *("proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate", "update"),
)
SETTINGS = {
    "commit.gpgsign": "true",
    "tag.gpgsign": "true",
    "user.useConfigOnly": "true",
    "core.hooksPath": ".hooks",
    "core.autocrlf": "true",
    "merge.ours.driver": "false",
    "filter.broken.clean": "false",
    "filter.broken.smudge": "false",
    "gc.auto": "1",
}
"""Settings that make git run programs, ask for a name, or change content; `.hooks` is a link."""

WRITE = turns(write("new.txt", "1\n"), bash("echo 2 >> tracked.txt"), change())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with everything in it that a careless program would change or stumble over."""
    home = {"HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    place = make_place(tmp_path, {"tracked.txt": "1\n", "mode.sh": "#!/bin/sh\n"}, **home)
    top = place.repository
    commit_files(top, {".gitignore": "ignored*\n.hooks\n", "staged.txt": "1\n", "sub/x.txt": "x\n"})
    git(top, "tag", "-a", "v1", "-m", "v1")
    git(top, "branch", "packed")
    git(top, "pack-refs", "--all")
    git(top, "branch", "loose")
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(top, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    for number in (1, 2):
        write_files(top, {"tracked.txt": f"stashed {number}\n"})
        git(top, "stash")
    write_files(top, {"staged.txt": "staged\n", "added.txt": "staged\n"})
    git(top, "add", "staged.txt", "added.txt")
    write_files(
        top,
        {
            "staged.txt": "staged, then modified\n",
            "tracked.txt": "modified\n",
            "sub/x.txt": None,
            "untracked.txt": "untracked\n",
            "ignored/secret": "ignored\n",
        },
    )
    (top / "mode.sh").chmod(0o755)
    (top / "link").symlink_to("/etc/passwd")
    _arm(top, tmp_path / "hook-ran")
    return place


def _arm(top: Path, marker: Path) -> None:
    """Hooks, a signing program and a file system monitor that leave `marker` and fail."""
    tattler = f"#!/bin/sh\necho \"$0\" >> '{marker}'\nexit 1\n"
    for name in (*HOOKS, "gpg"):
        path = top / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(tattler, encoding="utf-8")
        path.chmod(0o755)
    (top / ".hooks").symlink_to(".git/hooks")
    programs = {"gpg.program": f"{top}/.git/hooks/gpg", "core.fsmonitor": f"{top}/.git/hooks/gpg"}
    for name, value in {**SETTINGS, **programs}.items():
        git(top, "config", name, value)


class Before:
    """What a repository was like, for comparing."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.linked = place.repository.parent / "linked"
        self.files = snapshot(place.repository), snapshot(self.linked)
        self.refs = refs(place.repository)
        self.head = git(place.repository, "rev-parse", "HEAD")

    def assert_unchanged(self, branches: Mapping[str, str]) -> None:
        """`branches`: commit by run, the only refs that are new."""
        place = self.place
        assert changes(self.files[0], place.repository) == []
        assert changes(self.files[1], self.linked) == []
        new = {f"refs/heads/orchestrate/{run}": commit for run, commit in branches.items()}
        assert refs(place.repository) == self.refs | new
        assert not (place.repository.parent / "hook-ran").exists()


def test_W15_W16_W25_W29_after_a_run_that_succeeds(place: Place) -> None:
    before = Before(place)
    words = place.plan({"w": writer()}, {"w": WRITE})
    result = place.run(*words)
    assert result.code == 0, result.err
    commit = place.branches()[place.id]
    before.assert_unchanged({place.id: commit})
    assert git(place.repository, "show", f"{commit}:tracked.txt") == "1\n2"
    assert git(place.repository, "rev-parse", f"{commit}^") == before.head
    assert git(place.repository, "log", "-1", "--format=%G?%an", commit)[0] == "N"
    git(place.repository, "fsck", "--strict", "--no-dangling")


def test_W15_W25_after_a_run_that_fails(place: Place) -> None:
    before = Before(place)
    words = place.plan(
        {"w": writer(), "merge": {"needs": ["w"], "gates": ["false"]}},
        {"w": WRITE},
        budget={"replans": 0},
    )
    result = place.run(*words)
    assert result.code == 1, result.err
    before.assert_unchanged({})
    assert not (place.repository / ".git" / "refs" / "heads" / "orchestrate").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_W15_W25_after_a_run_that_is_interrupted(place: Place, number: signal.Signals) -> None:
    here = meeting_point(place.repository.parent / "bin" / "here")
    words = place.plan({"w": writer()}, {"w": [*WRITE[:2], *turns(wait_at(here)), WRITE[2]]})
    before = Before(place)
    with place.started(*words, **with_programs_in(here.parent)) as process:
        met(here, process)
        before.assert_unchanged({place.id: before.head})
        process.send_signal(number)
        finished(process)
    before.assert_unchanged({place.id: before.head})
    here.unlink()
    resumed = place.run("resume")
    assert resumed.code == 0, resumed.err
    before.assert_unchanged({place.id: place.branches()[place.id]})
    assert place.left_behind() == []
