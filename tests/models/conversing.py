"""Small conversations to record: requests that grow, and a model whose answers tell them apart."""

from __future__ import annotations

from orchestrator.core.usage import Usage
from orchestrator.messages import (
    Message,
    OpaqueBlock,
    Reply,
    Request,
    TextBlock,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from orchestrator.ports import ModelError, Spend

READ = ToolSpec(
    name="Read", description="Reads a file.", input_schema={"type": "object", "properties": {}}
)
THINKING = OpaqueBlock(
    raw={"type": "thinking", "signature": "EqQB==", "thinking": "h\u00e9", "n": [1, None]}
)


def opening(
    text: str = "# Task\nAdd a filter.",
    *,
    task: str = "filter",
    attempt: int = 1,
    system: tuple[str, ...] = ("You write.\nBe short.", "Files: a.py"),
    tools: tuple[ToolSpec, ...] = (READ,),
    model: str = "model-a",
) -> Request:
    return Request(
        task=task,
        attempt=attempt,
        model=model,
        max_tokens=1_000,
        tools=tools,
        system=system,
        messages=(Message(role="user", blocks=(TextBlock(text=text),)),),
    )


def then(request: Request, reply: Reply, content: str) -> Request:
    """The next request: the reply, and `content` as the result of each of its calls."""
    results = tuple(
        ToolResult(tool_use_id=call.id, content=content) for call in reply.message.calls
    )
    answer = Message(role="user", blocks=results)
    return request.model_copy(update={"messages": (*request.messages, reply.message, answer)})


def reply(number: int, *, tool: str = "Read") -> Reply:
    call = ToolUse(id=f"call-{number}", name=tool, input={"file_path": "a.py", "limit": None})
    return Reply(
        message=Message(role="assistant", blocks=(THINKING, TextBlock(text="I look."), call)),
        stop_reason="tool_use",
        usage=Usage(input_tokens=10 * number, output_tokens=number, usd=0.01, calls=1),
        model="model-a-20260101",
    )


class Numbered:
    """Answers with the number of the call, or raises what stands there instead."""

    def __init__(self, errors: dict[int, ModelError] | None = None, *, tool: str = "Read") -> None:
        self.calls = 0
        self._tool = tool
        self._errors = errors or {}

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        self.calls += 1
        if self.calls in self._errors:
            raise self._errors[self.calls]
        return reply(self.calls, tool=self._tool)
