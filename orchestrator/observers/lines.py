"""Plain lines for people as the run goes: time, task, what happened, the tail of a red gate.

One event is a few lines at most. Nothing is drawn over, so a log file and a narrow terminal show
the same as a wide one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    GateRecord,
    Landed,
    PlanRejected,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    StoredEvent,
    TaskBlocked,
    TaskSkipped,
)
from orchestrator.core.state import RunState
from orchestrator.observers.summary import moment, product_line, status_text
from orchestrator.observers.text import (
    Sink,
    Style,
    clean_line,
    dollars,
    duration,
    plural,
    tail,
)
from orchestrator.ports import Observer

TAIL_LINES_MAX = 12
EVIDENCE_LINES_MAX = 6
IDS_MAX = 12
OUTCOMES = {
    "passed": "passed",
    "failed": "failed",
    "timeout": "ran out of time",
    "environment": "could not run",
}


def line_printer(stream: Sink, style: Style) -> Observer:
    """An observer that tells each event to `stream`, with the money so far."""

    def observe(event: StoredEvent, state: RunState) -> None:
        began = duration(event.at - state.started_at)
        first, *rest = [*event_lines(event.body, style)]
        costs = hasattr(event.body, "usage")
        money = style.dim(f"  [{dollars(state.usage.usd)} so far]") if costs else ""
        lines = [f"{style.dim(began.rjust(7))}  {first}{money}", *(f"{'':9}{x}" for x in rest)]
        stream.write("".join(line + "\n" for line in lines))
        stream.flush()

    return observe


def event_lines(event: Event, style: Style) -> Iterator[str]:
    """What happened, the main line first."""
    match event:
        case RunStarted():
            yield from _started(event)
        case PlanRevised():
            yield from _revised(event)
        case PlanRejected():
            yield f"{event.by}: {style.bad('patch rejected')}, the plan stays as it is"
            yield from (f"  {clean_line(problem)}" for problem in event.problems)
        case AttemptStarted():
            yield f"{event.task} #{event.attempt} started"
        case AttemptSucceeded():
            yield from _succeeded(event, style)
        case AttemptFailed():
            yield from _failed(event, style)
        case AttemptLost():
            why = "interrupted" if event.interrupted else clean_line(event.why)
            yield f"{event.task} #{event.attempt} {style.odd('lost')}: {why}; it is run again"
        case AttemptCancelled():
            yield f"{event.task} #{event.attempt} {style.odd('cancelled')}: {clean_line(event.why)}"
        case TaskSkipped():
            yield f"{event.task} {status_text(style, 'skipped')}: {clean_line(event.why)}"
        case TaskBlocked():
            yield f"{event.task} {status_text(style, 'blocked')}: {event.by} failed"
        case ApprovalAsked():
            what = "plan" if event.what == "plan" else "patch"
            yield f"{event.task}: its {what} {style.odd('waits for approval')}"
        case ApprovalGiven():
            yield f"{event.task}: approved"
        case RunPaused():
            yield f"{style.odd('paused')} ({event.reason}): {clean_line(event.detail)}"
            if event.until is not None:
                yield f"going on may help from {moment(event.until)}"
        case RunResumed():
            yield "resumed" + (f", sandbox {event.sandbox}" if event.sandbox is not None else "")
        case RunFinished():
            yield f"run {status_text(style, event.status)}"
        case Landed():
            yield f"landed in {clean_line(event.branch)}, which was at {event.before[:12]}"
            yield f"now at {event.commit[:12]}"
            if event.gates:
                yield "gates: " + ", ".join(clean_line(_gate(gate)) for gate in event.gates)


def _started(event: RunStarted) -> Iterator[str]:
    branch = f" ({clean_line(event.base_branch)})" if event.base_branch else ""
    yield f"run started: {clean_line(event.settings.name)} on {event.base[:12]}{branch}"
    yield f"model {clean_line(event.model)}, sandbox {event.sandbox}, workspaces {event.workspace}"


def _revised(event: PlanRevised) -> Iterator[str]:
    if event.replans is not None:
        who = f"replanning after {event.replans}"
    elif event.settings is not None:
        who = f"plan made by {event.by}"
    else:
        who = f"plan changed by {event.by}" if event.by is not None else "plan"
    parts = [
        f"{verb} {_ids(ids)}"
        for verb, ids in (
            ("adds", [task.id for task in event.add]),
            ("changes", [task.id for task in event.replace]),
            ("drops", list(event.drop)),
        )
        if ids
    ]
    yield f"{who}: {'; '.join(parts) or 'nothing to do'}"
    if event.why and (event.by or event.replans):
        yield clean_line(event.why)


def _succeeded(event: AttemptSucceeded, style: Style) -> Iterator[str]:
    head = _ended(event, style.good("succeeded"))
    said = product_line(event.product)
    yield f"{head}: {said}" if said else head
    if event.gates:
        yield "gates: " + ", ".join(clean_line(_gate(gate)) for gate in event.gates)
    if event.left_out:
        yield f"left out of the commit: {clean_line(', '.join(event.left_out), 500)}"


def _failed(event: AttemptFailed, style: Style) -> Iterator[str]:
    yield f"{_ended(event, style.bad('failed'))}: {event.reason}"
    red = [gate for gate in event.gates if not gate.passed]
    for gate in red:
        yield f"gate {clean_line(_gate(gate))}"
        yield from (f"| {line}" for line in tail(gate.tail, TAIL_LINES_MAX))
    if not red:
        yield from (f"| {line}" for line in tail(event.evidence, EVIDENCE_LINES_MAX))


def _ended(event: AttemptSucceeded | AttemptFailed, how: str) -> str:
    return f"{event.task} #{event.attempt} {how} in {duration(event.usage.seconds)}"


def _gate(gate: GateRecord) -> str:
    exit_status = f", exit {gate.exit_status}" if gate.outcome == "failed" else ""
    base = f", {OUTCOMES[gate.base]} on the base" if gate.base is not None else ""
    return f"{gate.name} {OUTCOMES[gate.outcome]} ({duration(gate.seconds)}{exit_status}{base})"


def _ids(ids: Iterable[str]) -> str:
    listed = list(ids)
    more = len(listed) - IDS_MAX
    shown = ", ".join(listed[:IDS_MAX])
    return shown + (f" and {plural(more, 'more task')}" if more > 0 else "")
