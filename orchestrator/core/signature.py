"""When two failures are the same failure: their evidence without what changes from run to run."""

from __future__ import annotations

import hashlib
import re

_NOISE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d([.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)?\s?(ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[0-9a-f]{40}([0-9a-f]{24})?\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\bpid[ =:]*\d+\b", re.IGNORECASE), "<pid>"),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "<temporary>"),
    (re.compile(r"(?<![\w./-])/(?:[\w.+@-]+/)+"), "<path>/"),
    (re.compile(r"[ \t]+"), " "),
)


def normalised(text: str) -> str:
    """`text` without times, absolute folders, addresses, object ids and process ids."""
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def signature(reason: str, evidence: str) -> str:
    """A digest that is equal for the same failure: 16 hex digits."""
    return hashlib.sha256(f"{reason}\n{normalised(evidence)}".encode()).hexdigest()[:16]
