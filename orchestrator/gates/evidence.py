"""How a gate's result is put to an agent, a planner or a person: short, and without tricks.

Output comes from commands that an agent may have shaped, so control characters are made visible
and lengths are capped.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.events import GateRecord
from orchestrator.core.plan import BASH
from orchestrator.tools.text import cleaned, visible

TAIL_CHARS = 4_000
"""Characters of a gate's output that travel with its record."""
COMMAND_CHARS = 500

_SAID = {
    "passed": "passed",
    "failed": "failed",
    "timeout": "ran out of time",
    "environment": "could not run",
}


def tail_of(output: bytes) -> str:
    """The end of a command's output as text, cleaned; `[...]` where there was more before it."""
    end = output[-4 * TAIL_CHARS :]  # no character is longer than four bytes
    text = cleaned(end).strip("\n")
    if len(end) == len(output) and len(text) <= TAIL_CHARS:
        return text
    return f"[...]{text[-TAIL_CHARS:]}"


def describe(record: GateRecord) -> str:
    """One gate in words: what ran, how it ended, on the base too, and the end of its output."""
    status = "" if record.exit_status is None else f" with exit status {record.exit_status}"
    command = " ".join(record.argv[-1:] if record.argv[:-1] == BASH else record.argv)
    lines = [
        f"gate `{visible(record.name)}` {_SAID[record.outcome]}{status}",
        f"$ {visible(command)[:COMMAND_CHARS]}",
    ]
    if record.base is not None:
        lines.append(f"(on the base commit this gate {_SAID[record.base]})")
    if record.tail:
        lines.append(record.tail)
    return "\n".join(lines)


def describe_red(records: Sequence[GateRecord]) -> str:
    """All red gates of `records` in words; empty when all passed."""
    return "\n\n".join(describe(record) for record in records if not record.passed)
