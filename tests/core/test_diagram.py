"""The diagram in docs/architecture.md is drawn from the machine's table."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.state import TRANSITIONS, TaskStatus

DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
START, END = "<!-- transitions:start -->", "<!-- transitions:end -->"


def diagram() -> str:
    """The state diagram as Mermaid reads it."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> pending"]
    for status in TaskStatus:
        onward = [to.value for to in TaskStatus if to in TRANSITIONS[status]]
        lines += [f"    {status.value} --> {to}" for to in onward or ["[*]"]]
    return "\n".join([*lines, "```"])


def test_the_documented_diagram_is_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    between = text.partition(START)[2].partition(END)[0].strip()
    assert between == diagram(), f"put this between the marks:\n\n{diagram()}\n"


def test_every_status_is_reached_and_ends_somewhere() -> None:
    assert set(TRANSITIONS) == set(TaskStatus)
    reached = {TaskStatus.PENDING}.union(*TRANSITIONS.values())
    assert reached == set(TaskStatus)


def test_what_succeeded_was_skipped_or_cancelled_never_moves() -> None:
    final = {status for status, onward in TRANSITIONS.items() if not onward}
    assert {status.value for status in final} == {"succeeded", "skipped", "cancelled"}
