"""A model that follows a script: no key, no network, the same answer every time.

It stands behind the same seam as a real model and is what tests, demos and rehearsals of a plan
run on. It keeps nothing between calls: which turn comes next is the number of replies that the
request already holds, so a run that was killed and resumed goes on where it was. The only clock
is a turn's own `delay_s`.

What a call would have cost is estimated as a provider with prompt caching bills it, at about four
characters a token: what the previous request held is read from the cache, what is new is written
to it, and the reply is output.
"""

from __future__ import annotations

import anyio

from orchestrator.core.usage import Usage
from orchestrator.messages import Block, Message, Reply, Request, TextBlock, ToolResult, ToolUse
from orchestrator.models.prices import price
from orchestrator.models.script import Call, Script, Turn, load_script
from orchestrator.ports import ModelError, Spend

__all__ = ["Call", "Script", "ScriptedModel", "Turn", "load_script"]

CHARACTERS_PER_TOKEN = 4
"""A coarse mean for English and code; good enough to show what caching does to a bill."""
_SHOWN_CHARACTERS = 300
"""How much of an unexpected result a message repeats."""


class ScriptedModel:
    """`ports.Model` over a script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """The script's next turn. Raises `ModelError("script", ...)` where it does not fit."""
        index = sum(message.role == "assistant" for message in request.messages)
        turn = self._turn(request, index)
        if turn.delay_s:
            await anyio.sleep(turn.delay_s)
        message = Message(role="assistant", blocks=_blocks(turn, request, index))
        return Reply(
            message=message,
            stop_reason=turn.ends_with,
            usage=_usage(turn, request, message),
            model=request.model,
        )

    def _turn(self, request: Request, index: int) -> Turn:
        """The turn that is due, if what came before is what it was written for."""
        script = self._script
        key = script.key_for(request.task, request.attempt)
        turns = script.tasks[key] if key is not None else ()
        if key is None or index >= len(turns):
            raise ModelError(
                "script",
                f"script exhausted: no turn {index + 1} for task `{request.task}`"
                f" (attempt {request.attempt}) in {script.file}",
            )
        expected, seen = turns[index].expect, _last_results(request)
        if expected is not None and expected not in seen:
            raise ModelError(
                "script",
                f"{script.file}:{script.line(key, index)}: expected `{expected}` in the last"
                f" results of task `{request.task}`, which were: {_shortened(seen)}",
            )
        return turns[index]


def _blocks(turn: Turn, request: Request, index: int) -> tuple[Block, ...]:
    """Text first, then calls; ids tell task, attempt, turn and place, so none comes twice."""
    text = (TextBlock(text=turn.say),) if turn.say else ()
    prefix = f"toolu_{request.task}_{request.attempt}_{index}"
    calls = (
        ToolUse(id=f"{prefix}_{place}", name=call.name, input=call.input)
        for place, call in enumerate(turn.calls)
    )
    return (*text, *calls)


def _last_results(request: Request) -> str:
    """What the last user message says: tool results and text, in order."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "user":
        return ""
    parts = []
    for block in last.blocks:
        if isinstance(block, ToolResult):
            parts.append(block.content)
        elif isinstance(block, TextBlock):
            parts.append(block.text)
    return "\n".join(parts)


def _shortened(text: str) -> str:
    """One line that keeps the end, where test output says how it went."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"...{line[-_SHOWN_CHARACTERS:]}"


def _usage(turn: Turn, request: Request, message: Message) -> Usage:
    """The turn's own usage, else an estimate; dollars by the price table, 0 for unknown models."""
    usage = turn.usage if turn.usage is not None else _estimate(request, message)
    if usage.usd:
        return usage
    return usage.model_copy(update={"usd": price(request.model, usage) or 0.0})


def _estimate(request: Request, message: Message) -> Usage:
    """Usage as prompt caching would have it: the previous request is read, the rest is written."""
    read = _tokens(_previous_characters(request))
    sent = _tokens(_prefix_characters(request) + sum(map(_characters, request.messages)))
    return Usage(
        cache_read_tokens=read,
        cache_write_5m_tokens=sent - read,
        output_tokens=_tokens(_characters(message)),
        calls=1,
    )


def _previous_characters(request: Request) -> int:
    """Size of the request that the last reply answered, 0 where there was none."""
    for end in range(len(request.messages) - 1, -1, -1):
        if request.messages[end].role == "assistant":
            earlier = request.messages[:end]
            return _prefix_characters(request) + sum(map(_characters, earlier))
    return 0


def _prefix_characters(request: Request) -> int:
    """Size of what stands before the first message: tools and system."""
    tools = sum(len(tool.model_dump_json(exclude={"read_only"})) for tool in request.tools)
    return tools + sum(map(len, request.system))


def _characters(message: Message) -> int:
    """Size of a message as it is sent."""
    return len(message.model_dump_json())


def _tokens(characters: int) -> int:
    """About how many tokens that many characters are, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)
