"""The result of a run in plain lines: the branch, what each task did, what it cost.

What `orchestrate PLAN` prints at its end and `orchestrate status` at any time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from orchestrator.core.products import (
    Change,
    PlanPatch,
    PlanProposal,
    Product,
    Report,
    Verdict,
)
from orchestrator.core.state import RunState, TaskState, TaskStatus
from orchestrator.core.usage import Usage
from orchestrator.observers.text import Style, clean_line, dollars, duration, plural

SUMMARY_CHARS_MAX = 60

PLAIN = Style()
GOOD = frozenset({"succeeded", "skipped", "passed"})
BAD = frozenset({"failed", "blocked", "timeout", "environment"})


def status_text(style: Style, status: str, width: int = 0) -> str:
    """A status in its colour, padded to `width`."""
    text = status.ljust(width)
    if status in GOOD:
        return style.good(text)
    if status in BAD:
        return style.bad(text)
    return style.odd(text) if status in ("paused", "running") else text


def product_line(product: Product | None) -> str:
    """What a task handed in, in one line; empty when it handed in nothing."""
    match product:
        case Report(summary=summary) | Change(summary=summary):
            return clean_line(summary)
        case Verdict(approve=True, findings=findings):
            return "approved" + (f" with {plural(len(findings), 'finding')}" if findings else "")
        case Verdict(findings=findings):
            first = clean_line(findings[0].message) if findings else "no finding"
            return f"not approved: {first}"
        case PlanPatch(why=why):
            return clean_line(why)
        case PlanProposal(tasks=tasks, why=why, name=name):
            return f"{plural(len(tasks), 'task')}: {clean_line(why or name)}"
        case None:
            return ""


def task_line(state: TaskState) -> str:
    """What became of a task, in one line: its product, or why it has none."""
    if state.status is TaskStatus.FAILED:
        return clean_line(f"{state.reason or 'infrastructure'}: {state.evidence}")
    if state.status is TaskStatus.BLOCKED:
        return f"needs {state.blocked_by}, which failed"
    if product := product_line(state.product):
        return product
    passed = [gate.name for gate in state.gates if gate.passed]
    return clean_line("gates passed: " + ", ".join(passed)) if passed else ""


def moment(at: float) -> str:
    """Unix seconds as a time for people; a server's nonsense as words."""
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    except (OverflowError, OSError, ValueError):
        return "an unknown time"


def usage_line(usage: Usage) -> str:
    """Tokens by kind, calls, dollars."""
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return (
        f"{plural(usage.tokens, 'token')} ({usage.input_tokens:,} in, {written:,} cache write, "
        f"{usage.cache_read_tokens:,} cache read, {usage.output_tokens:,} out), "
        f"{plural(usage.calls, 'call')}, {dollars(usage.usd)}"
    )


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[list[str]]:
    """Rows with all cells but the last padded to their column; columns in `right` to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        [
            *(
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row[:-1], widths, strict=False))
            ),
            row[-1],
        ]
        for row in rows
    ]


def resume_command(state: RunState) -> str:
    """What to type to go on with a paused run."""
    more = " --budget-usd X" if state.pause.startswith("budget") else ""
    approve = " --approve" if state.asked else ""
    return f"orchestrate resume {state.run}{more}{approve}"


def summary_lines(state: RunState, style: Style = PLAIN) -> Iterator[str]:
    """The whole result, a line at a time, without line ends."""
    ran = duration(state.ended_at - state.started_at)
    how_long = {"paused": "after", "running": "for"}.get(state.status, "in")
    yield f"run {state.run}: {status_text(style, state.status)} {how_long} {ran}"
    if state.status == "paused":
        yield f"paused: {clean_line(state.pause)}"
        when = f", from {moment(state.pause_until)} on" if state.pause_until is not None else ""
        yield f"go on:  {resume_command(state)}{when}"
    if state.branch is not None:
        commit = f" at {state.commit[:12]}" if state.commit else ""
        yield f"branch: {clean_line(state.branch)}{commit}"
        if state.landed is None:
            yield f"take it: git merge {clean_line(state.branch)}"
        else:
            yield f"landed: {clean_line(state.landed.branch)} at {state.landed.commit[:12]}"
    elif state.status in ("succeeded", "failed"):
        yield "branch: none, nothing was integrated"
    yield ""
    yield from _task_rows(state, style)
    yield ""
    yield f"total: {usage_line(state.usage)}, {plural(state.replans, 'replan')}"


def _task_rows(state: RunState, style: Style) -> Iterator[str]:
    rows = [
        [
            "dropped" if task.dropped else task.status.value,
            key,
            f"{task.attempt}x",
            duration(task.usage.seconds),
            f"{task.usage.tokens:,}",
            dollars(task.usage.usd),
            clean_line(task_line(task), SUMMARY_CHARS_MAX),
        ]
        for key, task in state.tasks.items()
    ]
    head = ["status", "task", "tries", "time", "tokens", "cost", "result"]
    padded = table([head, *rows], right=frozenset({2, 3, 4, 5}))
    yield style.dim("  ".join(padded[0]).rstrip())
    for row, cells in zip(rows, padded[1:], strict=True):
        first = status_text(style, row[0], len(cells[0]))
        yield "  ".join([first, *cells[1:]]).rstrip()
