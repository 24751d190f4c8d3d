"""Requests of a small task, as an agent would make them: what models are asked in tests.

The task is to read two files and then to hand in a report.
"""

from __future__ import annotations

from orchestrator.core.products import Report
from orchestrator.messages import Message, Reply, Request, TextBlock, ToolResult, ToolSpec
from orchestrator.tools.definition import schema_of

MODEL = "claude-opus-5-5"
TOOLS = (
    ToolSpec(
        name="Read",
        description="Reads a file.",
        input_schema={
            "type": "object",
            "properties": {"file_path": {"type": "string"}},
            "required": ["file_path"],
        },
    ),
    ToolSpec(
        name="SubmitReport",
        description="Hands in.",
        input_schema=schema_of(Report, without="kind"),
        read_only=False,
    ),
)


def first_request(task: str = "work", *, model: str = MODEL, max_tokens: int = 1_000) -> Request:
    """The request that opens a conversation."""
    text = f"# Task `{task}`\n\nRead a and b, then hand in."
    return Request(
        task=task,
        attempt=1,
        model=model,
        max_tokens=max_tokens,
        tools=TOOLS,
        system=("You are an agent.",),
        messages=(Message(role="user", blocks=(TextBlock(text=text),)),),
    )


def next_request(request: Request, reply: Reply, content: str = "content") -> Request:
    """The request after it: the reply, and results for its calls or a text where there are none."""
    results = tuple(
        ToolResult(tool_use_id=call.id, content=content) for call in reply.message.calls
    )
    answer = Message(role="user", blocks=results or (TextBlock(text=content),))
    return request.model_copy(update={"messages": (*request.messages, reply.message, answer)})
