"""Names of plans: the bundled ones, and the file that a word on the command line means."""

from __future__ import annotations

from pathlib import Path

from orchestrator.data import builtin
from orchestrator.errors import UsageError

NOT_PLANS = frozenset({"demos"})
"""Files beside the bundled plans that are none, like those with a second suffix."""


def bundled_plans() -> tuple[str, ...]:
    """Names of the bundled plans, sorted."""
    stems = sorted(path.stem for path in builtin("plans").glob("*.yaml"))
    return tuple(stem for stem in stems if "." not in stem and stem not in NOT_PLANS)


def looks_like_plan(word: str) -> bool:
    """Whether a first word that is no command is meant as a plan."""
    path = Path(word)
    return "/" in word or path.suffix != "" or path.is_file() or word in bundled_plans()


def plan_path(name: str) -> Path:
    """The file that a plan's name means: a path, or the name of a bundled plan.

    Raises `UsageError` when there is no such file.
    """
    path = Path(name)
    if path.is_file():
        return path
    if "/" not in name and not path.suffix and name in bundled_plans():
        return builtin("plans") / f"{name}.yaml"
    if path.is_dir():
        raise UsageError(f"{name}: a folder, not a plan file; name the file in it")
    if " " in name.strip():
        raise UsageError(f"{name!r}: there is no such plan file; for a goal say --goal {name!r}")
    known = ", ".join(bundled_plans())
    raise UsageError(f"{name}: there is no such plan file; bundled plans: {known}")
