"""The messages of commits that the harness makes: a subject, a body, trailers. Pure."""

from __future__ import annotations

import re
import textwrap

from orchestrator.core.products import Product
from orchestrator.spec import AttemptSpec
from orchestrator.tools.text import visible

SUBJECT_CHARS = 72
BODY_CHARS = 4_000

_FORGED = re.compile(r"^(?=---|Orchestrate-)", re.MULTILINE)
"""Where a body's line would end the message for git, or look like one of our trailers."""


def trailers(spec: AttemptSpec) -> str:
    """The block that says where a commit comes from; always the last paragraph of a message."""
    return (
        f"Orchestrate-Run: {spec.run}\n"
        f"Orchestrate-Task: {spec.task.id}\n"
        f"Orchestrate-Attempt: {spec.attempt}\n"
    )


def merge_message(spec: AttemptSpec) -> str:
    """Message of the merge of an attempt's inputs."""
    names = ", ".join(item.task for item in spec.inputs)
    return f"{_short(f'{spec.task.id}: merge {names}')}\n\n{trailers(spec)}"


def change_message(spec: AttemptSpec, product: Product | None) -> str:
    """Message of an agent's change: its own summary, which is only words and may say anything."""
    said = getattr(product, "summary", "").strip() or spec.task.prompt.strip()
    subject, _, rest = visible(said).partition("\n")
    paragraphs = [subject, rest] if len(subject) > SUBJECT_CHARS else [rest]
    body = "\n\n".join(textwrap.fill(text, width=SUBJECT_CHARS) for text in paragraphs).strip()
    body = _FORGED.sub(" ", body[:BODY_CHARS])
    parts = [_short(f"{spec.task.id}: {subject}"), body, trailers(spec)]
    return "\n\n".join(part for part in parts if part)


def _short(subject: str) -> str:
    return textwrap.shorten(subject, width=SUBJECT_CHARS, placeholder=" ...")
