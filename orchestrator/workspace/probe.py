"""Looks at a machine and a repository before a run does: what is there, nothing is changed.

For `doctor`, which tells people. Whether a sandbox holds is `selftest`, whether a repository can be
used at all is `Repository.open`; here is what works and is worth knowing.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator.workspace.git import HostGit

_LISTING_BYTES_MAX = 64 * 1024 * 1024
_ATTRIBUTE_FILES_MAX = 100
_SUBMODULE = "160000"


async def merge_problem() -> str | None:
    """Why merges without a checkout do not work here; None when they do.

    Merges in a throw-away repository, and looks at the answer.
    """
    with tempfile.TemporaryDirectory(prefix="orchestrate-probe-") as name:
        git_dir = Path(name)
        git = HostGit(git_dir)
        await git("init", "-q", "--bare", "--template=", str(git_dir))
        tree = (await git("mktree", "-z")).text
        commit = (await git("commit-tree", tree, "-m", "probe", date=0)).text
        merged = await git("merge-tree", "--write-tree", commit, commit, statuses=range(256))
        if merged.status == 0 and merged.text.split() == [tree]:
            return None
        words = merged.errors.strip().splitlines()
        return words[-1] if words else f"it ended with status {merged.status}"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a commit holds that workspaces show in another way than a clone would."""

    submodules: tuple[str, ...]
    """Paths of submodules: empty folders in a workspace."""
    lfs: bool
    """Whether files are kept by Git LFS: a workspace holds their pointers."""


async def contents(git_dir: Path, commit: str) -> Contents:
    """Look at the tree of `commit`, a full id. Very large trees are looked at in part."""
    git = HostGit(git_dir)
    listed = await git("ls-tree", "-r", "-z", "--full-tree", commit, bytes_max=_LISTING_BYTES_MAX)
    submodules, attributes = [], []
    for line in listed.fields:
        about, _, path = line.partition("\t")
        if about.startswith(_SUBMODULE):
            submodules.append(path)
        elif path.rpartition("/")[2] == ".gitattributes":
            attributes.append(about.split()[-1])
    wanted = attributes[:_ATTRIBUTE_FILES_MAX]
    found = await git("cat-file", "--batch", stdin="".join(f"{id_}\n" for id_ in wanted).encode())
    return Contents(tuple(submodules), b"filter=lfs" in found.output)


def free_bytes(folder: Path) -> int:
    """Room for files on the disk of `folder`, or of its nearest ancestor that is there."""
    return shutil.disk_usage(nearest(folder)).free


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, or in the nearest ancestor that is there."""
    try:
        with tempfile.TemporaryFile(dir=nearest(folder)):
            return True
    except OSError:
        return False


def nearest(folder: Path) -> Path:
    """`folder`, or its nearest ancestor that is a folder."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())
