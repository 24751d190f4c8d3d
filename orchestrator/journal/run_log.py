"""The one writer of a run: takes its lock, appends its events. Not what the events mean.

Design. One thread owns the database connection. Appends wait in a queue; the thread takes all that
wait, writes them in one transaction and wakes their callers: under load many tasks share one sync
of the disk (group commit), alone each has its own.

Guarantees.
- When `append` returns, its events are on the disk; they stand together, in order, with sequence
  numbers that have no gaps, also after SIGKILL at any moment.
- A cancelled caller does not tear an append: it is finished first.
- After a failed write nothing more is written, so no event can stand without its cause.
- Two processes never write one run: the lock is the kernel's and ends with its holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import queue
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import anyio
from pydantic_core import PydanticSerializationError

from orchestrator.core.events import EVENT, Event, StoredEvent
from orchestrator.errors import (
    DiskFullError,
    InfrastructureError,
    LockedError,
    RepositoryError,
    is_disk_full,
)
from orchestrator.journal.fault import Fault
from orchestrator.journal.store import BUSY_SECONDS, Journal, connect, translated
from orchestrator.state_folder import RunFolder

APPEND_SECONDS_MAX = BUSY_SECONDS + 30.0
"""How long an append may take, disk and other runs' commits included."""

GROUP_RECORDS_MAX = 1_000
"""Appends past this many records go into the next commit."""

LOCK_TRIES = 100
"""How often a lock that is held is tried again: `holder_of` has it for an instant."""
LOCK_PAUSE_S = 0.002

Entry = tuple[Event, int | None]
"""An event and the sequence number of its cause."""


@dataclass(slots=True)
class _Append:
    """One waiting call of `append`."""

    entries: tuple[Entry, ...]
    stored: list[StoredEvent] = field(default_factory=list)
    done: Future[tuple[StoredEvent, ...]] = field(default_factory=Future)


class RunLog:
    """The log of one run, open for appending. Made by `acquire`; an async or plain context."""

    def __init__(
        self, folder: RunFolder, journal: Journal, lock: int, clock: Callable[[], float]
    ) -> None:
        """Not to be called; `acquire` takes the lock first."""
        self.run = folder.run
        self._journal = journal
        self._lock = lock
        self._clock = clock
        self._fault = Fault.from_environment()
        self._seq = journal.last_seq(self.run)
        self._written = 0
        self._broken: Exception | None = None
        self._waiting: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._db: sqlite3.Connection = connect(journal.path)
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls, folder: RunFolder, journal: Journal, *, clock: Callable[[], float] = time.time
    ) -> RunLog:
        """Become the run's one writer.

        clock: gives Unix seconds, the `at` of events. Raises `LockedError` when another process
        has the run, and what `Journal.open` raises.
        """
        folder.create()
        lock = _lock(folder.lock)
        try:
            return cls(folder, journal, lock, clock)
        except sqlite3.Error as error:
            os.close(lock)
            raise translated(error, journal.path) from error
        except BaseException:
            os.close(lock)
            raise

    @property
    def last_seq(self) -> int:
        """Sequence number of the last durable event, 0 at the start."""
        return self._seq

    async def append(self, entries: Sequence[Entry]) -> tuple[StoredEvent, ...]:
        """Record events together, in order; they are durable when this returns.

        Cancellation waits for the disk, so that the caller always learns what was recorded.
        Raises `DiskFullError`, or `InfrastructureError` when the database cannot be written.
        """
        if not entries:
            return ()
        if self._lock < 0:
            raise InfrastructureError(f"{self._journal.path}: the log of {self.run} is closed")
        item = _Append(tuple(entries))
        self._waiting.put(item)
        with anyio.move_on_after(APPEND_SECONDS_MAX, shield=True):
            return await asyncio.wrap_future(item.done)
        raise InfrastructureError(
            f"{self._journal.path}: not written within {APPEND_SECONDS_MAX:.0f} s; look at the disk"
        )

    def close(self) -> None:
        """Finish what waits, close the database, give up the lock. May be called again."""
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        self._waiting.put(None)
        self._thread.join(APPEND_SECONDS_MAX)
        os.close(lock)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What follows runs in the writer thread.

    def _serve(self) -> None:
        """Take what waits, write it, tell the callers; until `close`."""
        more = True
        with contextlib.closing(self._db):
            while more:
                group, more = self._next_group()
                try:
                    self._write(group)
                except Exception as error:  # noqa: BLE001 - the callers raise it, in their thread
                    self._broken = self._broken or self._told(error)
                for item in group:
                    if self._broken is not None and len(item.stored) < len(item.entries):
                        item.done.set_exception(self._broken)
                    else:
                        item.done.set_result(tuple(item.stored))

    def _next_group(self) -> tuple[list[_Append], bool]:
        """All appends that wait, at least one before `close`; False with the last of them."""
        group: list[_Append] = []
        records = 0
        item = self._waiting.get()
        while item is not None:
            if item.done.set_running_or_notify_cancel():  # else its caller has given up
                group.append(item)
                records += len(item.entries)
            if records >= GROUP_RECORDS_MAX or self._waiting.empty():
                return group, True
            item = self._waiting.get()
        return group, False

    def _write(self, group: Sequence[_Append]) -> None:
        """Write a group in one transaction, or in as many as the fault point asks for."""
        if self._broken is not None:
            return
        at = self._clock()
        todo = [(item, entry) for item in group for entry in item.entries]
        while todo:
            room = self._fault.room(self._written) if self._fault else None
            part, todo = todo[:room], todo[room:] if room is not None else []
            if self._fault:
                self._fault.before(self._written)
            stored = [
                self._stored(self._seq + offset, at, entry)
                for offset, (_, entry) in enumerate(part, start=1)
            ]
            self._commit(stored)
            self._seq += len(stored)
            self._written += len(stored)
            if self._fault:
                self._fault.after(self._written)
            for (item, _), (event, _) in zip(part, stored, strict=True):
                item.stored.append(event)

    def _stored(self, seq: int, at: float, entry: Entry) -> tuple[StoredEvent, bytes]:
        """An event as it will be read back, and its body's JSON."""
        event, cause = entry
        event, body = encoded(event)
        return StoredEvent(seq=seq, run=self.run, at=at, cause=cause, body=event), body

    def _commit(self, records: Sequence[tuple[StoredEvent, bytes]]) -> None:
        """One transaction, synced."""
        rows = [
            (
                event.run,
                event.seq,
                event.at,
                event.cause,
                event.body.type,
                getattr(event.body, "task", None),
                body.decode(),
            )
            for event, body in records
        ]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                "INSERT INTO events (run, seq, at, cause, type, task, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _told(self, error: Exception) -> Exception:
        """The error as callers see it."""
        if isinstance(error, sqlite3.Error):
            return translated(error, self._journal.path)
        if is_disk_full(error):
            return DiskFullError(
                f"{self._journal.path}: the disk is full; free some room, then `orchestrate resume`"
            )
        return error


def encoded(event: Event) -> tuple[Event, bytes]:
    """An event's JSON, with the event as that JSON reads back.

    Defaults are written out: an old record keeps its meaning when a default changes. Half
    characters (file names that are no UTF-8) have no JSON; they become `?`.
    """
    try:
        return event, EVENT.dump_json(event, by_alias=True)
    except PydanticSerializationError:
        plain = EVENT.dump_python(event, by_alias=True)
        body = json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")
        return EVENT.validate_json(body), body


def holder_of(folder: RunFolder) -> str | None:
    """Who runs this run right now, as `process 123 on host`; None when nobody does."""
    try:
        descriptor = os.open(folder.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _lock(path: Path) -> int:
    """Take the lock and write down who has it. The kernel drops it when this process ends."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RepositoryError(f"{path}: the lock cannot be made ({error.strerror})") from error
    try:
        _flock(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    except BlockingIOError as error:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise LockedError(
            f"run {path.parent.name} is being run by {holder}; wait for it, or end that process"
        ) from error
    except OSError as error:
        os.close(descriptor)
        if is_disk_full(error):
            raise DiskFullError(f"{path}: the disk is full; free some room") from error
        raise RepositoryError(f"{path}: cannot be locked ({error.strerror})") from error
    return descriptor


def _flock(descriptor: int) -> None:
    """Lock it, past the instant for which `holder_of` may have it in other processes."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(LOCK_PAUSE_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(descriptor: int) -> str:
    """What the holder wrote, made safe to print."""
    text = os.pread(descriptor, 200, 0).decode("ascii", "replace").strip()
    return text if text.isprintable() and text else "another process"
