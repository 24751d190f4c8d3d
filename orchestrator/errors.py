"""The error tree: every fault that a person can mend, and the exit code it ends with.

    OrchestratorError                     exit 70 unless a subclass says otherwise
    ├── UsageError                        2   the command line
    ├── PlanError                         2   plan, role file, script: all its faults at once
    ├── RepositoryError                   3   the target repository or this machine cannot be used
    ├── LockedError                       5   another live process owns the run
    ├── DiskFullError                     6   the journal could not be written
    └── InfrastructureError               3   worker, git or disk failed: an attempt is lost
        └── WorkspaceError                    a workspace is gone or refuses an operation

An error raised on purpose is one of these; its text is one line that says where, what, and how to
mend it. Anything else that reaches the top is a bug: a report file is written and its path printed.

Failed tasks, conflicts and red gates are values (`AttemptOutcome`), never exceptions.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process ends with; scripts depend on these numbers."""

    OK = 0
    FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    PAUSED = 4
    LOCKED = 5
    DISK_FULL = 6
    BUG = 70
    SIGINT = 130
    SIGTERM = 143


class OrchestratorError(Exception):
    """Base of all expected faults. `str(error)` is what the user reads."""

    exit_code: ExitCode = ExitCode.BUG


class UsageError(OrchestratorError):
    """The command line asks for something that does not exist or is not built yet."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file: where, what, how to mend it.

    `file` is the path as the user gave it, `line` counts from 1, 0 means the whole file.
    """

    file: str
    line: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class PlanError(OrchestratorError):
    """A plan, role file or script is wrong. Carries every fault that was found, in file order."""

    exit_code = ExitCode.USAGE

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class RepositoryError(OrchestratorError):
    """The target repository, or this machine, cannot be used as it is."""

    exit_code = ExitCode.ENVIRONMENT


class LockedError(OrchestratorError):
    """Another live process holds the run's lock."""

    exit_code = ExitCode.LOCKED


class DiskFullError(OrchestratorError):
    """The disk is full. Nothing that was acknowledged is lost; free room, then `resume`."""

    exit_code = ExitCode.DISK_FULL


def is_disk_full(error: BaseException) -> bool:
    """Whether the system says that the disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class InfrastructureError(OrchestratorError):
    """Git, the disk or a worker failed. The attempt is repeated free of charge, a few times.

    Outside of an attempt it ends the program: the machine is not usable as it is.
    """

    exit_code = ExitCode.ENVIRONMENT


class WorkspaceError(InfrastructureError):
    """A workspace vanished or refuses an operation that should always work."""
