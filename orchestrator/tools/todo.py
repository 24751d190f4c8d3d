"""`TodoWrite`: the agent's own plan, recited.

Writing the list anew puts it at the end of the context, where a model attends best (the recitation
that Manus and other agents describe). Nothing else reads it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import ToolError, Workspace
from orchestrator.tools.definition import Definition, ToolSession
from orchestrator.tools.text import visible


class TodoItem(Record):
    """One step."""

    content: Annotated[str, Field(min_length=1, max_length=1_000)]
    """What is to be done."""
    status: Literal["pending", "in_progress", "completed"]
    activeForm: Annotated[str, Field(max_length=1_000)] = ""  # noqa: N815
    """The same as something that is being done."""


class TodoArguments(Record):
    """Arguments of `TodoWrite`."""

    todos: Annotated[tuple[TodoItem, ...], Field(max_length=100)]
    """The whole list, in order; it replaces the one before."""


async def _todo_write(args: TodoArguments, _workspace: Workspace, _session: ToolSession) -> str:
    active = sum(item.status == "in_progress" for item in args.todos)
    done = sum(item.status == "completed" for item in args.todos)
    if active != 1 and done != len(args.todos):
        raise ToolError(
            f"{active} items are in_progress: exactly one must be, until all are completed. Send"
            " the whole list again."
        )
    lines = [
        f"{number}. [{item.status}] {visible(item.content)}"
        for number, item in enumerate(args.todos, start=1)
    ]
    return "\n".join([*lines, f"[{done} of {len(args.todos)} completed]"])


TODO_WRITE = Definition(
    name="TodoWrite",
    description=(
        "Write down your plan and keep it current: the whole list each time, exactly one item"
        " in_progress, an item completed only after you have verified it. For work of three steps"
        " or more."
    ),
    arguments=TodoArguments,
    carry_out=_todo_write,
)
