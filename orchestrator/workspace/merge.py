"""What a merge came to: a commit, or the conflict that stopped it, read from git's own records."""

from __future__ import annotations

import os
from dataclasses import dataclass

from orchestrator.errors import InfrastructureError

_SUBMODULE_MODE = "160000"
_LINK_MODE = "120000"


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge that worked. Whether the program still does is for gates to say."""

    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One side of a conflicted path, as in an index."""

    number: int
    """1 the common ancestor, 2 ours, 3 theirs."""
    mode: str
    """Six octal digits: 100644, 100755, 120000 a link, 160000 a submodule."""
    object_id: str


@dataclass(frozen=True, slots=True)
class ConflictEntry:
    """A path that two commits disagree about."""

    path: str
    kind: str
    """Git's name for it: `contents`, `modify/delete`, `rename/rename`, `binary`, ..."""
    stages: tuple[Stage, ...]

    @property
    def is_text(self) -> bool:
        """Whether its sides can be shown to an agent as text with markers."""
        special = {_SUBMODULE_MODE, _LINK_MODE}
        return self.kind != "binary" and not any(stage.mode in special for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first pair of commits that does not merge."""

    ours: str
    """What had been merged until then."""
    theirs: str
    tree: str
    """Git's half-merged tree with markers in it, to look at; never to be committed as it is."""
    entries: tuple[ConflictEntry, ...]
    """By path; never empty."""


def parse_conflict(ours: str, theirs: str, output: bytes) -> Conflict:
    """Read what `git merge-tree --write-tree -z` prints for a conflict.

    The format is that of git-merge-tree(1), "OUTPUT": tree, conflicted files, an empty field,
    messages of (number of paths, paths, type, text). Raises `InfrastructureError` if it is not.
    """
    fields = output.split(b"\0")
    try:
        end = fields.index(b"", 1)
        stages = _stages(fields[1:end])
        kinds = _kinds(fields[end + 1 : -1])
    except (ValueError, IndexError):
        raise InfrastructureError(f"git merge-tree {ours} {theirs}: unknown output") from None
    for path in kinds:  # a conflict of paths may have no stage of its own
        stages.setdefault(path, [])
    entries = tuple(
        ConflictEntry(os.fsdecode(path), _kind(kinds.get(path), sides), tuple(sides))
        for path, sides in sorted(stages.items())
    )
    return Conflict(ours, theirs, fields[0].decode(), entries)


def _kind(label: str | None, sides: list[Stage]) -> str:
    """Git calls it `contents` too when there was no common file: tell that apart."""
    if label in {None, "contents"}:
        return "contents" if any(side.number == 1 for side in sides) else "add/add"
    return label


def _stages(fields: list[bytes]) -> dict[bytes, list[Stage]]:
    """Stages by path, from `MODE ID STAGE<tab>PATH` fields."""
    stages: dict[bytes, list[Stage]] = {}
    for field in fields:
        record, path = field.split(b"\t", 1)
        mode, object_id, number = record.decode().split(" ")
        stages.setdefault(path, []).append(Stage(int(number), mode, object_id))
    return stages


def _kinds(fields: list[bytes]) -> dict[bytes, str]:
    """Kind of conflict by path; messages that report no conflict are passed over."""
    kinds: dict[bytes, str] = {}
    position = 0
    while position < len(fields):
        count = int(fields[position])
        paths = fields[position + 1 : position + 1 + count]
        label = fields[position + 1 + count].decode()
        position += count + 3
        if label.startswith("CONFLICT"):
            for path in paths:
                kinds.setdefault(path, label.removeprefix("CONFLICT (").removesuffix(")"))
    return kinds
