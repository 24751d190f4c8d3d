"""Private checkouts: one folder for each attempt, gate run or reader, made in milliseconds.

A workspace's folder holds `tree/`, the files; `git/`, an administrative folder of its own (HEAD,
`commondir`, index) that makes git treat it as a worktree of the hub; and what its sandbox needs.
The hub does not list it, so making and removing many at once cannot collide, and nothing an agent
writes in `tree/` can lead host git elsewhere: the git folder is always named. An empty `.git` file
at the root keeps any git that runs inside from finding a repository further up.

What it guarantees: nothing lies in the user's repository; what a killed run left under a name is
out of the way before that name is used again; a workspace is removed when its block is left.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.errors import InfrastructureError, WorkspaceError
from orchestrator.ports import Completed, FileEntry, Sealed, SealRefused
from orchestrator.workspace import strays
from orchestrator.workspace.environment import TREE, base_environment, with_added
from orchestrator.workspace.files import TreeFiles
from orchestrator.workspace.git import HostGit, full_id
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.names import ARTEFACT_EXCLUDES, is_printable
from orchestrator.workspace.process import run_process
from orchestrator.workspace.sandbox import Sandbox
from orchestrator.workspace.seal import Order, Seal

_ADMIN = "git"
_TRASH = ".trash"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_CHECKOUT_TIMEOUT_S = 1800.0
_REMOVAL_TIMEOUT_S = 600.0
_OUTPUT_BYTES_MAX = 10_000


class Workspaces:
    """Makes workspaces in `folder`, which lies in the state folder.

    `env`: variables for every command. `tool_path`: absolute folders, the commands' PATH.
    """

    def __init__(
        self,
        hub: Hub,
        folder: Path,
        sandbox: Sandbox,
        *,
        env: Mapping[str, str],
        tool_path: Sequence[str],
    ) -> None:
        self._hub, self._folder, self._sandbox = hub, folder, sandbox
        self._env, self._tool_path = dict(env), tuple(tool_path)

    @asynccontextmanager
    async def open(
        self, name: str, commit: str, *, tree_from: str | None = None
    ) -> AsyncIterator[TreeWorkspace]:
        """A checkout of `commit`, gone when the block is left.

        `name` must be used once at a time. `tree_from`: the commit whose files are checked out
        instead, while `commit` stays the parent of what is sealed. Raises `InfrastructureError`.
        """
        if _NAME.fullmatch(name) is None:
            raise InfrastructureError(f"{name!r} cannot name a workspace")
        place = self._folder / name
        start = full_id(tree_from or commit)
        await self._remove(place)
        try:
            places = await to_thread.run_sync(self._make, place, full_id(commit))
            git = HostGit(place / _ADMIN, place / TREE)
            await git("read-tree", "-m", "-u", start, timeout_s=_CHECKOUT_TIMEOUT_S)
            await to_thread.run_sync((place / TREE / ".git").touch)
            yield TreeWorkspace(
                place,
                self._hub,
                self._sandbox,
                parent=commit,
                start=start,
                base_env=with_added(base_environment(self._tool_path, places), self._env),
                tool_path=self._tool_path,
            )
        finally:
            with anyio.CancelScope(shield=True):
                await self._remove(place)

    def _make(self, place: Path, commit: str) -> dict[str, str]:
        """The folders of a workspace, its files aside; HOME and TMPDIR of its commands."""
        admin = place / _ADMIN
        (place / TREE).mkdir(parents=True)
        admin.mkdir()
        (admin / "HEAD").write_text(commit + "\n", encoding="ascii")
        (admin / "commondir").write_text(f"{self._hub.path}\n", encoding="utf-8")
        return self._sandbox.prepare(place)

    async def sweep(self, prefix: str) -> None:
        """End and remove what a dead process left of workspaces whose names start with `prefix`.

        Nobody may work in them: the caller holds the lock of the run that they belong to.
        """
        await to_thread.run_sync(strays.end_strays, prefix)
        for place in await to_thread.run_sync(_starting_with, self._folder, prefix):
            await self._remove(place)
        for gone in await to_thread.run_sync(_starting_with, self._folder / _TRASH, prefix):
            await self._delete(gone)

    async def _remove(self, place: Path) -> None:
        """Move a folder out of the way at once, then delete it."""
        gone = self._folder / _TRASH / f"{place.name}.{secrets.token_hex(4)}"
        if await to_thread.run_sync(_move, place, gone):
            await self._delete(gone)

    async def _delete(self, gone: Path) -> None:
        """Delete a folder of the trash whatever its modes are."""
        with anyio.move_on_after(_REMOVAL_TIMEOUT_S):
            for argv in (
                ["rm", "-rf", "--", str(gone)],
                ["chmod", "-R", "u+rwX", "--", str(gone)],
                ["rm", "-rf", "--", str(gone)],
            ):
                await run_process(
                    argv,
                    cwd=gone.parent,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                    timeout_s=_REMOVAL_TIMEOUT_S,
                    output_bytes_max=_OUTPUT_BYTES_MAX,
                )
                if not await to_thread.run_sync(os.path.lexists, gone):
                    return


class TreeWorkspace:
    """A `ports.Workspace` on a folder. Made by `Workspaces.open`."""

    def __init__(
        self,
        place: Path,
        hub: Hub,
        sandbox: Sandbox,
        *,
        parent: str,
        start: str,
        base_env: Mapping[str, str],
        tool_path: Sequence[str],
    ) -> None:
        self._place, self._tree, self._hub, self._sandbox = place, place / TREE, hub, sandbox
        self._parent, self._start = parent, start
        self._env, self._tool_path = dict(base_env), tuple(tool_path)
        self._git = HostGit(place / _ADMIN, self._tree)
        self._files = TreeFiles(self._tree, self.location)
        self._identity = _identity(self._tree)

    @property
    def location(self) -> str:
        """The root as commands and agents see it, an absolute path."""
        return self._sandbox.location(self._place)

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        output_bytes_max: int,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command at the root, in the sandbox. Raises `WorkspaceError` without a tree."""
        self._require_tree()
        wrapped, start_env = self._sandbox.wrap(
            argv,
            place=self._place,
            env=with_added(self._env, env or {}),
            tool_path=self._tool_path,
        )
        token = strays.new_token(self._place.name)
        if not self._sandbox.isolates:
            start_env[strays.VARIABLE] = token
        try:
            completed = await run_process(
                wrapped,
                cwd=self._tree,
                env=start_env,
                timeout_s=timeout_s,
                output_bytes_max=output_bytes_max,
            )
        finally:
            if not self._sandbox.isolates:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(strays.end_strays, token)
        return replace(completed, argv=tuple(argv))

    async def read(self, path: str, *, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of a regular file. Raises `FileAccessError`."""
        return await to_thread.run_sync(lambda: self._files.read(path, bytes_max=bytes_max))

    async def write(self, path: str, data: bytes) -> None:
        """Replace or create a regular file, folders included. Raises `FileAccessError`."""
        self._require_tree()
        await to_thread.run_sync(self._files.write, path, data)

    async def files(self) -> tuple[FileEntry, ...]:
        """All regular files, tracked or new, without ignored ones, sorted by path."""
        self._require_tree()
        listing = await self._git(
            "ls-files", "-z", "-c", "-o", "--exclude-standard", *ARTEFACT_EXCLUDES
        )
        return await to_thread.run_sync(_entries, self._tree, sorted(set(listing.fields)))

    async def seal(
        self,
        *,
        message: str,
        date: int,
        writes: Sequence[str] | None,
        protect: Sequence[str],
    ) -> Sealed | SealRefused:
        """Make a commit of the tree on top of the parent, see `orchestrator.workspace.seal`."""
        self._require_tree()
        seal = Seal(
            self._hub,
            self._git,
            self._tree,
            self._files,
            parent=self._parent,
            start=self._start,
        )
        order = Order(message, date, writes, protect)
        return await seal.run(order, self._place / _ADMIN / "index", self._place)

    def _require_tree(self) -> None:
        """The folder must be the one that was checked out, not one that took its place."""
        if _identity(self._tree) != self._identity:
            raise WorkspaceError(f"{self._tree}: the workspace is gone")


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _starting_with(folder: Path, prefix: str) -> list[Path]:
    names = os.listdir(folder) if folder.is_dir() else []
    return [folder / name for name in sorted(names) if name.startswith(prefix)]


def _move(place: Path, gone: Path) -> bool:
    """Rename into the trash; False when there is nothing to move."""
    if not os.path.lexists(place):
        return False
    gone.parent.mkdir(parents=True, exist_ok=True)
    place.rename(gone)
    return True


def _entries(tree: Path, paths: Sequence[str]) -> tuple[FileEntry, ...]:
    entries: list[FileEntry] = []
    for path in paths:
        try:
            found = os.lstat(tree / path)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and is_printable(path):
            entries.append(FileEntry(path, found.st_size, found.st_mtime_ns))
    return tuple(entries)
