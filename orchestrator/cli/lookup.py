"""Which run is meant: from a prefix of its id, or none, to its journal and folder.

In a repository (or with `--repo`) its runs come first; a run named by its id is also found from
anywhere else, since a demo's repository is not where people stand.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.events import StoredEvent
from orchestrator.errors import RepositoryError, UsageError
from orchestrator.journal import Journal, RunSummary
from orchestrator.state_folder import RunFolder, StateFolder

POINTER_BYTES_MAX = 10_000
LISTED_MAX = 10


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run in the journal of its repository."""

    state_folder: StateFolder
    journal: Journal
    summary: RunSummary

    @property
    def id(self) -> str:
        """The run's id."""
        return self.summary.id

    @property
    def folder(self) -> RunFolder:
        """Its files."""
        return self.state_folder.run(self.summary.id)

    def events(self) -> list[StoredEvent]:
        """Its whole log. Raises `RepositoryError` when the journal is damaged."""
        return self.journal.events(self.summary.id)


def common_dir(folder: Path) -> Path | None:
    """The common git folder of the repository that `folder` is in, None when it is in none.

    The answer of `git rev-parse --git-common-dir`, found without git: this only looks up which
    runs belong here. Raises `RepositoryError` when `folder` is missing.
    """
    found = _discover(folder)
    return None if found is None else _common(found[1])


def checkout_of(folder: Path) -> Path | None:
    """The top of the checkout that `folder` is in, None outside and in a bare repository."""
    found = _discover(folder)
    return None if found is None or found[0] == found[1] else found[0]


def _discover(folder: Path) -> tuple[Path, Path] | None:
    """Where the repository around `folder` was found, and its git folder."""
    if not folder.is_dir():
        raise RepositoryError(f"{folder}: there is no such folder")
    here = folder.resolve()
    for place in (here, *here.parents):
        for candidate in (place / ".git", place):
            git_dir = _git_dir(candidate)
            if git_dir is not None:
                return place, git_dir
    return None


def _git_dir(candidate: Path) -> Path | None:
    """The git folder that `candidate` is, or that it points to when it is a file; else None."""
    if candidate.is_file():
        target = _first_line(candidate).removeprefix("gitdir: ")
        candidate = (candidate.parent / target).resolve()
    if (candidate / "HEAD").is_file() and (_common(candidate) / "objects").is_dir():
        return candidate
    return None


def _common(git_dir: Path) -> Path:
    """The git folder itself, or the one that a linked worktree's belongs to."""
    pointer = git_dir / "commondir"
    return (git_dir / _first_line(pointer)).resolve() if pointer.is_file() else git_dir.resolve()


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        return os.fsdecode(file.readline(POINTER_BYTES_MAX)).rstrip("\n")


def known_runs(repo: Path | None, *, everywhere: bool = False) -> list[FoundRun]:
    """The runs of the repository, oldest first; outside of one, or `everywhere`, all there are."""
    common = None if everywhere else common_dir(repo or Path())
    if repo is not None and common is None:
        raise RepositoryError(f"{repo}: not in a git repository")
    folders = StateFolder.all() if common is None else (StateFolder.for_repository(common),)
    found: list[FoundRun] = []
    for folder in folders:
        if folder.database.is_file():
            journal = Journal.open(folder.database)
            found.extend(FoundRun(folder, journal, one) for one in journal.runs())
    return sorted(found, key=lambda run: run.summary.started_at) if len(folders) > 1 else found


def find_run(prefix: str | None, repo: Path | None = None) -> FoundRun:
    """The run that `prefix` means; the newest for None.

    Raises `UsageError` that lists the candidates when there is none or more than one.
    """
    runs = known_runs(repo)
    if prefix is None:
        if not runs:
            raise UsageError("there is no run of this repository yet; start one, or name a RUN")
        return runs[-1]
    matching = _matching(runs, prefix)
    if not matching and repo is None:
        runs = known_runs(None, everywhere=True)
        matching = _matching(runs, prefix)
    if len(matching) == 1:
        return matching[0]
    problem = "means more than one run" if matching else "is no run"
    raise UsageError(f"{prefix!r} {problem}; there are: {_listed(matching or runs)}")


def _matching(runs: Sequence[FoundRun], prefix: str) -> list[FoundRun]:
    exact = [run for run in runs if run.id == prefix]
    return exact or [run for run in runs if run.id.startswith(prefix)]


def _listed(runs: Sequence[FoundRun]) -> str:
    newest = [run.id for run in reversed(runs)]
    more = f", and {len(newest) - LISTED_MAX} more" if len(newest) > LISTED_MAX else ""
    return (", ".join(newest[:LISTED_MAX]) + more) or "none"
