"""Where runs are kept on disk: paths, ids and access modes, nothing about what is in the files.

    $ORCHESTRATE_HOME/                        default by XDG: ~/.local/state/orchestrate
        <repository>-<digest>/                one for each target repository  (StateFolder)
            hub.git  runs.db  trees/
            runs/<run>/                       one for each run                (RunFolder)
                lock  transcripts/<task>.<attempt>.jsonl  outputs/  products/<task>.json

Guarantees: nothing here lies inside the target repository; folders are made for their owner alone
(0700); linked worktrees and subfolders of one repository share one state folder, because the
digest is that of the common git folder's real path.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from orchestrator.errors import RepositoryError

HOME_VARIABLE = "ORCHESTRATE_HOME"
FOLDER_MODE = 0o700
DIGEST_CHARS = 12
NAME_CHARS_MAX = 32


def state_home() -> Path:
    """The folder that holds all state: `$ORCHESTRATE_HOME`, else the XDG state folder."""
    chosen = os.environ.get(HOME_VARIABLE, "")
    if not is_text(chosen):
        raise RepositoryError(f"{HOME_VARIABLE}: the path is not UTF-8; choose another folder")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_state_path("orchestrate", appauthor=False)


def is_text(path: str) -> bool:
    """Whether a path can be written in JSON and prompts: no bytes that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def slug(text: str, default: str) -> str:
    """`text` in the alphabet of ids (`a-z0-9-`), at most 32 characters; `default` for none."""
    kept = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return kept[:NAME_CHARS_MAX].rstrip("-") or default


def new_run_id(name: str, now: float, token: str) -> str:
    """A run's id: `kitebase-20261130-1432-7f3a`.

    name: the plan's name, any text. now: Unix seconds, shown in UTC. token: a few random
    `a-z0-9`, which tell apart runs of the same minute. Ids of one plan sort by time, and are safe
    in refs, file names and branch names.
    """
    if not re.fullmatch(r"[a-z0-9]{1,16}", token):
        raise ValueError(f"token {token!r} is not 1 to 16 of a-z0-9")
    return f"{slug(name, 'run')}-{time.strftime('%Y%m%d-%H%M', time.gmtime(now))}-{token}"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    root: Path

    @property
    def run(self) -> str:
        """The run's id."""
        return self.root.name

    @property
    def lock(self) -> Path:
        """Locked by the process that runs it."""
        return self.root / "lock"

    @property
    def transcripts(self) -> Path:
        """Folder of conversations."""
        return self.root / "transcripts"

    @property
    def outputs(self) -> Path:
        """Folder of output blobs, by digest."""
        return self.root / "outputs"

    @property
    def products(self) -> Path:
        """Folder of what tasks handed in."""
        return self.root / "products"

    def transcript(self, task: str, attempt: int) -> Path:
        """The conversation of one attempt."""
        return self.transcripts / f"{task}.{attempt}.jsonl"

    def product(self, task: str) -> Path:
        """What a task handed in."""
        return self.products / f"{task}.json"

    def create(self) -> None:
        """Make the folders that are not there. Raises `RepositoryError`."""
        for folder in (self.root, self.transcripts, self.outputs, self.products):
            _make(folder)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Everything that is kept about one target repository."""

    root: Path

    @classmethod
    def for_repository(cls, common_dir: Path, home: Path | None = None) -> StateFolder:
        """The folder of the repository with this common git folder; made by `create`."""
        real = common_dir.resolve()
        name = real.parent.name if real.name == ".git" else real.name.removesuffix(".git")
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:DIGEST_CHARS]
        return cls((home or state_home()) / f"{slug(name, 'repository')}-{digest}")

    @classmethod
    def all(cls, home: Path | None = None) -> tuple[StateFolder, ...]:
        """The folders of all repositories that have had a run, by name."""
        found = sorted((home or state_home()).glob("*/runs.db"))
        return tuple(cls(database.parent) for database in found)

    @property
    def hub(self) -> Path:
        """The bare repository that results live in."""
        return self.root / "hub.git"

    @property
    def database(self) -> Path:
        """The journal."""
        return self.root / "runs.db"

    @property
    def trees(self) -> Path:
        """Folder of workspaces."""
        return self.root / "trees"

    def run(self, run: str) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.root / "runs" / run)

    def create(self) -> None:
        """Make the folders that are not there. Raises `RepositoryError`."""
        for folder in (self.root.parent, self.root, self.trees, self.root / "runs"):
            _make(folder)


def _make(folder: Path) -> None:
    """Make a folder for its owner alone; one that exists keeps its mode."""
    try:
        folder.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise RepositoryError(
            f"{folder}: cannot be made ({error.strerror}); set {HOME_VARIABLE} to a folder that "
            "you can write to"
        ) from error
