"""The one process runner: every command of an agent, a gate or a setup step goes through here.

What it guarantees:

- the child has a session of its own, nothing on its stdin, and both streams in one pipe, in order;
- output is drained as it comes and capped: head and tail are kept, the middle is dropped, so a
  command that prints 200 MB costs as much memory as the cap;
- it returns when the direct child has exited, not when the pipe closes, and then ends what is left
  of the child's process group: TERM, a short grace, KILL. The same happens past the time limit and
  when the caller is cancelled, in a bounded cleanup that cancellation cannot cut short.

It is no sandbox: a process that made itself a session of its own escapes the group. The sandbox's
process namespace and `orchestrator.workspace.strays` see to those.
"""

from __future__ import annotations

import os
import pwd
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import Process

from orchestrator.errors import WorkspaceError
from orchestrator.ports import Completed

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_CHUNK_BYTES = 1 << 16
_GRACE_S = 0.5
_CLEANUP_S = 5.0
_LINGER_S = 0.2
_POLL_S = 0.01


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    output_bytes_max: int,
    stdin: bytes | Path | None = None,
    user: int | None = None,
) -> Completed:
    """Run `argv` in `cwd` with exactly the environment `env` and return how it ended.

    `stdin`: bytes or a file to feed it, None is an empty input. `user`: a numeric user id to run
    as, with that user's main group; needs root. A missing program gives exit status 127, one that
    cannot be executed 126, both with a message as output. Raises `WorkspaceError` when `cwd` is
    not there.
    """
    started = time.monotonic()
    output = _HeadAndTail(output_bytes_max)
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    try:
        with _input(stdin) as source:
            try:
                process = await anyio.open_process(
                    list(argv),
                    stdin=source,
                    stdout=write_fd,
                    stderr=write_fd,
                    cwd=cwd,
                    env=dict(env),
                    start_new_session=True,
                    user=user,
                    group=None if user is None else pwd.getpwuid(user).pw_gid,
                    extra_groups=None if user is None else [],
                )
            except OSError as error:
                failure = _start_failure(error, argv, cwd, output)
                return output.completed(argv, failure, started)
            finally:
                os.close(write_fd)
        status = await _attend(process, read_fd, output, timeout_s)
    finally:
        os.close(read_fd)
    return output.completed(argv, status, started)


async def _attend(
    process: Process, read_fd: int, output: _HeadAndTail, timeout_s: float
) -> int | None:
    """Drain and wait; whatever happens, leave nothing of the process group behind."""
    status: int | None = None
    drain = _Drain(read_fd, output)
    async with anyio.create_task_group() as group:
        group.start_soon(drain.run)
        try:
            with anyio.move_on_after(timeout_s):
                status = await process.wait()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEANUP_S):
                await _end_group(process)
                await process.wait()
                await drain.finish()
            drain.stop()  # also where the cleanup ran out of time: its scope is shielded
    return status if status is None or status >= 0 else 128 - status


class _Drain:
    """Reads the output until the pipe closes, also while its caller is being cancelled."""

    def __init__(self, read_fd: int, output: _HeadAndTail) -> None:
        self._read_fd, self._output = read_fd, output
        self._scope = anyio.CancelScope(shield=True)
        self._closed = anyio.Event()

    async def run(self) -> None:
        with self._scope:
            while True:
                await anyio.wait_readable(self._read_fd)
                try:
                    chunk = os.read(self._read_fd, _CHUNK_BYTES)
                except BlockingIOError:
                    continue
                if not chunk:
                    break
                self._output.add(chunk)
        self._closed.set()

    async def finish(self) -> None:
        """Wait a moment for the pipe to close: processes that are being killed hold it open."""
        with anyio.move_on_after(_LINGER_S):
            await self._closed.wait()

    def stop(self) -> None:
        """Read no more."""
        self._scope.cancel()


async def _end_group(process: Process) -> None:
    """TERM to the child's group, KILL to what is still there after the grace."""
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        deadline = time.monotonic() + patience_s
        if not _signal_group(process.pid, number):
            return
        while time.monotonic() < deadline:
            await anyio.sleep(_POLL_S)
            if not _group_lives(process.pid):
                return


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False when nothing of it is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return number != 0
    return True


def _group_lives(group: int) -> bool:
    """Whether a process group has a member that is more than a zombie.

    The dead stay in their group until their parent reaps them, which a container's first process
    may never do. Where there is no /proc they count as alive.
    """
    if not _signal_group(group, 0):
        return False
    statuses = [Path("/proc", name, "stat") for name in _listed("/proc") if name.isdigit()]
    return not statuses or any(_lives_in(group, status) for status in statuses)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _lives_in(group: int, status: Path) -> bool:
    """Whether a process, by its /proc/PID/stat, is of `group` and alive."""
    try:
        fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[2]) == group and fields[0] not in {"Z", "X"}


@contextmanager
def _input(stdin: bytes | Path | None) -> Iterator[IO[bytes]]:
    """An open file to read stdin from; bytes go through a file, so that no writer can block."""
    if isinstance(stdin, bytes):
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            yield file
    else:
        with (stdin or Path(os.devnull)).open("rb") as file:
            yield file


def _start_failure(error: OSError, argv: Sequence[str], cwd: Path, output: _HeadAndTail) -> int:
    """The exit status a shell would give for a program that does not start."""
    if not cwd.is_dir():
        raise WorkspaceError(f"{cwd}: the folder to run in is gone") from error
    output.add(f"{argv[0]}: {error.strerror or error}\n".encode(errors="surrogateescape"))
    missing = isinstance(error, FileNotFoundError)
    return NOT_FOUND if missing else NOT_EXECUTABLE


class _HeadAndTail:
    """Bytes up to a cap: the first half and the last half of what was added."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max - bytes_max // 2
        self._tail_max = bytes_max // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = self._head_max - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        excess = max(0, len(self._tail) - self._tail_max)
        del self._tail[:excess]
        self._dropped += excess

    def completed(self, argv: Sequence[str], status: int | None, started: float) -> Completed:
        return Completed(
            argv=tuple(argv),
            exit_status=status,
            output=bytes(self._head + self._tail),
            dropped_bytes=self._dropped,
            seconds=time.monotonic() - started,
        )
