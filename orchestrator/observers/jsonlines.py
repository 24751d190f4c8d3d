"""The `--json` stream: one line of JSON for each event, the last line the run's result.

The shape is a promise to users' scripts: `type`, `at` (Unix seconds), `run`, `seq`, `cause`, `task`
and `attempt` (null where there is none), then the event's own fields. Pure ASCII, so that
nothing in it can drive a terminal or upset an encoding.
"""

from __future__ import annotations

import json

from orchestrator.core.events import EVENT, StoredEvent
from orchestrator.core.state import RunState
from orchestrator.observers.text import Sink
from orchestrator.ports import Observer


def event_record(event: StoredEvent) -> dict[str, object]:
    """One event as the stream shows it."""
    body: dict[str, object] = EVENT.dump_python(event.body, mode="json", by_alias=True)
    head: dict[str, object] = {
        "type": event.body.type,
        "at": event.at,
        "run": event.run,
        "seq": event.seq,
        "cause": event.cause,
        "task": body.get("task"),
        "attempt": body.get("attempt"),
    }
    return head | {key: value for key, value in body.items() if key not in head}


def result_record(state: RunState) -> dict[str, object]:
    """The last line: `{type: result, run, status, branch, commit, usd, seconds, tasks}`."""
    return {
        "type": "result",
        "run": state.run,
        "status": state.status,
        "branch": state.branch,
        "commit": state.commit,
        "usd": round(state.usage.usd, 6),
        "seconds": round(state.ended_at - state.started_at, 3),
        "tasks": {key: task.status.value for key, task in state.tasks.items()},
    }


def write_line(stream: Sink, record: dict[str, object]) -> None:
    """Write one record and flush, so that a reader sees it at once."""
    stream.write(json.dumps(record, separators=(", ", ": ")) + "\n")
    stream.flush()


def json_lines(stream: Sink) -> Observer:
    """An observer that writes each event to `stream`."""

    def observe(event: StoredEvent, _state: RunState) -> None:
        write_line(stream, event_record(event))

    return observe


def write_result(stream: Sink, state: RunState) -> None:
    """Write the result line."""
    write_line(stream, result_record(state))
