"""Which folders of the host the programs of a tool path need: a sandbox shows just those.

A `bin` folder alone is seldom enough: a virtual environment needs its `lib` and the interpreter it
was made from, a private installation its `lib` beside `bin`. A home folder is never shown whole,
nor is any folder that holds one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_BESIDE_BIN = ("lib", "lib64", "libexec", "include")
_FOLDERS_MAX = 200


@lru_cache(maxsize=8)
def folders_of(tool_path: tuple[str, ...]) -> tuple[str, ...]:
    """Folders to show read-only, outermost first, none inside another or in a system folder.

    `tool_path`: absolute folders of programs; those that are not there are passed over. The
    interpreter that runs this program is always among them.
    """
    wanted = [Path(sys.base_prefix), Path(sys.prefix)]
    for folder in map(Path, tool_path):
        if folder.is_absolute() and folder.is_dir():
            wanted += _needed_by(folder)
    # A folder's own name and its real one: links inside it may use either.
    wanted += [folder.resolve() for folder in wanted]
    kept = [Path(name) for name in _SYSTEM]
    for folder in sorted(set(wanted), key=lambda path: (len(path.parts), path)):
        if folder.is_dir() and not _is_inside(folder, kept) and not _holds_home(folder):
            kept.append(folder)
    kept = kept[len(_SYSTEM) :]
    return tuple(str(folder) for folder in kept[:_FOLDERS_MAX])


def _needed_by(folder: Path) -> Iterator[Path]:
    """`folder`, and what its programs are known to read."""
    prefix = folder.parent
    if (prefix / "pyvenv.cfg").is_file():
        yield prefix
        yield from _base_of(prefix / "pyvenv.cfg")
    elif folder.name == "shims" and (prefix / "versions").is_dir():
        yield prefix  # a version manager: its shims start programs from `versions`
    else:
        yield folder
        if folder.name == "bin" and not _holds_home(prefix):
            yield from (prefix / name for name in _BESIDE_BIN)


def _base_of(config: Path) -> Iterator[Path]:
    """The prefix of the interpreter that a virtual environment was made from."""
    for line in config.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and os.path.isabs(value.strip()):
            yield Path(value.strip()).parent


def _holds_home(folder: Path) -> bool:
    """Whether a folder is, or is above, the caller's home."""
    home = Path(os.path.expanduser("~")).resolve()
    return folder.resolve() in (home, *home.parents)


def _is_inside(folder: Path, others: Sequence[Path]) -> bool:
    return any(folder == other or other in folder.parents for other in others)
