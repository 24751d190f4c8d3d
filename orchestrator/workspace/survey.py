"""A look at a tree before git touches it: what must not be there, what is left out.

Follows no link, reads no file, runs nothing. Blocks while it walks: call it from a thread.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.ports import FileAccessError
from orchestrator.workspace.credentials import why_secret
from orchestrator.workspace.files import TreeFiles
from orchestrator.workspace.names import is_artefact_folder, is_git_name

_ENTRIES_MAX = 1_000_000
_DEPTH_MAX = 200
_SECRET_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Survey:
    """What a walk over a tree found."""

    problems: tuple[str, ...]
    """One sentence each: the path, what is wrong, what to do."""
    left_out: tuple[str, ...]
    """`path: reason` of folders that tools can make again."""


def survey(tree: Path) -> Survey:
    """Walk `tree`; artefact folders are noted and not entered."""
    problems: list[str] = []
    artefacts: list[str] = []
    waiting = [""]
    entries = 0
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(os.scandir(tree / folder), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}; make the folder readable or delete it")
            continue
        entries += len(found)
        if entries > _ENTRIES_MAX or folder.count("/") > _DEPTH_MAX:
            problems.append(f"{folder[:200]}: too many files or folders; delete what is not needed")
            break
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if is_git_name(entry.name):
                if folder or not _is_our_git_file(entry):
                    problems.append(
                        f"{path}: a git folder or file; delete it, git is not yours here"
                    )
            elif entry.is_dir(follow_symlinks=False):
                (artefacts if is_artefact_folder(entry.name) else waiting).append(path)
            elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                problems.append(f"{path}: a pipe, socket or device; delete it")
    return Survey(tuple(problems), _summary(artefacts))


def link_problem(tree: Path, path: str) -> str | None:
    """Why the link at `path` cannot be taken in; None when it stays in the tree."""
    target = os.readlink(tree / path)
    if os.path.isabs(target):
        return f"{path}: a link to an absolute path; make it relative"
    if any(is_git_name(part) for part in target.split("/")):
        return f"{path}: a link into git's own files; delete it"
    root = Path(os.path.realpath(tree))
    if not Path(os.path.realpath(tree / path)).is_relative_to(root):
        return f"{path}: a link that leads out of the tree; delete it"
    return None


def secret_problem(files: TreeFiles, path: str) -> str | None:
    """Why the file at `path` looks like a secret; None when it does not."""
    try:
        why = why_secret(path, lambda: files.read(path, bytes_max=_SECRET_HEAD_BYTES))
    except FileAccessError as error:
        return str(error)
    return f"{path}: {why}; delete it, or keep it out by .gitignore" if why else None


def is_gone(tree: Path, path: str) -> bool:
    """Whether a tracked file is no more: deleted, a folder now, or behind what is a link now."""
    for folder in PurePosixPath(path).parents:
        if (tree / folder).is_symlink() and str(folder) != ".":
            return True
    try:
        return stat.S_ISDIR(os.lstat(tree / path).st_mode)
    except OSError:
        return True


def size_bytes(tree: Path, path: str) -> int:
    """Size of the file at `path`; 0 when it is gone or no regular file."""
    try:
        found = os.lstat(tree / path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _is_our_git_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is the empty `.git` file that every workspace has at its root."""
    return (
        entry.name == ".git"
        and entry.is_file(follow_symlinks=False)
        and entry.stat(follow_symlinks=False).st_size == 0
    )


def _summary(artefacts: list[str]) -> tuple[str, ...]:
    """One line for each kind of folder, however many there are of it."""
    counts = Counter(path.rpartition("/")[2] for path in artefacts)
    first = {path.rpartition("/")[2]: path for path in sorted(artefacts, reverse=True)}
    return tuple(
        f"{first[name]}: artefact folder" + (f", and {count - 1} more" if count > 1 else "")
        for name, count in sorted(counts.items())
    )
