"""Replay: the same answers for the same content, and the exact place where a run differs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import anyio
import pytest

from orchestrator.core.usage import Usage
from orchestrator.messages import Reply, Request
from orchestrator.models.exchanges import Exchange, Head, line_of, prefix_of, read_recording
from orchestrator.models.recording import RecordingModel
from orchestrator.models.replay import ReplayModel
from orchestrator.models.scripted import ScriptedModel, load_script
from orchestrator.ports import Model, ModelError
from tests.agent.rig import results, rig
from tests.models.conversing import READ, Numbered, opening, reply, then

PATH = "run.rec"


async def recording(folder: Path, inner: Model | None = None) -> RecordingModel:
    return await RecordingModel.open(inner or Numbered(), folder / PATH, goes_on=True)


def replay(folder: Path) -> ReplayModel:
    return ReplayModel(read_recording(folder / PATH), Path(PATH))


async def converse(model: Model, request: Request, *contents: str) -> list[Reply]:
    """Take turns: each content is what the calls of a reply gave back."""
    replies = [await model.complete(request)]
    for content in contents:
        request = then(request, replies[-1], content)
        replies.append(await model.complete(request))
    return replies


async def first_difference(folder: Path, request: Request, *contents: str) -> str:
    """What the replay says of a conversation that was recorded otherwise."""
    model = replay(folder)
    with pytest.raises(ModelError) as raised:
        await converse(model, request, *contents)
    assert raised.value.reason == "script"
    assert model.first_difference is not None
    assert str(raised.value) == f"the run differs from its recording: {model.first_difference}"
    assert "\n" not in model.first_difference
    return model.first_difference


@pytest.mark.asyncio
async def test_the_same_requests_get_the_same_answers(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    replies = await converse(model, opening(), "one", "two")
    await model.close()
    replayed = replay(tmp_path)
    assert await converse(replayed, opening(), "one", "two") == replies
    assert replayed.first_difference is None
    assert [item.usage.input_tokens for item in replies] == [10, 20, 30]


@pytest.mark.asyncio
async def test_what_changes_from_run_to_run_is_no_difference(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    replies = await converse(
        model,
        opening("Mend it:\nRan 3 tests in 0.003s\nat 2026-11-30T15:07:00Z"),
        'File "/tmp/tmpab12_9zx/a.py", line 3 in 12ms\nHEAD is now at a1b2c3d pid 17',
    )
    await model.close()
    again = await converse(
        replay(tmp_path),
        opening("Mend it:\nRan 3 tests in 1.250s\nat 2027-01-02T03:04:05Z"),
        'File "/home/x/trees/r.1/a.py", line 3 in 9 ms\nHEAD is now at 0f9e8d7 pid 4711',
    )
    assert again == replies


@pytest.mark.asyncio
async def test_files_of_one_checkout_may_be_listed_in_any_order(tmp_path: Path) -> None:
    model = await recording(tmp_path, Numbered(tool="Glob"))
    replies = await converse(model, opening(), "b.py\na.py\nc.py", "a.py")
    await model.close()
    again = await converse(replay(tmp_path), opening(), "c.py\na.py\nb.py", "a.py")
    assert again == replies
    said = await first_difference(tmp_path, opening(), "c.py\nd.py\na.py", "a.py")
    assert said.endswith("line 2: recorded `b.py`, now `c.py`")


@pytest.mark.asyncio
async def test_other_results_have_an_order(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening(), "b\na")
    await model.close()
    said = await first_difference(tmp_path, opening(), "a\nb")
    assert said.endswith("line 1: recorded `b`, now `a`")


@pytest.mark.asyncio
async def test_agents_may_ask_in_another_order(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    tasks = [opening(f"Do {name}.", task=name) for name in "abc"]
    asked = {request.task: await converse(model, request, "x") for request in tasks}
    await model.close()
    replayed = replay(tmp_path)
    got: dict[str, list[Reply]] = {}

    async def agent(request: Request) -> None:
        got[request.task] = await converse(replayed, request, "x")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for request in reversed(tasks):
                group.start_soon(agent, request)
    assert got == asked


@pytest.mark.asyncio
async def test_who_asks_is_no_part_of_the_content(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    (said,) = await converse(model, opening())
    await model.close()
    other = opening(task="other", attempt=3).model_copy(update={"max_tokens": 5})
    assert await replay(tmp_path).complete(other) == said


@pytest.mark.asyncio
async def test_identical_requests_get_their_answers_in_recorded_order(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    said = [await model.complete(opening()) for _ in range(3)]
    await model.close()
    replayed = replay(tmp_path)
    assert [await replayed.complete(opening()) for _ in range(4)] == [*said, said[-1]]


@pytest.mark.asyncio
async def test_of_identical_requests_each_attempt_gets_its_own_answer(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    said = {task: await model.complete(opening(task=task)) for task in ("a", "b", "c")}
    await model.close()
    replayed = replay(tmp_path)
    assert {task: await replayed.complete(opening(task=task)) for task in ("c", "a", "b")} == said


@pytest.mark.parametrize("crashed", [False, True], ids=["lost in the same process", "resumed"])
@pytest.mark.asyncio
async def test_of_an_attempt_that_was_lost_the_last_try_counts(
    tmp_path: Path, crashed: bool
) -> None:
    inner = Numbered()
    model = await recording(tmp_path, inner)
    await converse(model, opening(), "lost")
    if crashed:
        await model.close()
        model = await recording(tmp_path, inner)
    said = await converse(model, opening(), "kept", "to the end")
    await model.close()
    assert await converse(replay(tmp_path), opening(), "kept", "to the end") == said


@pytest.mark.asyncio
async def test_a_recorded_error_is_raised_again(tmp_path: Path) -> None:
    error = ModelError("provider", "five in a row", usage=Usage(output_tokens=9, usd=0.5))
    model = await recording(tmp_path, Numbered({1: error}))
    with pytest.raises(ModelError):
        await model.complete(opening())
    await model.close()
    replayed = replay(tmp_path)
    with pytest.raises(ModelError) as raised:
        await replayed.complete(opening())
    assert (raised.value.reason, str(raised.value)) == ("provider", "five in a row")
    assert raised.value.usage == error.usage
    assert replayed.first_difference is None


CHANGED = {
    "prompt": (
        opening("# Task\nAdd a --status filter."),
        (
            "turn 1: message 1, block 1 (a text), line 2: recorded `Add a filter.`,"
            " now `Add a --status filter.`"
        ),
    ),
    "one more line": (
        opening("# Task\nAdd a filter.\nQuickly."),
        "turn 1: message 1, block 1 (a text), line 3: recorded `no such line`, now `Quickly.`",
    ),
    "indentation": (
        opening("# Task\n Add a filter."),
        (
            "turn 1: message 1, block 1 (a text), line 2: recorded `Add a filter.`,"
            " now ` Add a filter.`"
        ),
    ),
    "system": (
        opening(system=("You write.\nBe brief.", "Files: a.py")),
        "turn 1: system block 1: line 2: recorded `Be short.`, now `Be brief.`",
    ),
    "a system block more": (
        opening(system=("You write.\nBe short.", "Files: a.py", "# Rules")),
        "turn 1: system block 3: recorded `nothing`, now `# Rules`",
    ),
    "a tool's text": (
        opening(tools=(READ.model_copy(update={"description": "Reads it."}),)),
        (
            'turn 1: tool 1: line 2: recorded ` "description": "Reads a file.",`,'
            ' now ` "description": "Reads it.",`'
        ),
    ),
    "no tools": (opening(tools=()), "turn 1: tool 1: "),
    "model": (
        opening(model="model-b"),
        "turn 1: the model: recorded `model-a`, now `model-b`",
    ),
}


@pytest.mark.parametrize(("request_now", "expected"), CHANGED.values(), ids=CHANGED.keys())
@pytest.mark.asyncio
async def test_a_changed_prompt_is_located_exactly(
    tmp_path: Path, request_now: Request, expected: str
) -> None:
    model = await recording(tmp_path)
    await converse(model, opening(), "one", "two")
    await model.close()
    said = await first_difference(tmp_path, request_now)
    assert said.startswith(f"{PATH}: task `filter`, attempt 1, {expected}")


@pytest.mark.asyncio
async def test_another_result_is_located_by_turn_message_block_and_line(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening(), "in 0.1s\n1 failed\n3 passed", "two")
    await model.close()
    assert await first_difference(tmp_path, opening(), "in 0.7s\n2 failed\n3 passed") == (
        f"{PATH}: task `filter`, attempt 1, turn 2: message 3, block 1 (a tool result), line 2:"
        " recorded `1 failed`, now `2 failed`"
    )


@pytest.mark.asyncio
async def test_a_prefix_that_changes_on_the_way_is_seen(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening(), "one")
    await model.close()
    replayed = replay(tmp_path)
    said = await replayed.complete(opening())
    changed = then(opening(system=("You write.", "Files: a.py")), said, "one")
    with pytest.raises(ModelError, match="turn 2: system block 1: line 2: recorded `Be short"):
        await replayed.complete(changed)


@pytest.mark.asyncio
async def test_only_the_first_difference_is_remembered(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening())
    await model.close()
    replayed = replay(tmp_path)
    for text in ("first", "second"):
        with pytest.raises(ModelError, match=f"now `{text}`"):
            await replayed.complete(opening(text))
    assert "now `first`" in str(replayed.first_difference)
    assert await replayed.complete(opening()) == reply(1)


@pytest.mark.asyncio
async def test_a_conversation_that_goes_on_longer_is_said_to(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening(), "one")
    await model.close()
    assert await first_difference(tmp_path, opening(), "one", "two") == (
        f"{PATH}: task `filter`, attempt 1, turn 3: nothing was recorded after turn 2, of which"
        " all is the same"
    )


@pytest.mark.asyncio
async def test_an_attempt_that_was_not_recorded_is_said_to_be_none(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening())
    await model.close()
    assert await first_difference(tmp_path, opening("new", attempt=2)) == (
        f"{PATH}: task `filter`, attempt 2, turn 1: nothing was recorded of this attempt"
    )


@pytest.mark.asyncio
async def test_long_and_hostile_lines_are_shown_short_and_harmless(tmp_path: Path) -> None:
    model = await recording(tmp_path)
    await converse(model, opening("y" * 5_000 + "\x1b[31m old \u202e" + "z" * 5_000))
    await model.close()
    said = await first_difference(tmp_path, opening("y" * 5_000 + "\x1b[31m new " + "z" * 5_000))
    assert "recorded `..." in said
    assert "\\x1b[31m old \\u202e" in said
    assert "\\x1b[31m new z" in said
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.asyncio
async def test_long_conversations_are_recorded_and_replayed_fast(tmp_path: Path) -> None:
    contents = [f"{number} " + "word " * 400 for number in range(150)]
    model = await recording(tmp_path)
    replies = await converse(model, opening(), *contents)
    await model.close()
    assert (tmp_path / PATH).stat().st_size < 2_000_000
    assert await converse(replay(tmp_path), opening(), *contents) == replies


def long_recording(path: Path, turns: int) -> Request:
    """A conversation in which each turn asks again; its last request."""
    request = opening(system=(), tools=())
    said = reply(1)
    prefix = prefix_of(request)
    with path.open("wb") as file:
        file.write(line_of(Head()))
        file.write(line_of(prefix))
        for number in range(1, turns + 1):
            messages = request.messages[-1:] if number > 1 else request.messages
            exchange = Exchange(
                number=number,
                task=request.task,
                attempt=request.attempt,
                model=request.model,
                prefix=prefix.digest,
                after=number - 1 or None,
                messages=messages,
                reply=said,
            )
            file.write(line_of(exchange))
            if number < turns:
                request = then(request, said, "x")
    return request


@pytest.mark.asyncio
async def test_the_memory_of_a_long_conversation_grows_with_its_length(tmp_path: Path) -> None:
    turns = 2_000
    last = long_recording(tmp_path / PATH, turns)
    tracemalloc.start()
    try:
        replayed = replay(tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All its requests in full would hold 4 million references, and as many digests of beginnings.
    assert most < 40_000_000
    assert await replayed.complete(last) == reply(1)
    with pytest.raises(ModelError, match=rf"nothing was recorded after turn {turns}"):
        await replayed.complete(then(last, reply(1), "x"))


SCRIPT = """\
tasks:
  filter:
    - say: I look.
      calls:
        - Bash: {command: "date +%s.%N; date; echo Ran 3 tests in 0.$RANDOM\\\\s; mktemp -u; pwd"}
        - Read: {file_path: a.txt}
    - calls: [{Edit: {file_path: a.txt, old_string: two, new_string: "2"}}]
    - calls: [{SubmitChange: {summary: done}}]
"""


@pytest.mark.asyncio
async def test_an_agents_attempt_is_replayed_to_the_same_tree(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    model = await recording(tmp_path, ScriptedModel(load_script(script)))
    (tmp_path / "one").mkdir()
    async with rig(tmp_path / "one") as attempt:
        first = await attempt.run(model)
        output = results(attempt.written().entries[2].message)[0].content
    await model.close()

    replayed = replay(tmp_path)
    (tmp_path / "two").mkdir()
    async with rig(tmp_path / "two") as attempt:
        again = await attempt.run(replayed)
        assert results(attempt.written().entries[2].message)[0].content != output
        assert await attempt.content("a.txt") == "one\n2\n"
    assert replayed.first_difference is None
    assert (first.accepted, again.accepted) == (True, True)
    assert again.usage.model_copy(update={"seconds": 0}) == first.usage.model_copy(
        update={"seconds": 0}
    )


@pytest.mark.asyncio
async def test_an_agents_attempt_on_another_tree_says_where_it_differs(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    model = await recording(tmp_path, ScriptedModel(load_script(script)))
    (tmp_path / "one").mkdir()
    async with rig(tmp_path / "one") as attempt:
        await attempt.run(model)
    await model.close()

    replayed = replay(tmp_path)
    (tmp_path / "two").mkdir()
    async with rig(tmp_path / "two", {"a.txt": "one\nzwei\n"}) as attempt:
        ended = await attempt.run(replayed)
    assert (ended.accepted, ended.reason) == (False, "script")
    assert replayed.first_difference is not None
    assert replayed.first_difference in ended.evidence
    assert "turn 2: message 3, block 2 (a tool result), line 2:" in replayed.first_difference
    assert "two`, now `" in replayed.first_difference
    assert replayed.first_difference.endswith("zwei`")
