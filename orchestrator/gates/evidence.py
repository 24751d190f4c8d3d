"""How a gate's result is put to an agent, a planner or a person: short, and without tricks.

Output comes from commands that an agent may have shaped, so control characters are made visible
and lengths are capped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.core.events import GateRecord

TAIL_CHARS = 4_000
"""Characters of a gate's output that travel with its record."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")

_SAID = {
    "passed": "passed",
    "failed": "failed",
    "timeout": "ran out of time",
    "environment": "could not run",
}


def clean(text: str) -> str:
    """`text` without terminal escapes; other control and direction characters as `\\xNN`."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def tail_of(output: bytes) -> str:
    """The end of a command's output as text, from the start of a line, cleaned and capped."""
    text = clean(output[-4 * TAIL_CHARS :].decode("utf-8", "replace"))
    if len(text) > TAIL_CHARS:
        text = text[-TAIL_CHARS:]
        text = "[...]\n" + text.partition("\n")[2]
    return text.strip("\n")


def describe(record: GateRecord) -> str:
    """One gate in words: what ran, how it ended, on the base too, and the end of its output."""
    status = "" if record.exit_status is None else f" with exit status {record.exit_status}"
    command = " ".join(record.argv[-1:] if record.argv[:1] == ("bash",) else record.argv)
    lines = [f"gate `{record.name}` {_SAID[record.outcome]}{status}", f"$ {clean(command)[:500]}"]
    if record.base is not None:
        lines.append(f"(on the base commit this gate {_SAID[record.base]})")
    if record.tail:
        lines.append(record.tail)
    return "\n".join(lines)


def describe_red(records: Sequence[GateRecord]) -> str:
    """All red gates of `records` in words; empty when all passed."""
    return "\n\n".join(describe(record) for record in records if not record.passed)
