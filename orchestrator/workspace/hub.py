"""The hub: a bare repository of ours beside each target; merges and results live in it.

What it guarantees:

- its configuration, refs and hooks are the harness's alone, out of reach of agents and settings;
- it borrows the target's objects by alternates, which are rewritten at each open, so it costs no
  copy and survives a target that was moved;
- a merge is a function of its inputs: the same commits, message and date give the same commit id;
- what is kept under `refs/orchestrate/` stays reachable.

Merging is `git merge-tree --write-tree`, which needs no checkout and leaves no state behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from orchestrator.errors import RepositoryError
from orchestrator.workspace.alternates import object_folders, replace_file
from orchestrator.workspace.git import HostGit, full_id, git_failure
from orchestrator.workspace.lock import exclusive
from orchestrator.workspace.merge import Conflict, Merged, parse_conflict
from orchestrator.workspace.reading import CommitReader
from orchestrator.workspace.repository import Repository

_LOCK_TIMEOUT_S = 60.0
_LONG_S = 1800.0
_TIPS_MAX = 10_000

__all__ = ["Conflict", "Hub", "Merged", "index_pack"]


@dataclass(frozen=True, slots=True)
class Hub:
    """The bare repository. Made by `Hub.open`; a value, safe to use from many tasks at once."""

    path: Path
    git: HostGit

    @staticmethod
    async def open(path: Path, repository: Repository) -> Hub:
        """The hub at `path` for `repository`, made when it is not there.

        Safe to call from several processes at once. Raises `RepositoryError` when it belongs to a
        repository of another object format, `InfrastructureError` when the lock does not come free.
        """
        await to_thread.run_sync(lambda: path.parent.mkdir(parents=True, exist_ok=True))
        async with exclusive(path.with_name(path.name + ".lock"), timeout_s=_LOCK_TIMEOUT_S):
            if not await to_thread.run_sync(path.exists):
                await _create(path, repository.object_format)
            await to_thread.run_sync(_borrow, path, repository)
        hub = Hub(path, HostGit(path))
        found = (await hub.git("rev-parse", "--show-object-format")).text
        if found != repository.object_format:
            raise RepositoryError(
                f"{path}: made for {found}, but the repository uses {repository.object_format}; "
                "delete that folder"
            )
        return hub

    async def merge(
        self, base: str, commits: Sequence[str], *, message: str, date: int
    ) -> Merged | Conflict:
        """Merge `commits` in the order given; those that another one contains are dropped.

        None gives `base`, one is handed on unchanged. `date`: Unix seconds. The conflict is that
        of the first step that fails. Raises `InfrastructureError` when git itself fails.
        """
        heads = await self._independent(commits) or (full_id(base),)
        merged = heads[0]
        tree: str | None = None
        for other in heads[1:]:
            step = await self._merge_two(merged, other)
            if isinstance(step, Conflict):
                return step
            tree = step
            merged = await self.commit(tree, (merged, other), message=message, date=date)
        return Merged(merged, tree or await self.tree_of(merged))

    async def _independent(self, commits: Sequence[str]) -> tuple[str, ...]:
        unique = tuple(dict.fromkeys(full_id(commit) for commit in commits))
        if len(unique) < 2:
            return unique
        kept = (await self.git("merge-base", "--independent", *unique)).text.split("\n")
        return tuple(commit for commit in unique if commit in kept)

    async def _merge_two(self, ours: str, theirs: str) -> str | Conflict:
        """Tree of the merge of two commits."""
        result = await self.git(
            "merge-tree", "--write-tree", "-z", ours, theirs, statuses=(0, 1), timeout_s=_LONG_S
        )
        tree = result.output.split(b"\0", 1)[0].decode(errors="replace")
        if result.status == 0:
            return full_id(tree)
        if not result.output:  # a conflict always comes with a tree
            raise git_failure("merge-tree", self.path, result)
        return parse_conflict(ours, theirs, result.output)

    async def commit(self, tree: str, parents: Sequence[str], *, message: str, date: int) -> str:
        """Commit `tree` by the harness's identity; the new commit's id."""
        args = [part for parent in parents for part in ("-p", full_id(parent))]
        result = await self.git(
            "commit-tree", full_id(tree), *args, stdin=_encode(message), date=date
        )
        return full_id(result.text)

    async def tree_of(self, commit: str) -> str:
        """Id of the tree of `commit`."""
        result = await self.git("rev-parse", "--verify", f"{full_id(commit)}^{{tree}}")
        return full_id(result.text)

    async def keep(
        self, run: str, task: str, attempt: int, commit: str, *, rejected: bool = False
    ) -> None:
        """Keep `commit` from being collected, over what a lost try of the same attempt left."""
        place = f"{run}/rejected/{task}" if rejected else f"{run}/{task}"
        await self.git("update-ref", f"refs/orchestrate/{place}/{attempt}", full_id(commit))

    async def diff(self, a: str, b: str, *, bytes_max: int) -> str:
        """Unified diff from `a` to `b` as text, its head when it is longer than `bytes_max`.

        Attributes and outside programs have no say in it: binary marks do not hide a change.
        """
        result = await self.git(
            "diff-tree",
            "-p",
            "-r",
            "-M",
            "--text",
            "--no-ext-diff",
            "--no-textconv",
            full_id(a),
            full_id(b),
            bytes_max=bytes_max,
        )
        return result.output.decode(errors="replace")

    @property
    def reader(self) -> CommitReader:
        """Reads commits, this repository's and the target's."""
        return CommitReader(self.git)

    async def read_file(self, commit: str, path: str, bytes_max: int) -> bytes | None:
        """The first `bytes_max` bytes of a file of `commit`, see `CommitReader.read`."""
        return await self.reader.read(commit, path, bytes_max)

    async def stand_alone(self, run: str) -> None:
        """Copy in what the run's kept refs borrow: the target may now collect its objects.

        Only this run's: an older one may have lost its ground before, which must not stop this one.
        """
        kept = await self.git("for-each-ref", "--format=%(objectname)", f"refs/orchestrate/{run}/")
        if kept.output:
            packs = self.path / "objects" / "pack"
            await to_thread.run_sync(lambda: packs.mkdir(exist_ok=True))
            await self.git(
                "pack-objects",
                "--revs",
                "-q",
                str(packs / "pack"),
                stdin=kept.output,
                timeout_s=_LONG_S,
            )

    async def send(self, repository: Repository, commit: str) -> None:
        """Bring `commit` and what it needs into the target's object store, checked, as its owner.

        Moves no ref: that is `Repository.move_branch`.
        """
        writer = repository.writer()
        tips = await writer("for-each-ref", f"--count={_TIPS_MAX}", "--format=%(objectname)")
        known = "".join(f"^{tip}\n" for tip in tips.text.split("\n") if tip)
        folder = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(dir=self.path)))
        try:
            packed = await self.git(
                "pack-objects",
                "--revs",
                "--local",  # not what is borrowed from the target
                "-q",
                str(folder / "pack"),
                stdin=f"{full_id(commit)}\n{known}".encode(),
                timeout_s=_LONG_S,
            )
            pack = folder / f"pack-{full_id(packed.text)}.pack"
            await index_pack(writer, pack)
        finally:
            await to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


async def index_pack(git: HostGit, pack: Path) -> None:
    """Take a pack into an object store; every object and link in it is checked first."""
    await git("index-pack", "--stdin", "--strict", stdin=pack, timeout_s=_LONG_S)


async def _create(path: Path, object_format: str) -> None:
    """Make an empty bare repository aside and move it in place, so that none is ever half made."""
    aside = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(dir=path.parent)))
    try:
        await HostGit(aside)(
            "init", "--bare", "-q", "--template=", f"--object-format={object_format}"
        )
        await to_thread.run_sync(lambda: aside.rename(path))
    except BaseException:
        await to_thread.run_sync(lambda: shutil.rmtree(aside, ignore_errors=True))
        raise


def _borrow(path: Path, repository: Repository) -> None:
    """Point the hub at the target's objects as they lie today, and at where its history ends."""
    folders = object_folders(repository.common_dir / "objects")
    info = path / "objects" / "info"
    info.mkdir(exist_ok=True)
    replace_file(info / "alternates", "".join(f"{folder}\n" for folder in folders))
    shallow = repository.common_dir / "shallow"
    if shallow.exists():
        replace_file(path / "shallow", shallow.read_text(encoding="ascii"))
    else:
        (path / "shallow").unlink(missing_ok=True)


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
