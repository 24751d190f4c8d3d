"""What every model must do: the promises of `ports.Model`.

Each model here is asked to read two files and, shown them, to hand in.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import get_args

import anyio
import pytest
from pydantic import JsonValue

from orchestrator.core.usage import Usage
from orchestrator.messages import (
    Message,
    OpaqueBlock,
    Reply,
    Request,
    StopReason,
    ToolResult,
    ToolUse,
)
from orchestrator.models.clock import RealClock
from orchestrator.models.connect import open_model
from orchestrator.models.exchanges import read_recording
from orchestrator.models.recording import RecordingModel
from orchestrator.models.replay import ReplayModel
from orchestrator.models.scripted import ScriptedModel, load_script
from orchestrator.models.servers import server_of
from orchestrator.ports import Model, ModelError, Spend
from tests.support.api.asking import first_request, next_request
from tests.support.api.conversation import script_policy, thoughtful
from tests.support.api.server import ApiServer

Opened = AbstractAsyncContextManager[Model]
Open = Callable[[], Opened]
"""Opens the model that a test is about; a test has one."""

TURNS: list[JsonValue] = [
    {"say": "I read.", "calls": [{"Read": {"file_path": "a"}}, {"Read": {"file_path": "b"}}]},
    {"expect": "content", "calls": [{"SubmitReport": {"summary": "so"}}]},
]
TASKS = ("work", "one", "two", "three")
THINKING = OpaqueBlock(
    raw={
        "type": "thinking",
        "thinking": "h\u00e9 \U0001f600",
        "signature": "c2ln",
        "n": [1, 2.5, None],
    }
)


class ThinkingModel:
    """A model without a file: it thinks, reads what it is told of, and hands in."""

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """Answer by the number of replies there are."""
        said = sum(message.role == "assistant" for message in request.messages)
        if said > 1:
            raise ModelError("provider", "there is nothing left to say")
        arguments: list[JsonValue] = [{"file_path": "a"}, {"file_path": "b"}]
        names = ["Read", "Read"] if said == 0 else ["SubmitReport"]
        calls = (
            ToolUse(id=f"call-{said}-{place}", name=name, input={"argument": arguments[place]})
            for place, name in enumerate(names)
        )
        message = Message(role="assistant", blocks=(THINKING, *calls))
        usage = Usage(input_tokens=len(request.model_dump_json()), output_tokens=9, calls=1)
        return Reply(message=message, stop_reason="tool_use", usage=usage, model=request.model)


@asynccontextmanager
async def scripted(folder: Path) -> AsyncIterator[Model]:
    path = folder / "script.yaml"
    path.write_text(json.dumps({"tasks": {"*": TURNS}}), encoding="utf-8")
    yield ScriptedModel(load_script(path))


@asynccontextmanager
async def thinking(folder: Path) -> AsyncIterator[Model]:
    yield ThinkingModel()


@asynccontextmanager
async def messages_api(folder: Path) -> AsyncIterator[Model]:
    """The real SDK, over HTTP, from a server that thinks aloud."""
    policy = thoughtful(script_policy({"*": json.loads(json.dumps(TURNS))}))
    with ApiServer(policy) as api:
        environ = {"ANTHROPIC_API_KEY": api.key}
        opened = open_model(
            server_of(api.url, environ), environ, clock=RealClock(), prices={}, tell=print
        )
        async with opened as model:
            yield model


@asynccontextmanager
async def recording(folder: Path) -> AsyncIterator[Model]:
    model = await RecordingModel.open(ThinkingModel(), folder / "run.jsonl")
    try:
        yield model
    finally:
        await model.close()


@asynccontextmanager
async def replay(folder: Path) -> AsyncIterator[Model]:
    """What another model said to everything that the tests here ask."""
    async with recording(folder) as other:
        for task in TASKS:
            request = first(task)
            for _ in range(2):
                request = then(request, await other.complete(request))
            with pytest.raises(ModelError):
                await other.complete(request)
    path = folder / "run.jsonl"
    yield ReplayModel(read_recording(path), path)


@pytest.fixture(params=[scripted, thinking, messages_api, recording, replay])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    make: Callable[[Path], Opened] = request.param
    return lambda: make(tmp_path)


first, then = first_request, next_request


@pytest.mark.asyncio
async def test_a_reply_is_the_assistants_and_says_why_it_stopped(opened: Open) -> None:
    async with opened() as model:
        request = first()
        for _ in range(2):
            reply = await model.complete(request)
            assert reply.message.role == "assistant"
            assert not [block for block in reply.message.blocks if isinstance(block, ToolResult)]
            assert reply.stop_reason in get_args(StopReason)
            assert reply.stop_reason == "tool_use"
            names = {tool.name for tool in request.tools}
            assert {call.name for call in reply.message.calls} <= names
            assert reply.model
            request = then(request, reply)


@pytest.mark.asyncio
async def test_usage_counts_the_call_and_is_never_negative(opened: Open) -> None:
    async with opened() as model:
        usage = (await model.complete(first())).usage
        assert usage.calls == 1
        assert usage.tokens > 0
        assert min(usage.model_dump().values()) >= 0


@pytest.mark.asyncio
async def test_ids_of_calls_are_unique_within_a_conversation(opened: Open) -> None:
    async with opened() as model:
        request, ids = first(), list[str]()
        for _ in range(2):
            reply = await model.complete(request)
            ids += [call.id for call in reply.message.calls]
            request = then(request, reply)
        assert len(ids) == len(set(ids)) == 3
        assert all(ids)


@pytest.mark.asyncio
async def test_requests_and_replies_survive_json(opened: Open) -> None:
    async with opened() as model:
        request = first()
        for _ in range(2):
            reply = await model.complete(request)
            assert Reply.model_validate_json(reply.model_dump_json()) == reply
            request = then(request, reply)
            assert Request.model_validate_json(request.model_dump_json()) == request


@pytest.mark.asyncio
async def test_L06_a_block_that_is_not_understood_survives_json_and_is_taken_back(
    opened: Open,
) -> None:
    async with opened() as model:
        reply = await model.complete(first())
        message = Message(role="assistant", blocks=(THINKING, *reply.message.calls))
        stored = Message.model_validate_json(message.model_dump_json())
        assert stored == message
        assert stored.model_dump_json() == message.model_dump_json()
        thought = reply.model_copy(update={"message": stored})
        after = await model.complete(then(first(), thought))
        assert after.message.calls[0].name == "SubmitReport"


@pytest.mark.asyncio
async def test_the_request_is_left_as_it_was_and_nothing_is_kept_between_calls(
    opened: Open,
) -> None:
    async with opened() as model:
        request = first()
        before = request.model_dump_json()
        reply = await model.complete(request)
        assert request.model_dump_json() == before
        await model.complete(then(request, reply))
        assert await model.complete(request) == reply


@pytest.mark.asyncio
async def test_conversations_at_the_same_time_do_not_meet(opened: Open) -> None:
    async with opened() as model:
        alone = await model.complete(first("one"))
        replies: dict[str, Reply] = {}

        async def ask(task: str) -> None:
            replies[task] = await model.complete(first(task))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for task in ("one", "two", "three"):
                    group.start_soon(ask, task)
        assert replies["one"] == alone
        assert len(replies) == 3


@pytest.mark.asyncio
async def test_no_answer_is_a_model_error_with_a_reason(opened: Open) -> None:
    async with opened() as model:
        request = first()
        for _ in range(2):
            request = then(request, await model.complete(request))
        with pytest.raises(ModelError) as caught:
            await model.complete(request)
        assert caught.value.reason
        assert str(caught.value)
