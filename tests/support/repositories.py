"""Real git repositories for tests: made by git itself, with fixed dates and no personal settings.

Everything here is synchronous and small. Expected values in tests come from these calls, so they
share nothing with `orchestrator.workspace`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Files = Mapping[str, str | bytes | None]
"""Contents by path; None deletes the file."""

_ENV = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "@1700000000 +0000",
    "GIT_COMMITTER_NAME": "Ann Author",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_COMMITTER_DATE": "@1700000000 +0000",
}


def git(cwd: Path, *args: str, stdin: bytes = b"") -> str:
    """What `git ARGS` prints in `cwd`, without the last newline. Raises with git's words."""
    done = subprocess.run(["git", *args], cwd=cwd, env=_ENV, input=stdin, capture_output=True)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
        raise AssertionError(f"git {' '.join(args)}: exit {done.returncode}: {words}")
    return done.stdout.decode(errors="surrogateescape").removesuffix("\n")


def git_succeeds(cwd: Path, *args: str) -> bool:
    """Whether `git ARGS` ends with status 0."""
    return subprocess.run(["git", *args], cwd=cwd, env=_ENV, capture_output=True).returncode == 0


def write_files(root: Path, files: Files) -> None:
    """Write `files` beneath `root`, folders included."""
    for path, content in files.items():
        target = root / path
        if content is None:
            target.unlink()
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def make_repository(
    path: Path, files: Files | None = None, *, branch: str = "main", object_format: str = "sha1"
) -> Path:
    """A repository at `path`, on `branch`, with one commit of `files` (none given: no commit)."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", f"--initial-branch={branch}", f"--object-format={object_format}")
    if files is not None:
        commit_files(path, files, "first")
    return path


def commit_files(repository: Path, files: Files, message: str = "change") -> str:
    """Commit `files` on the branch that is checked out; the new commit's id."""
    write_files(repository, files)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def commit_on(repository: Path, parent: str, files: Files, message: str = "change") -> str:
    """A commit of `files` on top of `parent`, on no branch; the checkout ends where it was."""
    before = git(repository, "rev-parse", "--abbrev-ref", "HEAD")
    git(repository, "checkout", "-q", "--detach", parent)
    commit = commit_files(repository, files, message)
    git(repository, "checkout", "-q", before)
    return commit


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that every user of the machine can enter; pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def fingerprint(root: Path) -> dict[str, str]:
    """Digest of every byte, mode and link beneath `root`, but for git's object store.

    For before and after: two equal fingerprints mean that checkout, index, stash, configuration,
    hooks, refs and logs are the same.
    """
    digests: dict[str, str] = {}
    for folder, folders, names in os.walk(root):
        folders.sort()
        if _is_object_store(Path(folder)):
            folders.clear()
            continue
        for name in sorted(names) + [n for n in folders if (Path(folder) / n).is_symlink()]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            digests[str(path.relative_to(root))] = f"{mode:o} {hashlib.sha256(content).hexdigest()}"
    return digests


def _is_object_store(folder: Path) -> bool:
    return folder.name == "objects" and (folder.parent / "HEAD").exists()
