"""A user's own checkout, written by the user's own git: filters, line ends and sparseness count.

Everywhere else git is kept from personal configuration (`workspace.git`). Here it is wanted: a
file that git-lfs or `core.autocrlf` looks after must come out as the user's next `git pull` would
make it. So the configuration is trusted, as it is whenever its owner types `git merge`. Files of
the tree are not: attributes in it can only name drivers that the user has configured.

What it guarantees: hooks and daemons stay off; nothing is asked, put aside, cleaned up or fetched
into submodules; a checkout with changes of its own, or in the middle of something, is left as it
is; as root, git runs as the owner of the checkout with the owner's configuration.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.errors import RepositoryError
from orchestrator.ports import Completed
from orchestrator.workspace.git import owner_of
from orchestrator.workspace.names import is_printable
from orchestrator.workspace.process import run_process

_SECONDS_MAX = 120.0
_UPDATE_SECONDS_MAX = 1800.0
_OUTPUT_BYTES_MAX = 1_000_000
_PATHS_NAMED_MAX = 3

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "merge.autoStash=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
"""What does not happen whatever the configuration says."""

_NOT_PASSED = re.compile(r"GIT_(?!CONFIG)|ANTHROPIC_")
"""Variables that would point git elsewhere, or that are none of its business."""
_PERSONAL = re.compile(r"GIT_CONFIG|XDG_|(HOME|USER|LOGNAME)$")
"""Variables that say whose configuration counts."""

_QUIET = ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh")
"""Runs a command without what it says on stderr."""

ONGOING = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or `git am`",
    "sequencer": "a cherry-pick or revert",
    "BISECT_START": "a bisect",
}
"""Files of a checkout's git folder by which git knows what it is in the middle of."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A work tree of the user's, main or linked."""

    top: Path
    user: int | None = field(init=False)
    """User id to work as; None is the caller's."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", owner_of(self.top))

    async def check(self, branch: str) -> None:
        """Raise `RepositoryError` unless `branch` is checked out here and nothing is under way.

        Untracked files are no obstacle yet: git refuses by itself to write over them.
        """
        head = os.fsdecode(await self._read("symbolic-ref", "-q", "HEAD"))
        if head.removesuffix("\n") != f"refs/heads/{branch}":
            raise RepositoryError(f"{self.top}: has changed to another branch just now; land again")
        git_dir = os.fsdecode(await self._read("rev-parse", "--absolute-git-dir"))
        for name, what in ONGOING.items():
            if await to_thread.run_sync(os.path.lexists, Path(git_dir.removesuffix("\n"), name)):
                raise RepositoryError(f"{self.top}: is in the middle of {what}; end that first")
        status = await self._read(
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=no",
            "--ignore-submodules=dirty",
        )
        if changed := [os.fsdecode(record)[3:] for record in status.split(b"\0") if record]:
            raise RepositoryError(
                f"{self.top}: has changes that are not committed ({listed(changed)}); "
                "commit or stash them"
            )

    async def fast_forward(self, commit: str, *, reason: str) -> str:
        """Bring the branch that is checked out here, and its files, to `commit`.

        A caller that is cancelled waits for git: half a checkout helps nobody. `reason` is for the
        reflogs. Gives git's own words where it did not work, else an empty text.
        """
        with anyio.CancelScope(shield=True):
            done = await self._run(
                "merge",
                "--ff-only",
                "--no-squash",
                "--no-stat",
                "--quiet",
                commit,
                variables={"GIT_REFLOG_ACTION": reason},
                timeout_s=_UPDATE_SECONDS_MAX,
            )
        return "" if done.exit_status == 0 else _words(done)

    async def _read(self, *args: str) -> bytes:
        """What git prints. Raises `RepositoryError` with its words when it fails."""
        done = await self._run(*args, quiet=True)
        if done.exit_status not in (0, 1):
            loud = await self._run(*args)
            raise RepositoryError(f"{self.top}: git {args[0]}: {_words(loud)}")
        return done.output

    async def _run(
        self,
        *args: str,
        variables: Mapping[str, str] | None = None,
        quiet: bool = False,
        timeout_s: float = _SECONDS_MAX,
    ) -> Completed:
        program = shutil.which("git") or "git"
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return await run_process(
            [*(_QUIET if quiet else ()), program, *settings, *args],
            cwd=self.top,
            env={**await to_thread.run_sync(_environment, self.user), **(variables or {})},
            timeout_s=timeout_s,
            output_bytes_max=_OUTPUT_BYTES_MAX,
            user=self.user,
        )


def listed(paths: Sequence[str]) -> str:
    """The first of `paths` on one line, and how many more there are."""
    named = [path if is_printable(path) else repr(path) for path in paths[:_PATHS_NAMED_MAX]]
    more = len(paths) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _environment(user: int | None) -> dict[str, str]:
    """The caller's variables, with the configuration of `user` where that is somebody else."""
    env = {name: value for name, value in os.environ.items() if not _NOT_PASSED.match(name)}
    if user is not None:
        owner = pwd.getpwuid(user)
        env = {name: value for name, value in env.items() if not _PERSONAL.match(name)}
        env |= {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name}
    return env | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "/bin/false",
        "GIT_PAGER": "cat",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def _words(done: Completed) -> str:
    """Why git did not do it, on one line: its errors, not the advice below them."""
    lines = [line.strip() for line in done.output.decode(errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("hint:")]
    if done.timed_out:
        return "git did not end in time"
    return " ".join(said)[:1_000] or f"git ended with status {done.exit_status}"
