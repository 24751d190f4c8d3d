"""The user's repository: read only, apart from one branch of each run.

What it guarantees:

- nothing but `refs/heads/orchestrate/<run>` (its log and its objects with it) is ever written;
  checkout, index, stash, configuration, hooks and all other refs stay byte for byte as they are;
- the branch moves by compare-and-swap with hooks off, and needs no identity and no signing key;
- as root it is written as the owner of the repository, so that its owner can still use it;
- what makes a repository unusable is found when it is opened, one line with the mend.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from orchestrator.errors import InfrastructureError, RepositoryError
from orchestrator.state_folder import is_text
from orchestrator.workspace.git import (
    GitResult,
    HostGit,
    discover,
    full_id,
    owner_of,
    require_git,
)
from orchestrator.workspace.reading import CommitReader

BRANCH_FOLDER = "orchestrate"
"""Branches of runs are `orchestrate/<run>`."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_REVISION_CHARACTERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that can be worked on. Made by `Repository.open`."""

    common_dir: Path
    """The git folder that all its worktrees share, absolute."""
    git_dir: Path
    """The git folder of the caller's own tree: its HEAD is the default base."""
    top: Path | None
    """Root of the caller's checkout; None in a bare repository."""
    object_format: str
    """`sha1` or `sha256`."""
    head_branch: str | None
    """Short name of the branch that is checked out; None when HEAD is detached."""
    shallow: bool
    """Whether its history is cut off, as in many CI checkouts."""

    @staticmethod
    async def open(path: Path) -> Repository:
        """The repository that `path` is in. Raises `RepositoryError` when it cannot be used.

        Works from subfolders, linked worktrees, bare repositories and a detached HEAD.
        """
        await require_git()
        if not await to_thread.run_sync(path.is_dir):
            raise RepositoryError(f"{path}: no such folder; give --repo a repository")
        found = await discover(
            path,
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--absolute-git-dir",
            "--show-object-format",
            "--is-shallow-repository",
            "--is-inside-work-tree",
        )
        if found.status != 0:
            raise _not_usable(path, found)
        if not is_text(found.text):
            raise RepositoryError(
                f"{os.fsencode(path)!r}: its path is not UTF-8; rename the folder"
            )
        lines = found.text.split("\n")
        if len(lines) != 5:
            raise RepositoryError(f"{path}: its path holds a line break; move the repository")
        common_dir, git_dir, object_format, shallow, inside = lines
        top = await discover(path, "rev-parse", "--show-toplevel") if inside == "true" else None
        head = await HostGit(Path(git_dir))("symbolic-ref", "-q", "HEAD", statuses=(0, 1))
        repository = Repository(
            common_dir=Path(common_dir),
            git_dir=Path(git_dir),
            top=None if top is None else Path(top.text),
            object_format=object_format,
            head_branch=head.text.removeprefix("refs/heads/") or None,
            shallow=shallow == "true",
        )
        await repository._check()
        return repository

    @property
    def name(self) -> str:
        """Name of the repository's folder, without `.git`."""
        folder = self.common_dir
        return (folder.parent if folder.name == ".git" else folder).name.removesuffix(".git")

    async def resolve(self, revision: str) -> str:
        """Full id of the commit that `revision` names in the caller's own tree.

        Raises `RepositoryError` when there is no such commit.
        """
        known = 0 < len(revision) <= _REVISION_CHARACTERS_MAX and "\0" not in revision
        if known:
            result = await HostGit(self.git_dir)(
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                f"{revision}^{{commit}}",
                statuses=(0, 1, 128),
            )
            if result.status == 0:
                return full_id(result.text)
        raise RepositoryError(
            f"{self.top or self.common_dir}: no commit is called {revision[:100]!r}; "
            "`git rev-parse` must know it"
        )

    @property
    def reader(self) -> CommitReader:
        """Reads commits of the repository."""
        return CommitReader(HostGit(self.git_dir))

    async def missing(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Those of `paths` that are no files of `commit`, each once, in the order given."""
        if not paths:
            return ()
        there = set(await self.reader.files(commit))
        return tuple(path for path in dict.fromkeys(paths) if path not in there)

    async def create_branch(self, run: str, commit: str) -> None:
        """Create the run's branch at `commit`; fine when it is there already with that value."""
        await self._swap(run, old="0" * len(full_id(commit)), new=commit)

    async def move_branch(self, run: str, old: str, new: str) -> None:
        """Move the run's branch from `old` to `new`; fine when it is at `new` already."""
        await self._swap(run, old=full_id(old), new=full_id(new))

    async def delete_branch(self, run: str, old: str) -> None:
        """Delete the run's branch if it is still at `old`; fine when it is gone."""
        await self._swap(run, old=full_id(old), new=None)

    async def branch(self, run: str) -> str | None:
        """The commit that the run's branch is at, None without one."""
        result = await HostGit(self.common_dir)(
            "rev-parse", "--verify", "--quiet", _ref(run), statuses=(0, 1)
        )
        return result.text or None

    async def checked_out(self, run: str) -> str | None:
        """The worktree that has the run's branch checked out, None when no one has."""
        found = await HostGit(self.common_dir)(
            "for-each-ref", "--format=%(worktreepath)", _ref(run)
        )
        return found.text or None

    def writer(self) -> HostGit:
        """Git that may write to the repository, as its owner."""
        return HostGit(self.common_dir, user=owner_of(self.common_dir))

    async def _swap(self, run: str, *, old: str, new: str | None) -> None:
        """Compare and swap. `old` of zeros: create; `new` None: delete."""
        ref = _ref(run)
        change = ("-d", ref, old) if new is None else (ref, new, old)
        result = await self.writer()(
            "update-ref",
            "--no-deref",
            "-m",
            f"orchestrate: run {run}",
            *change,
            statuses=(0, 1, 128),
        )
        if result.status == 0:
            return
        found = await self.branch(run)
        if found == new:
            return
        if (found or "0" * len(old)) == old:  # nobody moved it: git could not write
            words = result.errors.strip().splitlines()
            raise RepositoryError(
                f"{self.common_dir}: {ref} cannot be written: {words[-1] if words else 'no reason'}"
            )
        raise RepositoryError(
            f"{self.common_dir}: {ref} is at {found or 'nothing'}, not at {old} as this run left "
            "it; rename or delete that branch"
        )

    async def _check(self) -> None:
        """Refuse what cannot be worked on."""
        git = HostGit(self.git_dir)
        place = self.top or self.common_dir
        refs = await git("for-each-ref", "--count=1", "--format=%(refname)")
        if not refs.output and self.head_branch is not None:
            raise RepositoryError(f"{place}: it has no commits; make a first commit")
        clash = await git(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCH_FOLDER}", statuses=(0, 1)
        )
        if clash.status == 0:
            raise RepositoryError(
                f"{place}: a branch called `{BRANCH_FOLDER}` is in the way of "
                f"`{BRANCH_FOLDER}/<run>`; `git branch -m {BRANCH_FOLDER} NEW-NAME`"
            )
        partial = await git(
            "config",
            "--get-regexp",
            r"^(extensions\.partialclone|remote\..*\.promisor)$",
            statuses=(0, 1),
        )
        if partial.status == 0:
            raise RepositoryError(
                f"{place}: a partial clone, objects are missing; make a full clone and work there"
            )


def _ref(run: str) -> str:
    if _RUN.fullmatch(run) is None:
        raise InfrastructureError(f"{run!r} cannot name a run")
    return f"refs/heads/{BRANCH_FOLDER}/{run}"


def _not_usable(path: Path, result: GitResult) -> RepositoryError:
    """What git's refusal means for the user."""
    if "dubious ownership" in result.errors:
        return RepositoryError(
            f"{path}: the repository belongs to another user; work as that user, or "
            f"`git config --global --add safe.directory {path.resolve()}`"
        )
    if "not a git repository" in result.errors:
        return RepositoryError(
            f"{path}: not in a git repository; `git init` and make a first commit, or use --repo"
        )
    words = result.errors.strip().splitlines()
    return RepositoryError(f"{path}: {words[-1] if words else 'git cannot read the repository'}")
