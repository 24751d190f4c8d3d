"""The scripted model: the turn that is due, ids that never repeat, a bill as caching has it."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from orchestrator.messages import (
    Block,
    Message,
    Reply,
    Request,
    TextBlock,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from orchestrator.models.scripted import ScriptedModel, load_script
from orchestrator.ports import Model, ModelError

SCRIPT = """\
tasks:
  filter:
    - say: I read.
      calls: [{Read: {file_path: a.py}}, {Read: {file_path: b.py}}]
    - say: It broke.
      expect: AttributeError
      calls: [{SubmitChange: {summary: done}}]
    - {}
  filter#2:
    - say: Second try.
  slow:
    - say: late
      delay_s: 60
  priced:
    - say: x
      usage: {input_tokens: 1000000}
    - say: x
      usage: {input_tokens: 1000000, usd: 9}
  anything:
    - expect: the task
      say: yes
"""

TOOLS = (ToolSpec(name="Read", description="reads", input_schema={"type": "object"}),)


def model(tmp_path: Path, text: str = SCRIPT) -> ScriptedModel:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return ScriptedModel(load_script(path))


def user(*blocks: Block) -> Message:
    return Message(role="user", blocks=blocks)


def request(
    *messages: Message, task: str = "filter", attempt: int = 1, name: str = "claude-opus-5-5"
) -> Request:
    return Request(
        task=task,
        attempt=attempt,
        model=name,
        max_tokens=1000,
        tools=TOOLS,
        system=("You are an agent.",),
        messages=(user(TextBlock(text="Do the task.")), *messages),
    )


def answered(reply: Reply, content: str) -> tuple[Message, Message]:
    """A reply and the results of its calls."""
    results = [ToolResult(tool_use_id=call.id, content=content) for call in reply.message.calls]
    return reply.message, user(*results)


@pytest.mark.asyncio
async def test_it_speaks_the_script_turn_by_turn(tmp_path: Path) -> None:
    scripted: Model = model(tmp_path)
    first = await scripted.complete(request())
    assert first.message.text == "I read."
    assert [(call.name, call.input["file_path"]) for call in first.message.calls] == [
        ("Read", "a.py"),
        ("Read", "b.py"),
    ]
    assert first.stop_reason == "tool_use"
    assert first.model == "claude-opus-5-5"
    second = await scripted.complete(request(*answered(first, "AttributeError: None")))
    assert second.message.text == "It broke."
    assert second.message.calls[0].input == {"summary": "done"}


@pytest.mark.asyncio
async def test_A25_an_empty_turn_is_an_empty_message_without_empty_text(tmp_path: Path) -> None:
    history = [Message(role="assistant", blocks=()), user(TextBlock(text="x"))] * 2
    reply = await model(tmp_path).complete(request(*history))
    assert reply.message.blocks == ()
    assert reply.stop_reason == "end_turn"


@pytest.mark.asyncio
async def test_a_new_model_goes_on_where_the_request_stands(tmp_path: Path) -> None:
    first = await model(tmp_path).complete(request())
    later = request(*answered(first, "AttributeError"))
    one, other = await model(tmp_path).complete(later), await model(tmp_path).complete(later)
    assert one == other
    assert one.message.text == "It broke."


@pytest.mark.asyncio
async def test_the_second_attempt_has_its_own_turns(tmp_path: Path) -> None:
    reply = await model(tmp_path).complete(request(attempt=2))
    assert reply.message.text == "Second try."


@pytest.mark.asyncio
async def test_ids_of_calls_never_repeat_and_are_what_providers_allow(tmp_path: Path) -> None:
    turn = "[{calls: [{A: {}}, {A: {}}]}, {calls: [{A: {}}, {A: {}}]}]"
    scripted = model(tmp_path, f'tasks: {{"*": {turn}}}\n')
    seen: list[str] = []
    for task, attempt in [("a", 1), ("a", 2), ("a-1", 1), ("a-1-2", 1)]:
        first = await scripted.complete(request(task=task, attempt=attempt))
        after = request(*answered(first, "ok"), task=task, attempt=attempt)
        second = await scripted.complete(after)
        seen += [call.id for call in (*first.message.calls, *second.message.calls)]
    assert len(seen) == 16
    assert len(set(seen)) == 16
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", name) for name in seen)


@pytest.mark.asyncio
async def test_an_expectation_that_is_not_met_fails_with_the_line(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    first = await scripted.complete(request())
    with pytest.raises(ModelError) as raised:
        await scripted.complete(request(*answered(first, "all\ngood")))
    assert raised.value.reason == "script"
    assert str(raised.value) == (
        f"{tmp_path / 's.yaml'}:5: expected `AttributeError` in the last results of task"
        " `filter`, which were: all good all good"
    )


@pytest.mark.asyncio
async def test_an_expectation_looks_at_the_last_message_alone(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    use = ToolUse(id="t1", name="Read", input={})
    # The word is in an older message, in a call and in the task: none of them is a result.
    history = (
        Message(role="assistant", blocks=(TextBlock(text="AttributeError"), use)),
        user(ToolResult(tool_use_id="t1", content="fine")),
    )
    with pytest.raises(ModelError, match="expected `AttributeError`"):
        await scripted.complete(request(*history))


@pytest.mark.asyncio
async def test_an_expectation_of_the_first_turn_looks_at_the_task(tmp_path: Path) -> None:
    reply = await model(tmp_path).complete(request(task="anything"))
    assert reply.message.text == "yes"


@pytest.mark.asyncio
async def test_more_turns_than_the_script_has_are_an_error(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    first = await scripted.complete(request(attempt=2))
    with pytest.raises(ModelError) as raised:
        await scripted.complete(request(first.message, user(TextBlock(text="go on")), attempt=2))
    assert raised.value.reason == "script"
    assert str(raised.value) == (
        f"script exhausted: no turn 2 for task `filter` (attempt 2) in {tmp_path / 's.yaml'}"
    )


@pytest.mark.asyncio
async def test_a_task_without_turns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"script exhausted: no turn 1 for task `other`"):
        await model(tmp_path).complete(request(task="other"))


@pytest.mark.asyncio
async def test_a_delay_is_waited_for_and_can_be_cancelled(tmp_path: Path) -> None:
    with anyio.move_on_after(0) as scope:
        await model(tmp_path).complete(request(task="slow"))
    assert scope.cancelled_caught


@pytest.mark.asyncio
async def test_what_was_sent_before_is_read_and_what_is_new_is_written(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    first = await scripted.complete(request())
    assert first.usage.cache_read_tokens == 0
    assert first.usage.cache_write_5m_tokens > 0
    assert first.usage.output_tokens > 0
    assert first.usage.calls == 1
    assert (first.usage.input_tokens, first.usage.cache_write_1h_tokens) == (0, 0)

    results = "AttributeError " + "x" * 4_000
    second = await scripted.complete(request(*answered(first, results)))
    assert second.usage.cache_read_tokens == first.usage.cache_write_5m_tokens
    # Two results of 4,015 characters are new, at four a token, and the reply with its frame.
    assert 2_007 <= second.usage.cache_write_5m_tokens <= 2_250


@pytest.mark.asyncio
async def test_the_estimate_grows_with_the_stable_prefix(tmp_path: Path) -> None:
    short, long = request(), request().model_copy(update={"system": ("x" * 40_000,)})
    scripted = model(tmp_path)
    small = (await scripted.complete(short)).usage.cache_write_5m_tokens
    large = (await scripted.complete(long)).usage.cache_write_5m_tokens
    assert 9_900 <= large - small <= 10_000


@pytest.mark.asyncio
async def test_dollars_are_by_the_price_table(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    usage = (await scripted.complete(request())).usage
    written, said = usage.cache_write_5m_tokens, usage.output_tokens
    assert usage.usd == pytest.approx((written * 5 + said * 20) / 1_000_000)
    unknown = await scripted.complete(request(name="tiny-local"))
    assert unknown.usage.usd == 0
    assert unknown.usage.output_tokens == said


@pytest.mark.asyncio
async def test_usage_that_the_script_gives_holds(tmp_path: Path) -> None:
    scripted = model(tmp_path)
    first = await scripted.complete(request(task="priced"))
    assert (first.usage.input_tokens, first.usage.output_tokens) == (1_000_000, 0)
    assert first.usage.usd == pytest.approx(4)
    later = request(first.message, user(TextBlock(text="on")), task="priced")
    assert (await scripted.complete(later)).usage.usd == 9
