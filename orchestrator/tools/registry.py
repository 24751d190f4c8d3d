"""Which tools there are, and how an attempt gets its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.ports import Tool
from orchestrator.tools.bash import BASH
from orchestrator.tools.definition import Definition, ToolSession
from orchestrator.tools.edit import EDIT
from orchestrator.tools.glob import GLOB
from orchestrator.tools.grep import GREP
from orchestrator.tools.read import READ
from orchestrator.tools.todo import TODO_WRITE
from orchestrator.tools.write import WRITE

TOOLS: dict[str, Definition[Any]] = {
    definition.name: definition for definition in (BASH, EDIT, GLOB, GREP, READ, TODO_WRITE, WRITE)
}
"""Every tool by its name, in alphabetical order."""


def build_tools(
    names: Sequence[str], *, timeout_s: float | None = None, env: Mapping[str, str] | None = None
) -> list[Tool]:
    """The tools of one attempt, sorted by name, with one session between them.

    `timeout_s` is the most that one command may take, None for the tool's own limit; `env` are
    variables for commands. Raises `UsageError` for a name that does not exist.
    """
    unknown = sorted(set(names) - TOOLS.keys())
    if unknown:
        raise UsageError(
            f"unknown or not yet supported tools: {', '.join(unknown)} (there are"
            f" {', '.join(TOOLS)})"
        )
    session = ToolSession(timeout_s=timeout_s, env=dict(env or {}))
    return [TOOLS[name].bind(session) for name in sorted(set(names))]
