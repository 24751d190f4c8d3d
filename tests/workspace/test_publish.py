"""The run's one branch: each step may be repeated, and nothing else of the user's is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.errors import RepositoryError
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.publish import BranchPublisher
from orchestrator.workspace.repository import Repository
from tests.support.repositories import (
    commit_files,
    commit_on,
    fingerprint,
    git,
    git_succeeds,
    make_repository,
    write_files,
)

REF = "refs/heads/orchestrate/r1"


@dataclass(slots=True)
class Rig:
    """A dirty repository whose run has a result in the hub."""

    top: Path
    hub: Hub
    base: str
    result: str
    publisher: BranchPublisher
    before: dict[str, str]

    @classmethod
    async def make(cls, tmp_path: Path, *, writes: bool = True) -> Rig:
        top = make_repository(tmp_path / "target", {"a.py": "x = 1\n"})
        base = git(top, "rev-parse", "HEAD")
        write_files(top, {"a.py": "x = 'stashed'\n"})
        git(top, "stash")
        write_files(top, {"a.py": "x = 'mine'\n", "untracked": "u\n"})
        write_files(top / ".git", {"hooks/reference-transaction": "#!/bin/sh\ntouch HOOKED\n"})
        (top / ".git/hooks/reference-transaction").chmod(0o755)
        repository = await Repository.open(top)
        hub = await Hub.open(tmp_path / "state" / "hub.git", repository)
        result = await _result(hub, base)
        publisher = BranchPublisher(hub, repository, run="r1", base=base, writes=writes)
        return cls(top, hub, base, result, publisher, fingerprint(top))

    def branch(self) -> str | None:
        here = git(self.top, "for-each-ref", "--format=%(objectname)", REF)
        return here or None

    def written(self) -> set[str]:
        """Paths in the target that differ from before, object store aside."""
        now = fingerprint(self.top)
        return {path for path in now | self.before if now.get(path) != self.before.get(path)}


async def _result(hub: Hub, base: str) -> str:
    """A commit on top of the base that only the hub has."""
    blob = git(hub.path, "hash-object", "-w", "--stdin", stdin=b"result\n")
    tree = git(hub.path, "mktree", stdin=f"100644 blob {blob}\tnew.py\n".encode())
    return await hub.commit(tree, [base], message="work\n", date=1_700_000_000)


OURS = {".git/refs/heads/orchestrate/r1", ".git/logs/refs/heads/orchestrate/r1"}


@pytest.mark.asyncio
async def test_pin_makes_the_branch_at_the_base_once(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    assert rig.publisher.branch == "orchestrate/r1"
    await rig.publisher.pin()
    assert rig.branch() == rig.base
    assert rig.written() == OURS
    after = fingerprint(rig.top)
    await rig.publisher.pin()
    assert fingerprint(rig.top) == after


@pytest.mark.asyncio
async def test_publish_moves_the_branch_and_brings_the_objects(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    assert not git_succeeds(rig.top, "cat-file", "-e", rig.result)
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert rig.branch() == rig.result
    assert git(rig.top, "show", f"{REF}:new.py") == "result"
    git(rig.top, "fsck", "--strict", "--no-dangling")
    assert rig.written() == OURS
    assert git(rig.top, "status", "--porcelain").splitlines() == [" M a.py", "?? untracked"]


@pytest.mark.asyncio
async def test_publishing_again_after_a_crash_changes_nothing(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    await rig.publisher.publish(rig.result)
    after = fingerprint(rig.top)
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    await rig.publisher.pin()
    assert fingerprint(rig.top) == after


@pytest.mark.asyncio
async def test_publishing_after_a_crash_half_way_goes_on(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    await rig.hub.send(await Repository.open(rig.top), rig.result)  # and then it was killed
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert rig.branch() == rig.result


@pytest.mark.asyncio
async def test_a_branch_that_was_deleted_meanwhile_is_made_again(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    git(rig.top, "branch", "-D", "orchestrate/r1")
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert rig.branch() == rig.result


@pytest.mark.asyncio
async def test_with_nothing_integrated_the_branch_goes(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    assert await rig.publisher.publish(None) is None
    assert rig.branch() is None
    assert rig.written() == set()
    assert await rig.publisher.publish(None) is None


@pytest.mark.asyncio
async def test_a_run_without_writers_has_no_branch(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path, writes=False)
    await rig.publisher.pin()
    assert await rig.publisher.publish(None) is None
    assert (rig.branch(), rig.written()) == (None, set())


@pytest.mark.asyncio
async def test_a_branch_that_the_user_moved_is_left_to_the_user(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    theirs = git(rig.top, "commit-tree", f"{rig.base}^{{tree}}", "-p", rig.base, "-m", "mine")
    git(rig.top, "update-ref", REF, theirs)
    after = fingerprint(rig.top)
    with pytest.raises(RepositoryError, match="rename or delete that branch"):
        await rig.publisher.publish(rig.result)
    assert await rig.publisher.publish(None) is None
    await rig.publisher.pin()
    assert rig.branch() == theirs
    assert fingerprint(rig.top) == after


@pytest.mark.asyncio
async def test_W02_what_the_user_does_meanwhile_stays(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    git(rig.top, "stash", "drop")
    mine = commit_files(rig.top, {"a.py": "x = 'later'\n"}, "mine")
    git(rig.top, "switch", "-q", "-c", "other")
    other = commit_on(rig.top, mine, {"b.py": "\n"})
    git(rig.top, "update-ref", "refs/heads/third", other)
    rig.before = fingerprint(rig.top)
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert rig.written() == OURS


@pytest.mark.asyncio
async def test_two_runs_have_two_branches(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    repository = await Repository.open(rig.top)
    second = BranchPublisher(rig.hub, repository, run="r2", base=rig.base, writes=True)
    for publisher in (rig.publisher, second):
        await publisher.pin()
    assert await second.publish(None) is None
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    branches = git(rig.top, "for-each-ref", "--format=%(refname:short)", "refs/heads/orchestrate")
    assert branches == "orchestrate/r1"


@pytest.mark.asyncio
async def test_a_branch_that_is_checked_out_is_not_moved_under_its_checkout(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    linked = tmp_path / "linked"
    git(rig.top, "worktree", "add", str(linked), "orchestrate/r1")
    with pytest.raises(RepositoryError, match=f"{linked}.*switch to another branch"):
        await rig.publisher.publish(rig.result)
    assert await rig.publisher.publish(None) is None
    assert rig.branch() == rig.base, "nor is it deleted while somebody stands on it"
    git(linked, "switch", "--detach")
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert rig.branch() == rig.result


@pytest.mark.asyncio
async def test_kept_work_survives_a_target_that_collects_the_base(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.hub.keep("r1", "a", 1, rig.result, rejected=True)
    await rig.publisher.pin()
    await rig.publisher.publish(None)
    git(rig.top, "checkout", "--force", "--orphan", "elsewhere")
    git(rig.top, "stash", "clear")
    git(rig.top, "commit", "--allow-empty", "-m", "anew")
    git(rig.top, "branch", "-D", "main")
    git(rig.top, "reflog", "expire", "--expire=now", "--all")
    git(rig.top, "gc", "--prune=now")
    assert not git_succeeds(rig.top, "cat-file", "-e", rig.base)
    git(rig.hub.path, "fsck", "--connectivity-only", "refs/orchestrate/r1/rejected/a/1")
    assert git(rig.hub.path, "rev-list", "--count", rig.result) == "2"


@pytest.mark.asyncio
async def test_a_branch_that_was_made_a_symbolic_ref_moves_no_other_branch(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    await rig.publisher.pin()
    git(rig.top, "symbolic-ref", REF, "refs/heads/main")
    assert await rig.publisher.publish(rig.result) == "orchestrate/r1"
    assert git(rig.top, "rev-parse", "main") == rig.base
    assert rig.branch() == rig.result
