"""How a tool is made: a name, typed arguments, and one async function.

Arguments are checked by a pydantic model whose JSON schema is what the model is told, so the two
cannot differ. A tool's state is a `ToolSession`, one for each attempt, handed to every tool of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError

from orchestrator.messages import ToolSpec
from orchestrator.ports import Tool, ToolError, Workspace
from orchestrator.tools.text import visible

A = TypeVar("A", bound=BaseModel)

PathText = Annotated[str, Field(min_length=1, max_length=4_096, pattern=r"^[^\x00]+$")]
"""A path as an agent writes it; whether it may be used is the workspace's to say."""

_FAULTS_SHOWN = 8


@dataclass(slots=True)
class Seen:
    """What an agent has seen of one file."""

    digest: str
    """SHA-256 of the file's bytes at that time."""
    lines: int
    """How many lines from the first on were shown without a gap."""
    whole: bool
    """Whether that is all of it."""


@dataclass(slots=True)
class ToolSession:
    """What the tools of one attempt share."""

    timeout_s: float | None = None
    """Most seconds of one command; None is the tool's own limit."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for commands."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """Files that were read or written, by path relative to the root."""


@dataclass(frozen=True, slots=True)
class Definition(Generic[A]):
    """A tool before it belongs to an attempt."""

    name: str
    description: str
    arguments: type[A]
    carry_out: Callable[[A, Workspace, ToolSession], Awaitable[str]]
    read_only: bool = True

    def bind(self, session: ToolSession) -> Tool:
        """The tool of one attempt."""
        return _BoundTool(self, session)


class _BoundTool(Generic[A]):
    """`ports.Tool` over a definition."""

    def __init__(self, definition: Definition[A], session: ToolSession) -> None:
        self._definition = definition
        self._session = session
        self._spec = ToolSpec(
            name=definition.name,
            description=definition.description,
            input_schema=schema_of(definition.arguments),
            read_only=definition.read_only,
        )

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def __call__(self, args: Mapping[str, object], workspace: Workspace) -> str:
        checked = checked_arguments(self._definition.arguments, args)
        return visible(await self._definition.carry_out(checked, workspace, self._session))


def checked_arguments(
    model: type[A], args: Mapping[str, object], *, without: str | None = None
) -> A:
    """`args` as `model`. Raises `ToolError` that names every argument that is wrong.

    `without`: a field that the caller does not know of.
    """
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    shown = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in faults[:_FAULTS_SHOWN]
    ]
    if len(faults) > len(shown):
        shown.append(f"and {len(faults) - len(shown)} more")
    names = ", ".join(schema_of(model, without=without)["properties"]) or "none"
    raise ToolError(f"wrong arguments: {'; '.join(shown)}. The arguments are: {names}.")


def schema_of(model: type[BaseModel], *, without: str | None = None) -> dict[str, Any]:
    """JSON schema of `model`, in few words.

    Titles, which repeat names, and `null` for what may be left out are not told. `without` names a
    top-level property that is not shown.
    """
    schema: dict[str, Any] = _shortened(model.model_json_schema())
    schema.pop("description", None)
    schema.setdefault("properties", {}).pop(without, None)
    if without in schema.get("required", ()):
        schema["required"] = [name for name in schema["required"] if name != without]
    return schema


def _shortened(value: Any) -> Any:
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if not isinstance(value, dict):
        return value
    short = {
        key: _shortened(item)
        for key, item in value.items()
        if not (key == "title" and isinstance(item, str))
    }
    others = [item for item in short.get("anyOf", ()) if item != {"type": "null"}]
    if "default" in short and short["default"] is None and others:
        del short["default"], short["anyOf"]
        short |= others[0] if len(others) == 1 else {"anyOf": others}
    return short


def relative(path: str, workspace: Workspace) -> str:
    """`path` relative to the root where it is inside it, in one spelling; `.` is the root.

    A name for looking things up. Whether the path may be opened is decided by the workspace.
    """
    root = workspace.location.rstrip("/")
    if path == root or path.startswith(root + "/"):
        path = path[len(root) :].lstrip("/")
    return posixpath.normpath(path or ".")
