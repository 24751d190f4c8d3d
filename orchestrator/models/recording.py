"""Records what a model answers, so that the run can be replayed without it.

Stands before the model that a run really uses, failure policy included: what is recorded is what
agents got, answers and errors; a pause is no end of a request and is not recorded. An exchange is
on disk, fsynced, before the agent sees it. The file can be read by its owner only: it holds all
that the agents have read. What stands in it is `orchestrator.models.exchanges`.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from orchestrator.errors import DiskFullError, InfrastructureError, UsageError, is_disk_full
from orchestrator.messages import Reply, Request
from orchestrator.models.contents import Latest
from orchestrator.models.exchanges import (
    Exchange,
    Failure,
    Head,
    line_of,
    prefix_of,
    read_recording,
)
from orchestrator.ports import Model, ModelError, Spend

T = TypeVar("T")


class RecordingModel:
    """`ports.Model` that writes down what another one answers. Made by `open`."""

    def __init__(self, inner: Model, path: Path, descriptor: int, exchanges: int) -> None:
        """`descriptor`: the open file, `exchanges`: how many it holds."""
        self._inner = inner
        self._path = path
        self._descriptor = descriptor
        self._exchanges = exchanges
        self._prefixes: set[str] = set()
        self._latest: Latest[tuple[Request, Exchange]] = Latest()
        """What the next exchange of a conversation goes on from; it is whole where that is gone."""
        self._writing = anyio.Lock()

    @classmethod
    async def open(cls, inner: Model, path: Path, *, goes_on: bool = False) -> RecordingModel:
        """Start a recording at `path`, or with `goes_on` go on with the one that is there.

        A line that a crash cut off is removed. Raises `UsageError` where the file cannot be
        written, holds something else, or another run records into it.
        """
        descriptor, exchanges = await anyio.to_thread.run_sync(_open, path, goes_on)
        return cls(inner, path, descriptor, exchanges)

    async def close(self) -> None:
        """Close the file; nothing can be recorded any more."""
        await anyio.to_thread.run_sync(os.close, self._descriptor)

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """Ask the other model and record what came of it. Raises what that one raises.

        Raises `DiskFullError` or `InfrastructureError` where the answer cannot be kept.
        """
        try:
            reply = await self._inner.complete(request, spend)
        except ModelError as error:
            if error.reason != "pause":
                failure = Failure(reason=error.reason, message=str(error), usage=error.usage)
                await self._write(request, None, failure)
            raise
        await self._write(request, reply, None)
        return reply

    async def _write(self, request: Request, reply: Reply | None, error: Failure | None) -> None:
        async with self._writing:
            prefix = prefix_of(request)
            exchange = self._exchange(request, prefix.digest, reply, error)
            lines = [] if prefix.digest in self._prefixes else [line_of(prefix)]
            await _kept(self._path, lambda: self._append(b"".join([*lines, line_of(exchange)])))
            self._prefixes.add(prefix.digest)
            self._exchanges = exchange.number
            self._latest.put((request.task, request.attempt), (request, exchange))

    def _exchange(
        self, request: Request, prefix: str, reply: Reply | None, error: Failure | None
    ) -> Exchange:
        """The exchange, as what is new since the last one of its conversation."""
        after, replied, said = None, True, 0
        latest = self._latest.get((request.task, request.attempt))
        if latest is not None:
            earlier, last = latest
            said = len(earlier.messages)
            if request.messages[:said] == earlier.messages:
                after = last.number
                answer = request.messages[said : said + 1]
                replied = last.reply is not None and answer == (last.reply.message,)
        return Exchange(
            number=self._exchanges + 1,
            task=request.task,
            attempt=request.attempt,
            model=request.model,
            prefix=prefix,
            after=after,
            replied=replied,
            messages=request.messages[said + replied if after is not None else 0 :],
            reply=reply,
            error=error,
        )

    def _append(self, data: bytes) -> None:
        """Append all of it or, as far as the disk lets us, nothing."""
        size = os.fstat(self._descriptor).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise


async def _kept(path: Path, work: Callable[[], None]) -> None:
    """Do `work` in a thread; a full disk and other failures become errors of ours."""
    try:
        await anyio.to_thread.run_sync(work)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(f"{path}: {error}; free some room, then resume") from error
        raise InfrastructureError(f"{path}: the recording cannot be written: {error}") from error


def _open(path: Path, goes_on: bool) -> tuple[int, int]:
    """The file's descriptor and the number of its exchanges."""
    try:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a file to record into") from None
    try:
        return descriptor, _prepare(descriptor, path, goes_on)
    except OSError as error:
        os.close(descriptor)
        raise UsageError(f"{path}: cannot be recorded into: {error.strerror}") from None
    except BaseException:
        os.close(descriptor)
        raise


def _prepare(descriptor: int, path: Path, goes_on: bool) -> int:
    """Make the open file ready to be appended to; the number of its exchanges."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is no regular file; name a file to record into")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path}: another run records into it; name another file") from None
    if status.st_size and not goes_on:
        raise UsageError(f"{path}: holds something already; name a new file, or remove it")
    os.fchmod(descriptor, 0o600)
    exchanges = 0
    whole = _whole_lines(descriptor, status.st_size)
    if whole:
        exchanges = len(read_recording(path))
        os.ftruncate(descriptor, whole)
    else:
        if not line_of(Head()).startswith(os.pread(descriptor, 1_000, 0)):
            raise UsageError(f"{path}: is no recording; name a new file, or remove it")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, line_of(Head()))
    os.fsync(descriptor)
    return exchanges


def _whole_lines(descriptor: int, size: int) -> int:
    """How many bytes end with the last whole line."""
    end = size
    while end:
        start = max(end - 65_536, 0)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
