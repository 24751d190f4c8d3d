"""Where a repository's objects lie: its own folder and those it borrows from, flattened.

Git follows `objects/info/alternates` five levels deep and resolves relative lines against the
folder they stand in; one flat list of absolute folders costs no level and moves with no folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from orchestrator.errors import RepositoryError

_FOLDERS_MAX = 64


def object_folders(objects: Path) -> tuple[Path, ...]:
    """`objects` and every object folder it borrows from, absolute, nearest first.

    Raises `RepositoryError` for one that is missing, too many of them, or an odd path.
    """
    found: list[Path] = []
    waiting = [objects.resolve()]
    while waiting:
        folder = waiting.pop(0)
        if folder in found:
            continue
        if not folder.is_dir():
            raise RepositoryError(
                f"{objects}: it borrows objects from {folder}, which is not there; "
                "mend objects/info/alternates"
            )
        if "\n" in str(folder) or len(found) == _FOLDERS_MAX:
            raise RepositoryError(f"{objects}: too many or too odd alternates; `git repack -a -d`")
        found.append(folder)
        waiting.extend(_borrowed(folder))
    return tuple(found)


def replace_file(path: Path, text: str) -> None:
    """Write a small file so that readers see the old or the new content, never a part."""
    if path.exists() and path.read_bytes() == text.encode(errors="surrogateescape"):
        return
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def _borrowed(folder: Path) -> list[Path]:
    listing = folder / "info" / "alternates"
    if not listing.is_file():
        return []
    lines = listing.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    # `/` joined with an absolute line is that line: relative ones are taken from this folder.
    return [(folder / line).resolve() for line in lines if line and not line.startswith("#")]
