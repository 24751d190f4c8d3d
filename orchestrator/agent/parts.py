"""What of the repository goes into a prompt before the first call: values, no reading.

Read once when an attempt starts (`orchestrator.attempt.briefing`) and frozen from then on, so that
the prefix stays the same. Everything in them is somebody's text: whoever shows it marks it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedText:
    """A file's text, or what is to be said of the file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class RulesText:
    """Rules, with the files that they stand in and what they are for."""

    paths: tuple[str, ...]
    """Several where files hold the same text, which is then shown once."""
    text: str
    scope: str = ""
    """The files that they are for, in words; empty for the whole project."""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What the repository adds to a prompt."""

    rules: tuple[RulesText, ...] = ()
    """Rules of the whole project."""
    nested: tuple[RulesText, ...] = ()
    """Rules for those parts of it that the task is about, the widest first."""
    more_rules: tuple[NamedText, ...] = ()
    """Rules files that are not shown, each with what it is for."""
    tree: tuple[str, ...] = ()
    """Paths of all files, sorted."""
    context: tuple[NamedText, ...] = ()
    """Files that the plan and the task name, in that order."""
    missing: tuple[str, ...] = ()
    """Those of them that are not there, or no text."""
    facts: str = ""
    """What was found out about the repository, for whoever makes the first plan."""
    diff: str = ""
    """What has changed since the run's base, for whoever reviews it."""
