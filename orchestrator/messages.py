"""What is said to a model and what it answers: the shape of the Messages API, provider-free.

A transcript is a list of `Message`; a request is the transcript plus a stable prefix. Blocks that
this program does not understand (thinking, kinds of tomorrow) are kept whole in `OpaqueBlock` and
go back exactly as they came.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from orchestrator.core.base import Record
from orchestrator.core.usage import Usage

Extra = Annotated[dict[str, JsonValue], Field(exclude_if=operator.not_)]
"""What else the provider put into a block (citations, a caller): goes back with it as it came."""


class TextBlock(Record):
    """Plain text, never empty."""

    type: Literal["text"] = "text"
    text: str = Field(min_length=1)
    extra: Extra = {}


class ToolUse(Record):
    """The model asks for a tool call."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, JsonValue]
    """Arguments as the model gave them, not yet checked."""
    extra: Extra = {}


class ToolResult(Record):
    """What a call gave back."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str
    is_error: bool = False


class OpaqueBlock(Record):
    """A block kept as it came: thinking, redacted thinking, anything unknown."""

    type: Literal["opaque"] = "opaque"
    raw: dict[str, JsonValue]


Block = Annotated[TextBlock | ToolUse | ToolResult | OpaqueBlock, Field(discriminator="type")]


class Message(Record):
    """One turn of one side. Results of tools stand first in a user message."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """Its plain text, blocks joined by newlines."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """Its tool calls, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUse))


class ToolSpec(Record):
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON schema of its arguments."""
    read_only: bool = True
    """Whether it leaves the tree alone; such calls of one turn may run at the same time."""


class Request(Record):
    """Everything a model is told in one call. Serialising it is deterministic."""

    task: str
    attempt: int
    """Which conversation this is: for scripts, records and logs, never sent to a provider."""
    model: str
    max_tokens: int = Field(gt=0)
    tools: tuple[ToolSpec, ...]
    """Sorted by name, unchanged within an attempt."""
    system: tuple[str, ...]
    """The stable prefix, most widely shared part first."""
    messages: tuple[Message, ...]


StopReason = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "unknown",
]


class Reply(Record):
    """A model's answer. Only with `tool_use` are its calls carried out."""

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str
    """The model that answered."""
