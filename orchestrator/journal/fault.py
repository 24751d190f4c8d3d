"""A fault point for tests: makes the journal fail at an exact record. Off unless asked for.

    ORCHESTRATE_FAULT=journal:N:kill     SIGKILL to this process once its N-th record is durable
    ORCHESTRATE_FAULT=journal:N:raise    an unexpected exception at that same moment
    ORCHESTRATE_FAULT=journal:N:enospc   the disk is full when the N-th record is written

N counts the records that this process writes, from 1. A commit that would hold more records is
cut there, so that exactly N are durable (for `enospc`: N - 1). `kill` comes before the writer is
acknowledged: the worst moment for a recovery.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from dataclasses import dataclass
from typing import Literal, cast

from orchestrator.errors import UsageError

VARIABLE = "ORCHESTRATE_FAULT"

Mode = Literal["kill", "raise", "enospc"]


class InjectedFault(Exception):
    """The exception of mode `raise`: stands for a bug, so it is no `OrchestratorError`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and at which record of this process."""

    record: int
    mode: Mode

    @classmethod
    def from_environment(cls) -> Fault | None:
        """The fault that the environment asks for. Raises `UsageError` for another text."""
        text = os.environ.get(VARIABLE, "")
        if not text:
            return None
        match = re.fullmatch(r"journal:([1-9][0-9]{0,8}):(kill|raise|enospc)", text)
        if match is None:
            raise UsageError(
                f"{VARIABLE}={text}: not a fault point; write journal:N:kill, journal:N:raise or "
                "journal:N:enospc with N from 1"
            )
        return cls(int(match[1]), cast("Mode", match[2]))

    def room(self, written: int) -> int | None:
        """How many more records may share a commit after `written`; None is any number."""
        last = self.record - 1 if self.mode == "enospc" else self.record
        return last - written if written < last else None

    def before(self, written: int) -> None:
        """Called before record `written + 1` is written."""
        if self.mode == "enospc" and written == self.record - 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def after(self, written: int) -> None:
        """Called when `written` records are durable, before anybody is told."""
        if written != self.record:
            return
        if self.mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "raise":
            raise InjectedFault(f"fault point after record {self.record}")
