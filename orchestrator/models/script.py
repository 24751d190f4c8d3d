"""The file of a scripted model: what it will say, turn by turn, task by task.

    tasks:
      filter:                          # a task id; `filter#2` its second attempt; `*` any task
        - say: I will read the code.   # one list item is one turn
          calls:
            - Read: {file_path: tickets/search.py}
        - expect: AttributeError       # must be in the last tool results
          calls: [{SubmitChange: {summary: done}}]
          stop_reason: tool_use        # optional, as are delay_s and usage

Only the file: speaking it is `orchestrator.models.scripted`. A file with faults is refused whole,
all its faults at once, each with its line. Arguments of calls are not checked here: a script may
well play a model that calls a tool wrongly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from orchestrator.core.base import Record
from orchestrator.core.lenient import Draft, Listed, Number, predicate
from orchestrator.core.usage import Usage
from orchestrator.core.wording import kind_of
from orchestrator.documents import BYTES_MAX, Document, faults_of, load_document
from orchestrator.errors import Fault, PlanError
from orchestrator.messages import StopReason

DELAY_S_MAX = 3_600.0
"""Longest delay of one turn."""
ANY_TASK = "*"

_TASK_KEY = re.compile(r"\*|[a-z0-9][a-z0-9-]{0,62}(#[1-9][0-9]{0,3})?")


def _task_key(key: str) -> str:
    if not _TASK_KEY.fullmatch(key):
        raise predicate("names no task", "write a task's id, `id#attempt` or `*`")
    return key


def _one_call(value: object) -> object:
    """`{Read: {...}}` as name and input; nothing behind the name is no arguments."""
    if isinstance(value, Call):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise predicate("must be a mapping with one key", "write - Tool: {argument: value}")
    ((name, arguments),) = value.items()
    if arguments is not None and not isinstance(arguments, dict):
        raise predicate(f"must map arguments of `{name}` to values, not {kind_of(arguments)}")
    return {"name": name, "input": arguments or {}}


class Call(Record):
    """A tool call that the model will ask for."""

    name: str
    input: dict[str, JsonValue]
    """Arguments, whatever the script says."""


class TurnUsage(Usage):
    """What a turn is said to have cost, as one answered call."""

    calls: int = Field(default=1, ge=0)


class Turn(Draft):
    """One reply of the model."""

    noun = "a turn"

    say: str = ""
    """Its text; empty is no text block."""
    calls: Annotated[tuple[Annotated[Call, BeforeValidator(_one_call)], ...], Listed] = ()
    """What it asks for, in order."""
    expect: str | None = None
    """Text that the last tool results must hold, else the script fails the task."""
    stop_reason: StopReason | None = None
    """Left out: `tool_use` with calls, `end_turn` without."""
    delay_s: Annotated[float, Number, Field(ge=0, le=DELAY_S_MAX)] = 0.0
    """Seconds the model takes to answer."""
    usage: TurnUsage | None = None
    """What the call cost; left out, it is estimated."""

    @property
    def ends_with(self) -> StopReason:
        """Why the reply ends."""
        return self.stop_reason or ("tool_use" if self.calls else "end_turn")


class _ScriptDraft(Draft):
    noun = "a script"

    tasks: dict[Annotated[str, AfterValidator(_task_key)], tuple[Turn, ...]]


@dataclass(frozen=True, slots=True)
class Script:
    """A checked script."""

    document: Document
    tasks: dict[str, tuple[Turn, ...]]
    """Turns by task id, `id#attempt` or `*`."""

    @property
    def file(self) -> str:
        """The path as the user gave it, for messages."""
        return self.document.file

    def key_for(self, task: str, attempt: int) -> str | None:
        """Whose turns an attempt gets: its own, else the task's, else anybody's, else none."""
        keys = (f"{task}#{attempt}", task, ANY_TASK)
        return next((key for key in keys if key in self.tasks), None)

    def line(self, key: str, turn: int) -> int:
        """Line of a turn, both counted from where people count: lines from 1, turns from 0."""
        return self.document.line(("tasks", key, turn))


def load_script(path: Path, *, name: str = "") -> Script:
    """Read and check a script file. Raises `PlanError` with every fault that it has.

    `name` is what messages call it, where that is not its path.
    """
    return read_script(_read(path), name or str(path))


def read_script(text: bytes | str, name: str) -> Script:
    """Check the text of a script file, which messages call `name`; see `load_script`."""
    document = load_document(text, name)
    try:
        draft = _ScriptDraft.model_validate(document.data)
    except ValidationError as error:
        raise PlanError(faults_of(error, document)) from None
    return Script(document, draft.tasks)


def _read(path: Path) -> bytes:
    """What is in the file, or a `PlanError` that says why it cannot be had."""
    try:
        with path.open("rb") as stream:
            return stream.read(BYTES_MAX + 1)
    except FileNotFoundError:
        reason = "no such script file"
    except OSError as error:
        reason = f"the script cannot be read: {error.strerror}"
    raise PlanError([Fault(str(path), 0, reason, "give --scripted the path of a script file")])
