"""Sealing: the tree of a workspace becomes a commit of the hub, or goes back with the reasons.

What it guarantees:

- the commit is made by the harness: its parent, identity, date and message are the caller's;
- the tree is looked over before git sees it, and built with a copy of the harness's own index into
  a quarantine: nothing an agent did to git's files has a say, a refusal leaves nothing behind;
- what comes in is checked again by git itself (`index-pack --strict`);
- only paths that the task may change have changed, whether added, edited or deleted, at both ends
  of a rename; no secrets, nested repositories, submodules, or links out of the tree;
- what tools can make again and what is huge stays out, and is listed.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread
from pathspec import GitIgnoreSpec

from orchestrator.errors import DiskFullError, InfrastructureError
from orchestrator.ports import Sealed, SealRefused
from orchestrator.workspace.files import TreeFiles
from orchestrator.workspace.git import GitResult, HostGit, full_id, git_failure
from orchestrator.workspace.hub import Hub, index_pack
from orchestrator.workspace.names import ARTEFACT_EXCLUDES, is_artefact_file, is_printable
from orchestrator.workspace.survey import (
    is_gone,
    link_problem,
    secret_problem,
    size_bytes,
    survey,
)

FILE_BYTES_MAX = 10_000_000
"""New files above this size stay out; tracked ones must not grow past it."""

_NEW_FILES_MAX = 50_000
_LINES_MAX = 50
_LONG_S = 1800.0
_SUBMODULE_MODE = "160000"
_LINK_MODE = "120000"
_GONE_MODE = "000000"
_FSCK = "fsck error"


@dataclass(frozen=True, slots=True)
class Order:
    """What a seal is asked for, see `ports.Workspace.seal`."""

    message: str
    date: int
    writes: Sequence[str] | None
    protect: Sequence[str]


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the parent commit."""

    path: str
    old_mode: str
    new_mode: str
    """`000000` when it is gone."""


class Seal:
    """Seals one workspace. `start`: the commit whose tree was checked out."""

    def __init__(
        self, hub: Hub, git: HostGit, tree: Path, files: TreeFiles, *, parent: str, start: str
    ) -> None:
        self._hub, self._git, self._tree, self._files = hub, git, tree, files
        self._parent, self._start = parent, start

    async def run(self, order: Order, index: Path, scratch: Path) -> Sealed | SealRefused:
        """Carry it out. `index`: that of the checkout. `scratch`: a folder for the quarantine."""
        found = await to_thread.run_sync(survey, self._tree)
        if found.problems:
            return refused(found.problems)
        async with _quarantine(self._hub, index, scratch) as place:
            git = self._git.using(
                GIT_INDEX_FILE=str(place / "index"), GIT_OBJECT_DIRECTORY=str(place / "objects")
            )
            listing = await git(
                "ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard", *ARTEFACT_EXCLUDES
            )
            choice = await to_thread.run_sync(self._choose, listing)
            left_out = _capped((*found.left_out, *choice.left_out))
            if choice.problems:
                return refused(choice.problems)
            if not (choice.paths or choice.gone) and self._start == self._parent:
                return await self._unchanged(left_out)
            tree = await _write_tree(git, choice)
            if isinstance(tree, SealRefused):
                return tree
            changes = await self._changes(git, tree)
            if not changes:
                return await self._unchanged(left_out)
            problems = await to_thread.run_sync(self._judge, changes, order)
            if problems:
                return refused(problems)
            commit = await self._commit(git, tree, order)
            try:
                await self._hand_over(git, commit, place)
            except InfrastructureError as error:
                if _FSCK in str(error):
                    return refused(
                        [f"git finds the content malformed: {error}; look at .git* files"]
                    )
                raise
        changed = tuple(sorted(change.path for change in changes))
        return Sealed(commit, tree, changed, left_out)

    async def _unchanged(self, left_out: tuple[str, ...]) -> Sealed:
        return Sealed(self._parent, await self._hub.tree_of(self._parent), (), left_out)

    def _choose(self, listing: GitResult) -> _Choice:
        """Which paths git is to look at again."""
        paths: list[str] = []
        gone: list[str] = []
        left_out: list[str] = []
        problems: list[str] = []
        new = 0
        for field in listing.fields:
            tag, path = field[0], field[2:]
            size = size_bytes(self._tree, path)
            if not is_printable(path):
                problems.append(f"{path!r}: not a plain file name; rename it")
            elif tag == "?" and is_artefact_file(path.rpartition("/")[2]):
                left_out.append(f"{path}: artefact")
            elif size > FILE_BYTES_MAX and tag == "?":
                left_out.append(f"{path}: {size} bytes, the cap is {FILE_BYTES_MAX}")
            elif size > FILE_BYTES_MAX:
                problems.append(
                    f"{path}: {size} bytes, the cap is {FILE_BYTES_MAX}; make it smaller"
                )
            elif tag != "?" and is_gone(self._tree, path):
                gone.append(path)
            else:
                paths.append(path)
                new += tag == "?"
        if new > _NEW_FILES_MAX:
            problems.append(f"{new} new files: at most {_NEW_FILES_MAX} are taken in; delete some")
        return _Choice(
            tuple(dict.fromkeys(paths)),
            tuple(dict.fromkeys(gone)),
            tuple(left_out),
            tuple(problems),
        )

    async def _changes(self, git: HostGit, tree: str) -> tuple[Change, ...]:
        raw = await git("diff-tree", "-r", "-z", "--raw", "--no-renames", self._parent, tree)
        fields = iter(raw.fields)
        return tuple(
            Change(path, *record.removeprefix(":").split(" ")[:2])
            for record, path in zip(fields, fields, strict=True)
        )

    def _judge(self, changes: Sequence[Change], order: Order) -> list[str]:
        """What is wrong with the changes, one sentence each."""
        problems: list[str] = []
        scope = GitIgnoreSpec.from_lines(order.protect if order.writes is None else order.writes)
        for change in changes:
            problem = _scope_problem(change.path, order, scope) or self._content_problem(change)
            if problem is not None:
                problems.append(problem)
        return problems

    def _content_problem(self, change: Change) -> str | None:
        if _SUBMODULE_MODE in (change.old_mode, change.new_mode):
            return f"{change.path}: a submodule; leave submodules as they are"
        if change.new_mode == _LINK_MODE:
            return link_problem(self._tree, change.path)
        if change.new_mode == _GONE_MODE:
            return None
        return secret_problem(self._files, change.path)

    async def _commit(self, git: HostGit, tree: str, order: Order) -> str:
        """Commit in the quarantine."""
        quarantined = Hub(self._hub.path, git)
        return await quarantined.commit(
            tree, (self._parent,), message=order.message, date=order.date
        )

    async def _hand_over(self, git: HostGit, commit: str, place: Path) -> None:
        """Bring commit, trees and files into the hub, checked."""
        packed = await git(
            "pack-objects",
            "--revs",
            "--local",
            "-q",
            str(place / "pack"),
            stdin=f"{commit}\n^{self._parent}\n".encode(),
            timeout_s=_LONG_S,
        )
        await index_pack(self._hub.git, place / f"pack-{full_id(packed.text)}.pack")


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which of the paths that differ are taken in."""

    paths: tuple[str, ...]
    gone: tuple[str, ...]
    left_out: tuple[str, ...]
    problems: tuple[str, ...]


def refused(problems: Sequence[str]) -> SealRefused:
    """A refusal that stays readable however much is wrong."""
    return SealRefused(_capped(problems))


def _capped(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= _LINES_MAX:
        return tuple(lines)
    return (*lines[:_LINES_MAX], f"... and {len(lines) - _LINES_MAX} more")


def _scope_problem(path: str, order: Order, scope: GitIgnoreSpec) -> str | None:
    """Why the task may not change `path`. What its `writes` names it may, protected or not.

    `scope`: the order's `writes`, or what is protected where it names none.
    """
    named = scope.match_file(path)
    if order.writes is not None and not named:
        return f"{path}: outside of what this task writes ({', '.join(order.writes)}); undo it"
    if order.writes is None and named:
        return f"{path}: protected, it judges the work; undo the change"
    return None


async def _write_tree(git: HostGit, choice: _Choice) -> str | SealRefused:
    """Id of the tree with the chosen paths as they lie on disk, deletions included."""
    for option, paths in (("--force-remove", choice.gone), ("--add", choice.paths)):
        if not paths:
            continue
        names = b"".join(path.encode() + b"\0" for path in paths)
        updated = await git(
            "update-index",
            option,
            "-z",
            "--stdin",
            stdin=names,
            statuses=(0, 1, 128),
            timeout_s=_LONG_S,
        )
        # Paths that git thinks hostile it passes over with a word and status 0.
        if updated.status != 0 or "Ignoring path" in updated.errors:
            words = updated.errors.strip().splitlines()
            failure = git_failure("update-index", git.git_dir, updated)
            if isinstance(failure, DiskFullError) or not words:
                raise failure
            return refused([f"git cannot take a file in: {words[0]}; mend or delete it"])
    return full_id((await git("write-tree", timeout_s=_LONG_S)).text)


@asynccontextmanager
async def _quarantine(hub: Hub, index: Path, scratch: Path) -> AsyncIterator[Path]:
    """A folder with a copy of the index and an object store that borrows from the hub."""
    place = scratch / f"seal-{secrets.token_hex(8)}"
    try:
        await to_thread.run_sync(_fill, place, hub.path / "objects", index)
        yield place
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(place, ignore_errors=True))


def _fill(place: Path, borrowed: Path, index: Path) -> None:
    info = place / "objects" / "info"
    info.mkdir(parents=True)
    (info / "alternates").write_text(f"{borrowed}\n", encoding="utf-8")
    shutil.copy2(index, place / "index")  # with its time: by it git knows what to read again
