"""What running agents are doing: follows their transcripts as they grow.

Transcripts are written by the agents' side at their own pace; here they are only read, each byte
once, a piece at a time. A line that is not whole yet is waited for, one that cannot be read is
passed over, a file that is not there yet is no fault. Nothing here is thread-safe: it belongs to
whoever draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from orchestrator.agent.transcript import LINE, Entry, Spent
from orchestrator.core.base import TaskId
from orchestrator.core.usage import Usage
from orchestrator.messages import ToolUse
from orchestrator.observers.board import Row
from orchestrator.observers.text import clean_line
from orchestrator.state_folder import RunFolder

CHUNK_BYTES = 256 * 1024
"""Most of one transcript that is read at a time; a long one is caught up with bit by bit."""
LINE_BYTES_MAX = 16 * 1024 * 1024
"""A line that is longer is passed over."""
TEXT_CHARS_MAX = 200
ARGUMENT_CHARS_MAX = 1_000
TELLING = ("file_path", "command", "pattern", "path", "name", "summary", "why", "goal")
"""Arguments that say most about a call, the best first."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What one attempt has done so far."""

    text: str = ""
    """Its last tool call, or what it said; empty before it said anything."""
    thinking: bool = True
    """Whether the model has to answer: the call has returned."""
    usage: Usage = field(default_factory=Usage)
    """Of its replies and failed tries so far."""


NOTHING = Activity()


@dataclass(slots=True)
class _Follower:
    """One try of an attempt, and how far its transcript has been read."""

    path: Path
    started: int
    offset: int = 0
    rest: bytes = b""
    activity: Activity = NOTHING

    def read_on(self) -> None:
        """Take in the next piece."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(CHUNK_BYTES)
        except OSError:
            return  # not there yet, or not to be read: the table does without
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > LINE_BYTES_MAX:
            self.rest = b""  # what follows of it is no line and is passed over
        for line in lines:
            try:
                parsed = LINE.validate_json(line)
            except ValidationError:
                continue
            if isinstance(parsed, Entry):
                self.activity = _after(self.activity, parsed)
            elif isinstance(parsed, Spent):
                usage = self.activity.usage + parsed.usage
                self.activity = replace(self.activity, usage=usage)
            elif parsed.started not in (0, self.started):
                # A lost try of the same number: its file is about to make room for this one's.
                self.offset, self.rest = 0, b""
                return


class Activities:
    """Follows all attempts that run."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._followed: dict[tuple[TaskId, int, int], _Follower] = {}

    def look(self, rows: Iterable[Row]) -> dict[TaskId, Activity]:
        """What those of `rows` do that run. Reads a piece of each of their transcripts."""
        running = {
            (row.task, row.attempt, row.started): row
            for row in rows
            if row.since is not None and row.role
        }
        self._followed = {
            key: self._followed.get(key)
            or _Follower(self._folder.transcript(row.task, row.attempt), row.started)
            for key, row in running.items()
        }
        for follower in self._followed.values():
            follower.read_on()
        return {key[0]: follower.activity for key, follower in self._followed.items()}


def _after(before: Activity, entry: Entry) -> Activity:
    """What an attempt does once `entry` is in its transcript."""
    usage = before.usage + entry.usage if entry.usage is not None else before.usage
    message = entry.message
    if message.role == "user":
        return Activity(before.text, True, usage)
    if message.calls:
        first, *more = message.calls
        text = _call(first) + (f" (+{len(more)})" if more else "")
    else:
        text = clean_line(message.text, TEXT_CHARS_MAX)
    return Activity(text or before.text, not message.calls, usage)


def _call(call: ToolUse) -> str:
    """A call by its name and what says most about it."""
    texts = {key: value for key, value in call.input.items() if isinstance(value, str)}
    key = next((key for key in TELLING if key in texts), None)
    about = texts[key] if key is not None else next(iter(texts.values()), "")
    return clean_line(f"{call.name} {about[:ARGUMENT_CHARS_MAX]}", TEXT_CHARS_MAX)
