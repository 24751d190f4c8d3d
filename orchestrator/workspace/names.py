"""Names of files that mean something to git or to nobody: told apart before git sees them."""

from __future__ import annotations

import unicodedata

# Code points that HFS+ leaves out when it compares names (TN1150, "Case-Insensitive String
# Comparison"): `.g<U+200C>it` opens `.git` there.
_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)

TEMPORARY_PREFIX = ".orchestrate-write-"
"""Files in the middle of being written; whoever finds one may pass over it."""

ARTEFACT_FOLDERS = frozenset(
    {
        ".venv",
        "node_modules",
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".gradle",
        ".ipynb_checkpoints",
    }
)
"""Folders that tools make and make again: never work."""

ARTEFACT_EXCLUDES = tuple(
    f"--exclude={name}/" for name in (*sorted(ARTEFACT_FOLDERS), "*.egg-info", "*.dist-info")
)
"""The same for `git ls-files`: it does not enter them, and still lists tracked files in them."""

_ARTEFACT_FOLDER_SUFFIXES = (".egg-info", ".dist-info")
_ARTEFACT_FILE_SUFFIXES = (".pyc", ".pyo")
_ARTEFACT_FILES = frozenset({".coverage", ".DS_Store", "Thumbs.db"})


def is_git_name(name: str) -> bool:
    """Whether some file system opens `.git` by this name: by case, width, short name or stream."""
    plain = unicodedata.normalize("NFKC", name.translate(_IGNORED)).casefold()
    plain = plain.partition(":")[0].rstrip(". ")
    return plain in {".git", "git~1"}


def is_artefact_folder(name: str) -> bool:
    """Whether a folder of this name holds what a tool can make again."""
    return name in ARTEFACT_FOLDERS or name.endswith(_ARTEFACT_FOLDER_SUFFIXES)


def is_artefact_file(name: str) -> bool:
    """Whether a file of this name is what a tool can make again."""
    return (
        name in _ARTEFACT_FILES
        or name.endswith(_ARTEFACT_FILE_SUFFIXES)
        or name.startswith(TEMPORARY_PREFIX)
    )


def is_printable(path: str) -> bool:
    """Whether a path can stand in a report: UTF-8 without control characters."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return not any(unicodedata.category(character) == "Cc" for character in path)
