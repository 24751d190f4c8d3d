"""The database under the journal: its schema, opening it, reading it. Not the writing of it.

    events(run, seq, at, cause, type, task, body)      one row for each event, never changed

Guarantees: a database of a newer version, or one that is damaged, is refused with a sentence and
never half read; a run's events come back in order and without gaps. Reading needs no lock and
works while a run is live (write-ahead log: a reader sees the last commit).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator.core.events import EVENT, StoredEvent
from orchestrator.errors import DiskFullError, InfrastructureError, RepositoryError

DATABASE_VERSION = 1
"""Kept in SQLite's `user_version`; a greater one belongs to a newer release."""

BUSY_SECONDS = 30.0
"""How long a writer waits for another run's commit."""
BUSY_PAUSE_S = 0.01

SCHEMA = (
    """
    CREATE TABLE events (
        id    INTEGER PRIMARY KEY,
        run   TEXT    NOT NULL,
        seq   INTEGER NOT NULL CHECK (seq >= 1),
        at    REAL    NOT NULL,
        cause INTEGER,
        type  TEXT    NOT NULL,
        task  TEXT,
        body  TEXT    NOT NULL,
        UNIQUE (run, seq)
    )
    """,
    """
    CREATE TRIGGER events_never_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END
    """,
    f"PRAGMA user_version = {DATABASE_VERSION}",
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of a list of runs."""

    id: str
    started_at: float
    """Unix seconds."""
    last_type: str
    """Type of its last event."""
    last_at: float
    """Unix seconds of its last event."""
    events: int


@dataclass(frozen=True, slots=True)
class Journal:
    """The runs of one target repository. Holds no connection: each call opens its own."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal at `path`, made when there is none.

        Raises `RepositoryError` when it cannot be read, is damaged, or is of a newer release.
        """
        journal = cls(path)
        existed = path.exists()
        with journal.connection() as db:
            version = _version(db)
            if version == 0:
                _create(db)
            elif version > DATABASE_VERSION:
                raise RepositoryError(
                    f"{path}: written by a newer release (version {version}, this one reads up to "
                    f"{DATABASE_VERSION}); upgrade, or set ORCHESTRATE_HOME to another folder"
                )
        if not existed:
            _sync_folder(path.parent)
        return journal

    def runs(self) -> list[RunSummary]:
        """All runs, oldest first, in the order in which they were started."""
        with self.connection() as db:
            rows = db.execute(
                "SELECT first.run, first.at, last.type, last.at, last.seq FROM events AS first"
                " JOIN events AS last ON last.run = first.run AND last.seq ="
                " (SELECT max(seq) FROM events WHERE run = first.run)"
                " WHERE first.seq = 1 ORDER BY first.id"
            ).fetchall()
        return [RunSummary(*row) for row in rows]

    def events(self, run: str, *, after: int = 0) -> list[StoredEvent]:
        """A run's events past sequence number `after`, in order; empty for an unknown run.

        Raises `RepositoryError` for a gap or a body that cannot be read: half a history is worse
        than none.
        """
        with self.connection() as db:
            rows = db.execute(
                "SELECT seq, at, cause, CAST(body AS BLOB) FROM events"
                " WHERE run = ? AND seq > ? ORDER BY seq",
                (run, after),
            ).fetchall()
        found: list[StoredEvent] = []
        for expected, (seq, at, cause, body) in enumerate(rows, start=after + 1):
            try:
                if seq != expected:
                    raise ValueError(f"record {expected} is missing")
                event = EVENT.validate_json(body)
                found.append(StoredEvent(seq=seq, run=run, at=at, cause=cause, body=event))
            except (ValidationError, ValueError) as error:
                raise RepositoryError(
                    f"{self.path}: record {expected} of run {run} cannot be read "
                    f"({_first_line(error)}); the journal is damaged or of a newer release"
                ) from error
        return found

    def last_seq(self, run: str) -> int:
        """Sequence number of the run's last event, 0 when it has none."""
        with self.connection() as db:
            row = db.execute("SELECT max(seq) FROM events WHERE run = ?", (run,)).fetchone()
        return int(row[0] or 0)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection set up for durable commits. SQLite's errors become this program's."""
        try:
            with closing(connect(self.path)) as db:
                yield db
        except sqlite3.Error as error:
            raise translated(error, self.path) from error


def connect(path: Path) -> sqlite3.Connection:
    """Open the database: autocommit, write-ahead log, every commit synced to the disk."""
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _write_ahead(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA trusted_schema = OFF")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch the write-ahead log on, which lasts.

    Of several processes that switch at once SQLite turns all but one away without waiting.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE_S)
        else:
            return


def translated(error: Exception, path: Path) -> Exception:
    """SQLite's error as one of this program's, by what the user can do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFullError(f"{path}: the disk is full; free some room, then `orchestrate resume`")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return RepositoryError(f"{path}: the journal is damaged ({error}); put a copy back")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY):
        return RepositoryError(f"{path}: the journal cannot be opened ({error}); check its access")
    return InfrastructureError(f"{path}: the journal could not be used ({error})")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _create(db: sqlite3.Connection) -> None:
    """Make the tables, once, whoever comes first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if _version(db) == 0:
            for statement in SCHEMA:
                db.execute(statement)
        db.execute("COMMIT")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, which syncing the file alone does not."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return ".".join(str(part) for part in first["loc"]) + ": " + first["msg"]
    return str(error).partition("\n")[0]
