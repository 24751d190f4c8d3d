"""Brings a run's result into the branch that the user started from: the git side of `land`.

    find_target          the branch as it stands, and the one checkout that it is checked out in
    Target.check         nobody is in the middle of anything there
    propose              the commit to land: the result itself, or its merge with the branch
    Target.advance       the branch at that commit, its checkout with it

What it guarantees:

- the branch only ever moves forward, from where `find_target` saw it: a branch that has moved since
  then is not touched, which `advance` tells;
- a merge is made in the hub, without a checkout, and is a function of the two commits;
- nothing is forced: what git refuses stays as it was, and the refusal says why;
- a branch that is checked out moves with its files, by the user's own git (`workspace.checkout`).

Whether the merge is any good is for gates to say, between `propose` and `advance`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from orchestrator.errors import RepositoryError
from orchestrator.workspace.checkout import Checkout
from orchestrator.workspace.git import HostGit, full_id
from orchestrator.workspace.hub import Conflict, Hub, Merged
from orchestrator.workspace.repository import Repository

_IN_USE = ("rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs")
"""Files of a checkout's git folder that name the branches which a rebase will move at its end."""
_POINTER_BYTES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Proposal:
    """What could be landed."""

    commit: str
    tree: str
    merges: bool
    """Whether it is a new merge of the result with a branch that has moved: no gate has seen it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A branch of the user's, as it stood when it was looked at."""

    repository: Repository
    branch: str
    """Its short name."""
    commit: str
    """Where it was."""
    checkout: Checkout | None
    """The work tree that it is checked out in; None where it is in none."""

    async def check(self) -> None:
        """Raise `RepositoryError` where the branch cannot be moved without harm."""
        folders = await to_thread.run_sync(_git_dirs, self.repository.common_dir)
        for git_dir in folders:
            if await to_thread.run_sync(_names, git_dir, f"refs/heads/{self.branch}"):
                raise RepositoryError(
                    f"{git_dir}: `{self.branch}` is being rebased there; end that first"
                )
        if self.checkout is not None:
            await self.checkout.check(self.branch)

    async def advance(self, commit: str, *, run: str) -> bool:
        """Move the branch, and its checkout, from where it was to `commit`, which descends from it.

        False where somebody else has moved it meanwhile: then nothing was done. Raises
        `RepositoryError` with git's words where git refuses: untracked files in the way, say.
        """
        reason = f"orchestrate: land {run}"
        if self.checkout is not None:
            words = await self.checkout.fast_forward(full_id(commit), reason=reason)
        else:
            words = await self._swap(full_id(commit), reason)
        now = await _commit_of(self.repository, self.branch)
        if now == commit:
            return True
        if now != self.commit:
            return False
        words = words or "it does not say why"
        raise RepositoryError(f"{self.place}: git did not move `{self.branch}`: {words}")

    @property
    def place(self) -> Path:
        """Where people know it: the checkout, else the repository."""
        return self.checkout.top if self.checkout is not None else self.repository.common_dir

    async def _swap(self, commit: str, reason: str) -> str:
        """Compare and swap of a branch that is checked out nowhere."""
        ref = f"refs/heads/{self.branch}"
        git = self.repository.writer()
        done = await git(
            *("update-ref", "--no-deref", "-m", reason, ref, commit, self.commit),
            statuses=(0, 1, 128),
        )
        return " ".join(done.errors.split())


async def find_target(repository: Repository, branch: str) -> Target:
    """The branch called `branch`. Raises `RepositoryError` when it is gone, or not in one place."""
    place = repository.top or repository.common_dir
    commit = await _commit_of(repository, branch)
    if commit is None:
        raise RepositoryError(f"{place}: the branch `{branch}`, which the run began on, is gone")
    tops = await _checkouts(repository, f"refs/heads/{branch}")
    if len(tops) > 1:
        raise RepositoryError(
            f"{place}: `{branch}` is checked out more than once ({', '.join(map(str, tops))}); "
            "switch all but one of them to other branches"
        )
    if tops and not await to_thread.run_sync(tops[0].is_dir):
        raise RepositoryError(
            f"{tops[0]}: has `{branch}` checked out and is gone; `git worktree prune` forgets it"
        )
    return Target(repository, branch, commit, Checkout(tops[0]) if tops else None)


async def is_ancestor(hub: Hub, older: str, newer: str) -> bool:
    """Whether `newer` contains `older`. The hub knows the target's commits too."""
    found = await hub.git(
        "merge-base", "--is-ancestor", full_id(older), full_id(newer), statuses=(0, 1)
    )
    return found.status == 0


async def propose(
    hub: Hub, target: Target, result: str, *, message: str, date: int
) -> Proposal | Conflict:
    """What to land: `result` where it descends from the branch, else the merge of the two.

    The merge's first parent is the branch. `date`: Unix seconds, raised to the branch's own where
    that is later, so that no commit is older than its parent. Raises `RepositoryError` where the
    two have no common history.
    """
    if await is_ancestor(hub, target.commit, result):
        return Proposal(result, await hub.tree_of(result), merges=False)
    shared = await hub.git("merge-base", target.commit, full_id(result), statuses=(0, 1))
    if shared.status != 0:
        raise RepositoryError(
            f"{target.place}: `{target.branch}` has no history in common with the result"
        )
    dated = await hub.git("show", "--no-patch", "--format=%ct", target.commit)
    merged = await hub.merge(
        target.commit, [target.commit, result], message=message, date=max(date, int(dated.text))
    )
    return Proposal(merged.commit, merged.tree, True) if isinstance(merged, Merged) else merged


async def _commit_of(repository: Repository, branch: str) -> str | None:
    """Where a branch is; None without it. A symbolic ref is not followed: it is another's name."""
    ref = f"refs/heads/{branch}"
    found = await HostGit(repository.common_dir)(
        "for-each-ref", "--format=%(objectname) %(symref)", ref
    )
    commit, _, other = found.text.partition(" ")
    if other:
        raise RepositoryError(
            f"{repository.common_dir}: `{branch}` is only another name of {other}"
        )
    return commit or None


async def _checkouts(repository: Repository, ref: str) -> list[Path]:
    """Work trees, main and linked, that have `ref` checked out."""
    listed = await HostGit(repository.common_dir)("worktree", "list", "--porcelain", "-z")
    found: list[Path] = []
    for record in os.fsdecode(listed.output).split("\0\0"):
        fields = record.split("\0")
        if f"branch {ref}" in fields and "bare" not in fields:
            path = Path(fields[0].removeprefix("worktree "))
            apart = path == repository.common_dir and repository.git_dir == repository.common_dir
            # Of a repository whose git folder lies apart git lists that folder, not the checkout.
            found.append(repository.top if apart and repository.top is not None else path)
    return found


def _git_dirs(common_dir: Path) -> list[Path]:
    """The git folders of the main and all linked work trees."""
    return [common_dir, *sorted((common_dir / "worktrees").glob("*/"))]


def _names(git_dir: Path, ref: str) -> bool:
    """Whether a rebase that is under way in `git_dir` will move `ref`."""
    for name in _IN_USE:
        try:
            with (git_dir / name).open("rb") as file:
                lines = os.fsdecode(file.read(_POINTER_BYTES_MAX)).split("\n")
        except OSError:
            continue
        if ref in lines:
            return True
    return False
