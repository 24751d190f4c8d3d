"""A user's branch and checkout are moved forward by git itself, or left exactly as they are."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.errors import RepositoryError
from orchestrator.workspace.hub import Conflict, Hub
from orchestrator.workspace.landing import Proposal, Target, find_target, is_ancestor, propose
from orchestrator.workspace.repository import Repository
from tests.support.repositories import (
    Files,
    commit_files,
    commit_on,
    fingerprint,
    git,
    git_succeeds,
    make_repository,
    shared_folder,
    write_files,
)

MESSAGE = "Merge orchestrate/r1 into main\n\nOrchestrate-Run: r1\n"
DATE = 1_700_000_500
BEFORE: Files = {"a.py": "x = 1\n", "b.py": "y = 1\n", "old.txt": "old\n", "run.sh": "#!/bin/sh\n"}
GIT_OWN = {".git/index", ".git/logs/HEAD", ".git/logs/refs/heads/main", ".git/refs/heads/main"}
"""What git writes of its own when a branch that is checked out moves."""


@dataclass(slots=True)
class Place:
    """A repository on `main`, and a result on top of it that is on the branch of a run."""

    top: Path
    hub: Hub
    base: str
    result: str
    before: dict[str, str]

    @classmethod
    async def make(cls, tmp_path: Path, top: Path | None = None) -> Place:
        top = top or make_repository(tmp_path / "target", BEFORE)
        base = git(top, "rev-parse", "HEAD")
        result = commit_on(top, base, {"a.py": "x = 2\n", "new/c.py": "z\n", "old.txt": None})
        git(top, "update-ref", "refs/heads/orchestrate/r1", result)
        hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
        return cls(top, hub, base, result, fingerprint(top))

    async def target(self, path: Path | None = None, branch: str = "main") -> Target:
        return await find_target(await Repository.open(path or self.top), branch)

    def changed(self) -> set[str]:
        """Paths that differ from before, object store and git's note for `git reset` aside."""
        now = fingerprint(self.top)
        paths = (now | self.before).keys() - {".git/ORIG_HEAD"}
        return {path for path in paths if now.get(path) != self.before.get(path)}


async def proposed(place: Place, target: Target) -> Proposal:
    found = await propose(place.hub, target, place.result, message=MESSAGE, date=DATE)
    assert isinstance(found, Proposal)
    return found


def hook(top: Path, name: str) -> None:
    """A hook of the user's that leaves a mark when it runs."""
    write_files(top / ".git" / "hooks", {name: f"#!/bin/sh\ntouch '{top}/HOOKED-{name}'\n"})
    (top / ".git" / "hooks" / name).chmod(0o755)


@pytest.mark.asyncio
async def test_the_branch_and_its_checkout_move_and_nothing_else_does(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    write_files(place.top, {"a.py": "x = 'stashed'\n"})
    git(place.top, "stash")
    write_files(place.top, {"untracked.txt": "mine\n"})
    git(place.top, "branch", "other")
    git(place.top, "config", "core.fsmonitor", f"touch '{place.top}/MONITORED'; false")
    for name in ("post-merge", "post-checkout", "reference-transaction", "post-index-change"):
        hook(place.top, name)
    place.before = fingerprint(place.top)
    target = await place.target()
    await target.check()
    assert (target.branch, target.commit) == ("main", place.base)
    assert await target.advance(place.result, run="r1")
    files = {"a.py", "new/c.py", "old.txt"}
    assert place.changed() == files | GIT_OWN
    assert git(place.top, "rev-parse", "main", "HEAD").split() == [place.result] * 2
    git(place.top, "config", "--unset", "core.fsmonitor")
    assert git(place.top, "status", "--porcelain") == "?? untracked.txt"
    assert (place.top / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    assert git(place.top, "reflog", "-1", "--format=%gs", "main").startswith("orchestrate: land r1")


@pytest.mark.asyncio
async def test_modes_and_links_arrive(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    (place.top / "run.sh").chmod(0o755)
    (place.top / "link").symlink_to("a.py")
    git(place.top, "add", "-A")
    tree = git(place.top, "write-tree")
    result = git(place.top, "commit-tree", tree, "-p", place.base, "-m", "modes")
    git(place.top, "reset", "-q", "--hard", place.base)
    assert await (await place.target()).advance(result, run="r1")
    assert stat.S_IMODE((place.top / "run.sh").stat().st_mode) & 0o111
    assert os.readlink(place.top / "link") == "a.py"
    assert git(place.top, "status", "--porcelain") == ""


@pytest.mark.asyncio
async def test_filters_and_line_ends_of_the_users_configuration_count(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", {".gitattributes": "*.up filter=up\n*.py text\n"})
    git(top, "config", "filter.up.smudge", "tr a-z A-Z")
    git(top, "config", "filter.up.clean", "tr A-Z a-z")
    git(top, "config", "filter.up.required", "true")
    git(top, "config", "core.eol", "crlf")
    git(top, "config", "core.autocrlf", "true")
    base = git(top, "rev-parse", "HEAD")
    result = commit_on(top, base, {"x.up": "loud\n", "a.py": "x = 1\r\n"})
    assert git(top, "show", f"{result}:x.up") == "loud"
    target = await find_target(await Repository.open(top), "main")
    await target.check()
    assert await target.advance(result, run="r1")
    assert (top / "x.up").read_text(encoding="utf-8") == "LOUD\n"
    assert (top / "a.py").read_bytes() == b"x = 1\r\n"
    assert git(top, "status", "--porcelain") == ""
    await (await find_target(await Repository.open(top), "main")).check()


@pytest.mark.asyncio
async def test_a_driver_that_only_the_tree_names_runs_nothing(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    files: Files = {
        ".gitattributes": "* filter=evil merge=evil diff=evil\n",
        ".gitconfig": '[filter "evil"]\n\tsmudge = touch EVIL\n',
    }
    result = commit_on(place.top, place.base, files)
    assert await (await place.target()).advance(result, run="r1")
    assert not (place.top / "EVIL").exists()


@pytest.mark.asyncio
async def test_merge_options_of_the_branch_do_not_change_what_landing_is(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "config", "branch.main.mergeOptions", "--squash --no-commit --log")
    git(place.top, "config", "merge.ff", "false")
    assert await (await place.target()).advance(place.result, run="r1")
    assert git(place.top, "rev-parse", "main") == place.result
    assert git(place.top, "status", "--porcelain") == ""


@pytest.mark.asyncio
async def test_W29_no_identity_is_needed(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "config", "user.useConfigOnly", "true")
    assert await (await place.target()).advance(place.result, run="r1")


@pytest.mark.asyncio
async def test_untracked_files_in_the_way_are_gits_own_refusal(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    write_files(place.top, {"new/c.py": "mine\n"})
    place.before = fingerprint(place.top)
    target = await place.target()
    await target.check()
    with pytest.raises(RepositoryError, match=r"untracked.*new/c\.py") as caught:
        await target.advance(place.result, run="r1")
    assert len(str(caught.value).splitlines()) == 1
    assert place.changed() == set()
    assert git(place.top, "rev-parse", "main") == place.base


def modify(top: Path) -> None:
    write_files(top, {"b.py": "y = 'mine'\n"})


def stage(top: Path) -> None:
    write_files(top, {"b.py": "y = 'mine'\n"})
    git(top, "add", "b.py")
    write_files(top, {"b.py": "y = 1\n"})


def delete(top: Path) -> None:
    (top / "b.py").unlink()


def change_mode(top: Path) -> None:
    (top / "b.py").chmod(0o755)


@pytest.mark.asyncio
@pytest.mark.parametrize("spoil", [modify, stage, delete, change_mode])
async def test_changes_that_are_not_committed_stop_it(tmp_path: Path, spoil: object) -> None:
    place = await Place.make(tmp_path)
    assert callable(spoil)
    spoil(place.top)
    place.before = fingerprint(place.top)
    with pytest.raises(RepositoryError, match=r"not committed \(b\.py\)"):
        await (await place.target()).check()
    assert place.changed() == set()


@pytest.mark.asyncio
async def test_a_touched_file_is_no_change_and_the_index_stays(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    os.utime(place.top / "b.py", (1, 1))
    place.before = fingerprint(place.top)
    await (await place.target()).check()
    assert place.changed() == set()


STEPS: dict[str, Sequence[str]] = {
    "merge": ("merge", "--no-ff", "--no-commit", "side"),
    "cherry-pick": ("cherry-pick", "clash"),
    "revert": ("revert", "--no-commit", "HEAD"),
    "bisect": ("bisect", "start"),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("what", STEPS)
async def test_a_checkout_in_the_middle_of_something_stops_it(tmp_path: Path, what: str) -> None:
    place = await Place.make(tmp_path)
    root = git(place.top, "rev-list", "--max-parents=0", "HEAD")
    git(place.top, "branch", "side", commit_on(place.top, root, {"s": "s"}))
    git(place.top, "branch", "clash", commit_on(place.top, root, {"m": "theirs"}))
    commit_files(place.top, {"m": "ours"})
    git_succeeds(place.top, *STEPS[what])
    with pytest.raises(RepositoryError, match=f"in the middle of a {what}"):
        await (await place.target()).check()


@pytest.mark.asyncio
@pytest.mark.parametrize("linked", [False, True])
async def test_M17_a_branch_that_is_being_rebased_stays(tmp_path: Path, linked: bool) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "branch", "clash", commit_on(place.top, place.base, {"a.py": "theirs\n"}))
    commit_files(place.top, {"a.py": "ours\n"})
    where = place.top
    if linked:
        git(place.top, "switch", "-q", "--detach")
        where = tmp_path / "linked"
        git(place.top, "worktree", "add", "-q", str(where), "main")
    assert not git_succeeds(where, "rebase", "clash")
    place.before = fingerprint(place.top)
    target = await place.target()
    assert target.checkout is None, "git says that it is checked out nowhere"
    with pytest.raises(RepositoryError, match="`main` is being rebased"):
        await target.check()
    assert place.changed() == set()


@pytest.mark.asyncio
async def test_W32_the_checkout_may_be_a_linked_worktree(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "switch", "-q", "-c", "elsewhere")
    git(place.top, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    write_files(place.top, {"a.py": "dirty, and nobody's business\n"})
    target = await place.target()
    assert target.place == tmp_path / "linked"
    await target.check()
    assert await target.advance(place.result, run="r1")
    assert (tmp_path / "linked" / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    assert git(tmp_path / "linked", "status", "--porcelain") == ""
    assert (place.top / "a.py").read_text(encoding="utf-8").startswith("dirty")
    assert git(place.top, "rev-parse", "elsewhere") == place.base


@pytest.mark.asyncio
async def test_a_branch_that_is_checked_out_nowhere_is_moved_alone(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "switch", "-q", "-c", "elsewhere")
    write_files(place.top, {"a.py": "dirty\n"})
    hook(place.top, "reference-transaction")
    place.before = fingerprint(place.top)
    target = await place.target()
    assert target.checkout is None
    await target.check()
    assert await target.advance(place.result, run="r1")
    assert place.changed() == {".git/refs/heads/main", ".git/logs/refs/heads/main"}
    assert git(place.top, "rev-parse", "main", "elsewhere").split() == [place.result, place.base]


@pytest.mark.asyncio
async def test_W32_a_bare_repository_has_no_checkout(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(place.top), str(bare))
    target = await place.target(bare)
    assert target.checkout is None
    await target.check()
    assert await target.advance(place.result, run="r1")
    assert git(bare, "rev-parse", "main") == place.result


@pytest.mark.asyncio
async def test_a_git_folder_that_lies_apart(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    split = tmp_path / "split"
    git(tmp_path, "clone", "-q", "--separate-git-dir=apart", str(place.top), str(split))
    target = await place.target(split)
    assert target.place == split
    await target.check()
    assert await target.advance(place.result, run="r1")
    assert git(split, "status", "--porcelain") == ""


@pytest.mark.asyncio
async def test_a_sparse_checkout_stays_sparse(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "sparse-checkout", "set", "--no-cone", "/*", "!/new/")
    target = await place.target()
    await target.check()
    assert await target.advance(place.result, run="r1")
    assert not (place.top / "new").exists()
    assert git(place.top, "status", "--porcelain") == ""


@pytest.mark.asyncio
@pytest.mark.parametrize("checked_out", [True, False])
async def test_M05_a_branch_that_moved_meanwhile_is_left_alone(
    tmp_path: Path, checked_out: bool
) -> None:
    place = await Place.make(tmp_path)
    if not checked_out:
        git(place.top, "switch", "-q", "-c", "elsewhere")
    target = await place.target()
    theirs = commit_on(place.top, place.base, {"b.py": "y = 2\n"})
    if checked_out:
        git(place.top, "reset", "-q", "--hard", theirs)
    else:
        git(place.top, "update-ref", "refs/heads/main", theirs)
    place.before = fingerprint(place.top)
    assert not await target.advance(place.result, run="r1")
    assert place.changed() == set()
    assert git(place.top, "rev-parse", "main") == theirs


@pytest.mark.asyncio
async def test_a_checkout_that_changed_branch_meanwhile_stops_it(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    target = await place.target()
    git(place.top, "switch", "-q", "-c", "elsewhere")
    with pytest.raises(RepositoryError, match="another branch"):
        await target.check()


@pytest.mark.asyncio
async def test_a_lock_that_is_held_is_gits_own_refusal(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    target = await place.target()
    (place.top / ".git" / "index.lock").touch()
    with pytest.raises(RepositoryError, match=r"index\.lock"):
        await target.advance(place.result, run="r1")
    assert git(place.top, "rev-parse", "main") == place.base


@pytest.mark.asyncio
async def test_a_branch_that_is_gone_or_no_branch_of_its_own(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    with pytest.raises(RepositoryError, match=r"`nosuch`.*is gone"):
        await place.target(branch="nosuch")
    git(place.top, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    with pytest.raises(RepositoryError, match="another name of refs/heads/main"):
        await place.target(branch="alias")


@pytest.mark.asyncio
async def test_a_branch_in_two_checkouts_or_in_one_that_is_gone(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "worktree", "add", "-q", "--force", str(tmp_path / "linked"), "main")
    with pytest.raises(RepositoryError, match="more than once"):
        await place.target()
    git(place.top, "switch", "-q", "-c", "elsewhere")
    shutil.rmtree(tmp_path / "linked")
    with pytest.raises(RepositoryError, match="worktree prune"):
        await place.target()


@pytest.mark.asyncio
async def test_a_result_on_top_of_the_branch_is_landed_as_it_is(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    found = await proposed(place, await place.target())
    tree = git(place.top, "rev-parse", f"{place.result}^{{tree}}")
    assert found == Proposal(place.result, tree, merges=False)
    assert await is_ancestor(place.hub, place.base, place.result)
    assert not await is_ancestor(place.hub, place.result, place.base)


@pytest.mark.asyncio
async def test_D07_a_branch_that_moved_on_is_merged_with_the_result(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    theirs = commit_files(place.top, {"b.py": "y = 2\n"})
    target = await place.target()
    found = await proposed(place, target)
    assert found.merges
    assert await proposed(place, target) == found, "the same commits, the same merge"
    assert git(place.hub.path, "rev-parse", f"{found.commit}^@").split() == [theirs, place.result]
    assert not git_succeeds(place.top, "cat-file", "-e", found.commit)
    await place.hub.send(target.repository, found.commit)
    assert await target.advance(found.commit, run="r1")
    assert git(place.top, "show", "HEAD:a.py", "HEAD:b.py") == "x = 2\ny = 2"
    shown = git(place.top, "show", "--no-patch", "--format=%an <%ae> %cn %ct%n%B", "HEAD")
    assert shown.splitlines()[:2] == [
        f"orchestrate <orchestrate@localhost> orchestrate {DATE}",
        "Merge orchestrate/r1 into main",
    ]
    assert git(place.top, "status", "--porcelain") == ""
    git(place.top, "fsck", "--strict", "--no-dangling")


@pytest.mark.asyncio
async def test_no_merge_is_older_than_what_it_merges(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    tree = git(place.top, "rev-parse", f"{place.base}^{{tree}}")
    late = git(place.hub.path, "commit-tree", tree, "-p", place.base, "-m", "late")
    stamped = git(place.hub.path, "cat-file", "commit", late).replace("1700000000", "1800000000")
    late = git(place.top, "hash-object", "-t", "commit", "-w", "--stdin", stdin=stamped.encode())
    git(place.top, "reset", "-q", "--hard", late)
    found = await proposed(place, await place.target())
    assert git(place.hub.path, "show", "--no-patch", "--format=%ct", found.commit) == "1800000000"


@pytest.mark.asyncio
async def test_M11_a_conflict_leaves_nothing_behind(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    commit_files(place.top, {"a.py": "x = 3\n"})
    place.before = fingerprint(place.top)
    target = await place.target()
    found = await propose(place.hub, target, place.result, message=MESSAGE, date=DATE)
    assert isinstance(found, Conflict)
    assert [entry.path for entry in found.entries] == ["a.py"]
    assert place.changed() == set()


@pytest.mark.asyncio
async def test_a_branch_without_a_common_history_is_refused(tmp_path: Path) -> None:
    place = await Place.make(tmp_path)
    git(place.top, "checkout", "-q", "--orphan", "anew")
    git(place.top, "commit", "-q", "-m", "anew")
    git(place.top, "branch", "-f", "main", "anew")
    with pytest.raises(RepositoryError, match="no history in common"):
        await propose(place.hub, await place.target(), place.result, message=MESSAGE, date=DATE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work in another user's checkout")
@pytest.mark.asyncio
async def test_as_root_the_checkout_is_written_as_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("COUNT", "1"), ("KEY_0", "safe.directory"), ("VALUE_0", "*")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    with shared_folder() as folder:
        place = await Place.make(tmp_path, make_repository(folder / "target", BEFORE))
        subprocess.run(["chown", "-R", "nobody", str(place.top)], check=True)
        target = await place.target()
        await target.check()
        assert await target.advance(place.result, run="r1")
        written = ("a.py", "new/c.py", ".git/index", ".git/refs/heads/main")
        assert {(place.top / path).owner() for path in written} == {"nobody"}
