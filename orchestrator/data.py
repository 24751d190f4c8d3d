"""Finds the data that comes with the program: role files, plans, sample repositories.

In an installed package they lie under `_builtin/`, in a checkout they are the folders at its top;
a checkout's are edited in place. Only where they are: reading them is for those who use them. The
one table here is `plans/demos.yaml`, which says what belongs to a demo.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from orchestrator.core.base import Record
from orchestrator.documents import load_document
from orchestrator.errors import RepositoryError, UsageError

Kind = Literal["roles", "plans", "examples"]

_PACKAGE = Path(__file__).resolve().parent


class _Entry(Record):
    """A line of the table of demos."""

    sample: str
    script: str


_TABLE = TypeAdapter(dict[str, _Entry])


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of a demo, all of them there."""

    plan: Path
    """Plan file."""
    script: Path
    """File of the scripted model."""
    sample: Path
    """Folder of the sample repository's files; not a repository yet."""


def builtin(kind: Kind) -> Path:
    """The folder of one kind of bundled data, a real directory. Raises `RepositoryError`."""
    for folder in (_PACKAGE / "_builtin" / kind, _PACKAGE.parent / kind):
        if folder.is_dir():
            return folder
    raise RepositoryError(
        f"{_PACKAGE}: the bundled {kind} are missing; install the package again, not as a zip file"
    )


def demo(name: str) -> Demo:
    """The parts of the demo `name`. Raises `UsageError` that lists the names there are."""
    table = builtin("plans") / "demos.yaml"
    entries = _TABLE.validate_python(load_document(table.read_bytes(), str(table)).data)
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise UsageError(f"there is no demo `{name}`; choose one of: {known}")
    return Demo(
        plan=table.with_name(f"{name}.yaml"),
        script=table.with_name(entries[name].script),
        sample=builtin("examples") / entries[name].sample,
    )
