"""Host-side git: GitPython's `Git` behind one hardened call. The only module that imports `git`.

What it guarantees:

- git sees nothing of the caller's environment: every `GIT_*` variable is scrubbed, personal and
  system configuration are not read, nothing prompts, edits, signs, pages or goes to the network;
- the git folder is named, never discovered, so no file in a work tree can point git elsewhere;
- hooks, file system monitors and attribute files outside the tree are off;
- each call has a deadline; cancelling it ends git at once; output can be capped.

Not here: GitPython's `Repo`, `IndexFile` and object API. `Repo` is not safe to share between
threads, and its index is slow and runs hooks.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from orchestrator.errors import (
    DiskFullError,
    InfrastructureError,
    OrchestratorError,
    RepositoryError,
)

# Without this, importing GitPython fails where git is missing; `require_git` says it in one line.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
import git

OLDEST_GIT = (2, 38)
"""The first git with `merge-tree --write-tree`."""

IDENTITY = ("orchestrate", "orchestrate@localhost")
"""Name and address on every commit and log entry the harness makes."""

_TIMEOUT_S = 120.0
_PROCESSES_MAX = 8
_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_SEQUENCE_EDITOR": "/bin/false",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would let one blob pose as another
    "GIT_OPTIONAL_LOCKS": "0",  # reading must not disturb a git that writes
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_AUTHOR_NAME": IDENTITY[0],
    "GIT_AUTHOR_EMAIL": IDENTITY[1],
    "GIT_COMMITTER_NAME": IDENTITY[0],
    "GIT_COMMITTER_EMAIL": IDENTITY[1],
}

# Settings that could start a program, rewrite content or break a promise made above. An empty
# diff.external is fatal to git, so diffs say --no-ext-diff instead.
_CONFIGURATION = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.autocrlf=false",
    "core.quotePath=false",
    "credential.helper=",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=1",  # packs are small and agents fill the cores
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=all",
    "safe.bareRepository=explicit",
    "transfer.fsckObjects=true",
    "rerere.enabled=false",
)

# Discovery alone honours the caller's configuration: that is where `safe.directory` stands.
_DISCOVERY_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "SUDO_UID")
_DISCOVERY_PREFIX = "GIT_CONFIG"

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("host git processes")


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a git command ended."""

    status: int
    output: bytes
    """Standard output, cut at the call's cap."""
    errors: str

    @property
    def text(self) -> str:
        """Standard output without its last newline; bytes that are no UTF-8 as surrogates."""
        return os.fsdecode(self.output).removesuffix("\n")

    @property
    def fields(self) -> tuple[str, ...]:
        """Standard output of a `-z` command."""
        return tuple(os.fsdecode(part) for part in self.output.split(b"\0")[:-1])


@dataclass(frozen=True, slots=True)
class HostGit:
    """Git bound to one git folder. Values only, so it can be shared freely."""

    git_dir: Path
    work_tree: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """More of git's own variables, such as GIT_INDEX_FILE."""
    user: int | None = None
    """Run as this user id; None is the current one."""

    async def __call__(
        self,
        *args: str,
        stdin: bytes | Path = b"",
        statuses: Sequence[int] = (0,),
        date: int | None = None,
        bytes_max: int | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> GitResult:
        """Run `git ARGS`.

        A status that is not in `statuses` raises `InfrastructureError`, or `DiskFullError`.
        `date`: Unix seconds for author and committer. `bytes_max`: stop reading, and git, there;
        `stdin` must then be short.
        """
        env = {
            **_ENVIRONMENT,
            "PATH": os.environ.get("PATH", os.defpath),
            "GIT_DIR": str(self.git_dir),
            **self.variables,
        }
        if self.work_tree is not None:
            env["GIT_WORK_TREE"] = str(self.work_tree)
        if date is not None:
            env["GIT_AUTHOR_DATE"] = env["GIT_COMMITTER_DATE"] = f"@{date} +0000"
        settings = [part for setting in _CONFIGURATION for part in ("-c", setting)]
        result = await _execute(
            [*settings, *args],
            cwd=self.work_tree or self.git_dir,
            env=env,
            stdin=stdin,
            bytes_max=bytes_max,
            timeout_s=timeout_s,
            user=self.user,
        )
        if result.status not in statuses and not (bytes_max and len(result.output) >= bytes_max):
            raise git_failure(args[0], self.git_dir, result)
        return result

    def using(self, **variables: str) -> HostGit:
        """The same with more of git's variables set."""
        return HostGit(
            self.git_dir, self.work_tree, {**self.variables, **variables}, user=self.user
        )


def git_failure(command: str, git_dir: Path, result: GitResult) -> OrchestratorError:
    """The error for a git command that should have worked: what, where, git's own words."""
    words = result.errors.strip().splitlines()
    if any(sign in result.errors for sign in _DISK_FULL):
        return DiskFullError(f"{git_dir}: git {command}: {words[-1]}; free some room, then resume")
    return InfrastructureError(
        f"{git_dir}: git {command} ended with status {result.status}: "
        f"{words[-1] if words else 'no message'}"
    )


def full_id(value: str) -> str:
    """`value` if it is a full object id. Anything else must never reach git as an argument."""
    if _FULL_ID.fullmatch(value) is None:
        raise InfrastructureError(f"{value!r} is no full object id")
    return value


async def discover(folder: Path, *args: str) -> GitResult:
    """Run `git ARGS` in `folder` with the caller's own configuration and no git folder named.

    Only for finding a repository: it honours `safe.directory` and refuses repositories of others.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _DISCOVERY_VARIABLES or name.startswith(_DISCOVERY_PREFIX)
    }
    env |= {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    return await _execute(
        ["-c", "core.fsmonitor=false", *args],
        cwd=folder,
        env=env,
        stdin=b"",
        bytes_max=None,
        timeout_s=_TIMEOUT_S,
        user=None,
    )


async def require_git() -> tuple[int, ...]:
    """The version of git on this machine. Raises `RepositoryError` when missing or too old."""
    needed = ".".join(map(str, OLDEST_GIT))
    result = await discover(Path("/"), "version")
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", result.text)
    if found is None:
        raise RepositoryError(
            f"git: no version in what it says ({result.text[:80]!r}); install git {needed} or newer"
        )
    version = tuple(int(part) for part in found.groups(default="0"))
    if version[:2] < OLDEST_GIT:
        raise RepositoryError(
            f"git: this is {found[0]}, but {needed} or newer is needed; install a newer git"
        )
    return version


def owner_of(path: Path) -> int | None:
    """The user id to write `path` as when we are root and it is another user's, else None."""
    owner = path.stat().st_uid
    return owner if os.geteuid() == 0 and owner != 0 else None


async def _execute(
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | Path,
    bytes_max: int | None,
    timeout_s: float,
    user: int | None,
) -> GitResult:
    program = shutil.which("git")
    if program is None:
        raise RepositoryError("git: not found on PATH; install git 2.38 or newer")
    # GitPython adds to the environment and cannot take away from it: `env -i` starts from nothing.
    argv = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in env.items())]
    argv += [program, *args]
    child = _Child(argv, cwd, stdin, bytes_max, user)
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(_PROCESSES_MAX)
        _limiter.set(limiter)
    async with limiter:  # waiting for a turn, behind long checkouts, is not git's own time
        try:
            with anyio.fail_after(timeout_s):
                return await to_thread.run_sync(child.run, abandon_on_cancel=True)
        except TimeoutError:
            raise InfrastructureError(f"git: no answer within {timeout_s:g} s in {cwd}") from None
        finally:
            child.kill()


class _Child:
    """One git process, run in a thread and ended from another."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        stdin: bytes | Path,
        bytes_max: int | None,
        user: int | None,
    ) -> None:
        self._argv, self._cwd = argv, cwd
        self._stdin, self._bytes_max, self._user = stdin, bytes_max, user
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = threading.Event()

    def run(self) -> GitResult:
        if isinstance(self._stdin, bytes):
            return self._communicate(subprocess.PIPE, self._stdin)
        with self._stdin.open("rb") as file:
            return self._communicate(file, b"")

    def _communicate(self, source: int | BinaryIO, stdin: bytes) -> GitResult:
        if self._unwanted.is_set():
            return GitResult(-1, b"", "cancelled")
        handle = git.Git(self._cwd).execute(
            list(self._argv),
            as_process=True,
            istream=source,
            start_new_session=True,
            user=self._user,
            group=None if self._user is None else pwd.getpwuid(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
        )
        process = handle.proc
        if process is None or process.stdout is None:
            raise InfrastructureError(f"{self._cwd}: git did not start")
        self._process = process
        if self._unwanted.is_set():
            self.kill()
        if self._bytes_max is None:
            output, errors = process.communicate(stdin or None)
            return GitResult(process.returncode, output, errors.decode(errors="replace"))
        if process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        output = process.stdout.read(self._bytes_max)
        if len(output) == self._bytes_max:
            process.kill()
        errors = process.communicate()[1]
        return GitResult(process.returncode, output, errors.decode(errors="replace"))

    def kill(self) -> None:
        """End the process if it still runs, or keep it from starting."""
        self._unwanted.set()
        process = self._process
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):  # ended, and reaped by its thread, just now
                os.killpg(process.pid, signal.SIGKILL)
