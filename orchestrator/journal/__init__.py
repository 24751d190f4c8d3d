"""The journal: the log of every run of a target repository, in one SQLite database.

`store` reads it and knows its schema, `run_log` is the one writer of a run, `fault` breaks it on
purpose for tests. What the events mean is none of its business (`core.machine` folds them).
"""

from __future__ import annotations

from orchestrator.journal.run_log import RunLog, holder_of
from orchestrator.journal.store import Journal, RunSummary

__all__ = ["Journal", "RunLog", "RunSummary", "holder_of"]
