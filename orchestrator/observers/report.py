"""A run's report, for people (Markdown) and programs (JSON). Pure: state and events in, text out.

Everything that came from models, commands or the repository is cleaned and, in Markdown, kept
inside code spans, fences or escaped text, so that it cannot forge the report's own structure.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.core.events import (
    EVENT,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    GateRecord,
    PlanRejected,
    PlanRevised,
    StoredEvent,
)
from orchestrator.core.products import Change, PlanProposal, Product, Report, Verdict
from orchestrator.core.state import RunState, TaskState, TaskStatus
from orchestrator.core.usage import Usage
from orchestrator.observers.jsonlines import result_record
from orchestrator.observers.summary import product_line, task_line, usage_line
from orchestrator.observers.text import clean, clean_line, dollars, duration, tail

TAIL_LINES_MAX = 40
CELL_CHARS_MAX = 200


def report_json(state: RunState, events: Sequence[StoredEvent]) -> str:
    """The report as one JSON document: the stream's result record with each task's details."""
    started = state.started
    failures = _failures(events)
    document = result_record(state) | {
        "type": "report",
        "name": started.settings.name if started else None,
        "goal": started.settings.goal if started else None,
        "base": started.base if started else None,
        "base_branch": started.base_branch if started else None,
        "model": started.model if started else None,
        "sandbox": started.sandbox if started else None,
        "landed": state.landed.model_dump(mode="json") if state.landed is not None else None,
        "usage": _usage(state.usage),
        "replans": [
            {"at": event.at, "seq": event.seq}
            | EVENT.dump_python(event.body, mode="json", by_alias=True)
            for event in events
            if isinstance(event.body, PlanRejected)
            or (isinstance(event.body, PlanRevised) and (event.body.by or event.body.replans))
        ],
        "tasks": {key: _task(task, failures[key]) for key, task in state.tasks.items()},
    }
    return json.dumps(document, indent=2) + "\n"


def _task(task: TaskState, failures: Iterable[AttemptFailed]) -> dict[str, object]:
    return {
        "status": task.status.value,
        "role": task.task.role,
        "needs": list(task.task.needs),
        "attempts": task.attempt,
        "usage": _usage(task.usage),
        "commit": task.commit,
        "tree": task.tree,
        "summary": product_line(task.product),
        "product": None if task.product is None else task.product.model_dump(mode="json"),
        "gates": [gate.model_dump(mode="json") for gate in task.gates],
        "reason": task.reason,
        "evidence": task.evidence,
        "blocked_by": task.blocked_by,
        "left_out": list(task.left_out),
        "failures": [
            {"attempt": body.attempt, "reason": body.reason, "evidence": body.evidence}
            for body in failures
        ],
    }


def _usage(usage: Usage) -> dict[str, object]:
    return usage.model_dump() | {"tokens": usage.tokens}


def _failures(events: Iterable[StoredEvent]) -> defaultdict[str, list[AttemptFailed]]:
    """Failed attempts by task, in the order in which they ended."""
    found: defaultdict[str, list[AttemptFailed]] = defaultdict(list)
    for event in events:
        if isinstance(event.body, AttemptFailed):
            found[event.body.task].append(event.body)
    return found


def report_markdown(state: RunState, events: Sequence[StoredEvent]) -> str:
    """The report as Markdown."""
    return "\n".join(_markdown(state, events)) + "\n"


def _markdown(state: RunState, events: Sequence[StoredEvent]) -> Iterator[str]:
    started = state.started
    yield f"# Run {state.run}: {state.status}"
    yield ""
    if started is not None and started.settings.goal:
        yield from (f"> {text(line)}" for line in started.settings.goal.strip().splitlines())
        yield ""
    if started is not None:
        branch = f" of branch {code(started.base_branch)}" if started.base_branch else ""
        yield f"- Base: {code(started.base)}{branch}"
    where = code(state.branch) if state.branch else "none, nothing was integrated"
    yield f"- Branch: {where}" + (f" at {code(state.commit)}" if state.commit else "")
    if state.landed is not None:
        yield f"- Landed: in {code(state.landed.branch)} at {code(state.landed.commit)}"
    if started is not None:
        yield f"- Model: {text(started.model)}; sandbox: {text(started.sandbox)}"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(state.started_at))
    yield f"- Started {when} UTC, ran {duration(state.ended_at - state.started_at)}"
    yield f"- Total: {usage_line(state.usage)}"
    if state.status == "paused":
        yield f"- Paused: {text(state.pause)}"
    yield from _overview(state)
    yield from _replans(events)
    yield from ("", "## Tasks")
    failures = _failures(events)
    for key, task in state.tasks.items():
        yield from _section(task, failures[key])


def _overview(state: RunState) -> Iterator[str]:
    yield from ("", "| task | status | attempts | seconds | tokens | usd | result |")
    yield "|---|---|--:|--:|--:|--:|---|"
    for key, task in state.tasks.items():
        usage = task.usage
        result = text(clean_line(task_line(task), CELL_CHARS_MAX))
        yield (
            f"| {key} | {_status(task)} | {task.attempt} | {usage.seconds:.1f} | {usage.tokens} "
            f"| {usage.usd:.4f} | {result} |"
        )


def _replans(events: Iterable[StoredEvent]) -> Iterator[str]:
    lines: list[str] = []
    for event in events:
        match event.body:
            case PlanRevised(replans=str() as failed):
                lines.append(f"- {failed} failed; a planner task was added: {text(event.body.why)}")
            case PlanRevised(by=str() as planner):
                what = "changed" if event.body.settings is None else "made"
                lines.append(f"- {planner} {what} the plan: {text(event.body.why)}")
                lines.extend(f"  - adds {code(task.id)}" for task in event.body.add)
                lines.extend(f"  - changes {code(task.id)}" for task in event.body.replace)
                lines.extend(f"  - drops {code(key)}" for key in event.body.drop)
            case PlanRejected():
                lines.append(f"- the patch of {event.body.by} was rejected:")
                lines.extend(f"  - {text(problem)}" for problem in event.body.problems)
            case ApprovalAsked():
                lines.append(f"- what {event.body.task} handed in waited for approval")
            case ApprovalGiven():
                lines.append(f"- what {event.body.task} handed in was approved")
    if lines:
        yield from ("", "## Planning", "", *lines)


def _section(task: TaskState, failures: Iterable[AttemptFailed]) -> Iterator[str]:
    spec = task.task
    yield from ("", f"### {spec.id}: {_status(task)}", "")
    needs = f", needs {', '.join(code(need) for need in spec.needs)}" if spec.needs else ""
    yield f"Role {code(spec.role) if spec.role else 'none'}{needs}."
    if task.usage.calls:
        cost = f"{dollars(task.usage.usd)} in {duration(task.usage.seconds)}"
        yield f"{usage_line(task.usage).rpartition(',')[0]}; {cost}."
    if task.commit:
        yield f"Commit {code(task.commit)}."
    if task.status is TaskStatus.BLOCKED:
        yield f"Blocked by {code(task.blocked_by or '')}."
    yield from _product(task.product)
    for body in failures:
        yield from ("", f"Attempt {body.attempt} failed: {body.reason}.", "")
        yield from fence(body.evidence)
    for gate in task.gates:
        yield from _gate(gate)
    if task.left_out:
        yield from ("", "Left out of the commit:", "")
        yield from (f"- {text(path)}" for path in task.left_out)


def _product(product: Product | None) -> Iterator[str]:
    if product is None:
        return
    yield from ("", text(product_line(product)))
    match product:
        case Report():
            yield from _bullets(
                f"{code(f'{claim.path}:{claim.line}')} {text(claim.note or claim.quote)}"
                for claim in product.claims
            )
            yield from _bullets(text(item) for item in product.items)
        case Change():
            yield from _bullets(
                f"Decided: {text(one.what)}" + (f", because {text(one.why)}" if one.why else "")
                for one in product.decisions
            )
        case Verdict():
            yield from _bullets(
                f"{one.severity} {code(f'{one.path}:{one.line}')} {text(one.message)}"
                for one in product.findings
            )
        case PlanProposal():
            yield from _bullets(
                f"{code(task.id)} {text(clean_line(task.prompt, CELL_CHARS_MAX))}"
                for task in product.tasks
            )
    discoveries: Sequence[str] = getattr(product, "discoveries", ())
    yield from _bullets(f"Discovered: {text(item)}" for item in discoveries)


def _bullets(items: Iterable[str]) -> Iterator[str]:
    lines = [f"- {item}" for item in items]
    yield from ("", *lines) if lines else ()


def _gate(gate: GateRecord) -> Iterator[str]:
    status = "" if gate.exit_status is None else f", exit {gate.exit_status}"
    base = f"; {gate.base} on the base" if gate.base is not None else ""
    yield ""
    yield (
        f"Gate {code(gate.name)}: **{gate.outcome}** ({gate.seconds:.1f} s{status}{base}), "
        f"{code(' '.join(gate.argv))} on tree {code(gate.tree[:12])}."
    )
    if not gate.passed:
        yield ""
        yield from fence(gate.tail)


def _status(task: TaskState) -> str:
    return "dropped" if task.dropped else task.status.value


def text(value: str) -> str:
    """Untrusted text as one line of Markdown prose: its markup and HTML are shown, not obeyed."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", clean_line(value))


def code(value: str) -> str:
    """Untrusted text as a code span that it cannot close."""
    shown = clean_line(value)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def fence(value: str) -> Iterator[str]:
    """The end of untrusted output as a code block that it cannot close."""
    longest = max((len(run) for run in re.findall("`+", clean(value))), default=0)
    bar = "`" * max(3, longest + 1)
    yield bar + "text"
    yield from tail(value, TAIL_LINES_MAX)
    yield bar
