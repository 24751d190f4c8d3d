"""The recording: what is in the file, when, for whom, and what a crash or a full disk leaves."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.core.usage import Usage
from orchestrator.errors import DiskFullError, InfrastructureError, UsageError
from orchestrator.messages import Message, OpaqueBlock, Reply, Request, ToolUse
from orchestrator.models.contents import CONVERSATIONS_MAX
from orchestrator.models.exchanges import (
    FILE_BYTES_MAX,
    Recorded,
    check_recording,
    read_recording,
)
from orchestrator.models.recording import RecordingModel
from orchestrator.ports import ModelError, Spend
from tests.models.conversing import Numbered, opening, reply, then


async def recorded(path: Path, *, turns: int = 3) -> list[Request]:
    """Record one conversation; its requests."""
    model = await RecordingModel.open(Numbered(), path)
    request, requests = opening(), list[Request]()
    for number in range(turns):
        requests.append(request)
        request = then(request, await model.complete(request), f"line {number}")
    await model.close()
    return requests


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def contents(items: tuple[Recorded, ...]) -> list[tuple[object, ...]]:
    """What is asked, without what is no part of the content."""
    return [
        (item.request.model, item.request.tools, item.request.system, item.request.messages)
        for item in items
    ]


@pytest.mark.asyncio
async def test_what_was_asked_and_answered_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    requests = await recorded(path)
    items = read_recording(path)
    assert contents(items) == [
        (request.model, request.tools, request.system, request.messages) for request in requests
    ]
    assert [item.exchange.reply for item in items] == [reply(1), reply(2), reply(3)]
    assert [item.conversation for item in items] == [("filter", 1)] * 3


@pytest.mark.asyncio
async def test_nothing_is_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    await recorded(path, turns=4)
    assert [line["type"] for line in lines(path)] == ["recording", "prefix", *["exchange"] * 4]
    exchanges = lines(path)[2:]
    assert [len(line["messages"]) for line in exchanges] == [1, 1, 1, 1]  # type: ignore[arg-type]
    assert [line.get("after") for line in exchanges] == [None, 1, 2, 3]
    text = path.read_text(encoding="utf-8")
    assert text.count("You write.") == text.count("Add a filter.") == text.count('"line 0"') == 1


@pytest.mark.asyncio
async def test_a_conversation_that_was_forgotten_goes_on_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    request = then(opening(), await model.complete(opening()), "one")
    for number in range(CONVERSATIONS_MAX):
        await model.complete(opening(task=f"t{number}"))
    await model.complete(request)
    await model.complete(then(request, reply(CONVERSATIONS_MAX + 2), "two"))
    await model.close()
    *_, whole, last = lines(path)
    assert (whole.get("after"), len(whole["messages"])) == (None, 3)  # type: ignore[arg-type]
    assert (last.get("after"), len(last["messages"])) == (whole["number"], 1)  # type: ignore[arg-type]
    assert read_recording(path)[-2].request.messages == request.messages


@pytest.mark.asyncio
async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    path.touch(0o644)
    await recorded(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.asyncio
async def test_an_answer_is_in_the_file_before_it_is_given_on(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    given = await model.complete(opening())
    assert read_recording(path)[-1].exchange.reply == given
    await model.close()


@pytest.mark.asyncio
async def test_conversations_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    asked: list[Request] = []

    async def converse(task: str) -> None:
        request = opening(task=task)
        for number in range(5):
            asked.append(request)
            request = then(request, await model.complete(request), f"{task} {number}")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for task in "abcd":
                group.start_soon(converse, task)
    await model.close()
    items = read_recording(path)
    assert len(items) == 20
    for task in "abcd":
        mine = [item.request.messages for item in items if item.exchange.task == task]
        assert mine == [request.messages for request in asked if request.task == task]


@pytest.mark.asyncio
async def test_a_reply_that_the_agent_mends_before_it_sends_it_back(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    first = await model.complete(opening())
    mended = Message(role="assistant", blocks=first.message.blocks[1:])
    request = then(opening(), first.model_copy(update={"message": mended}), "x")
    await model.complete(request)
    await model.close()
    assert read_recording(path)[1].request.messages == request.messages


@pytest.mark.asyncio
async def test_A25_halves_of_characters_are_kept_as_they_came(tmp_path: Path) -> None:
    odd = Reply(
        message=Message(
            role="assistant",
            blocks=(
                OpaqueBlock(raw={"type": "thinking", "thinking": "\ud83d"}),
                ToolUse(id="c", name="Read", input={"file_path": "\udc00"}),
            ),
        ),
        stop_reason="tool_use",
        usage=Usage(calls=1),
        model="m",
    )

    class Odd:
        async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
            return odd

    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Odd(), path)
    await model.complete(opening("h\u00e9 \u2028 \U0001f600"))
    await model.close()
    (item,) = read_recording(path)
    assert item.exchange.reply == odd
    assert item.request.messages[0].text == "h\u00e9 \u2028 \U0001f600"


@pytest.mark.asyncio
async def test_errors_are_answers_too_but_a_pause_is_none(tmp_path: Path) -> None:
    errors = {
        1: ModelError("pause", "no credit", until=5.0),
        2: ModelError("provider", "five in a row", usage=Usage(output_tokens=9, usd=0.5)),
    }
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(errors), path)
    for error in errors.values():
        with pytest.raises(ModelError) as raised:
            await model.complete(opening())
        assert raised.value is error
    await model.close()
    (item,) = read_recording(path)
    kept = item.exchange.error
    assert kept is not None
    assert (kept.reason, kept.message, kept.usage.usd) == ("provider", "five in a row", 0.5)


@pytest.mark.asyncio
async def test_a_recording_goes_on_after_a_crash_at_any_byte(tmp_path: Path) -> None:
    path, cut = tmp_path / "run.rec", tmp_path / "cut.rec"
    await recorded(path, turns=2)
    data = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == 10]
    for length in sorted({0, 1, *ends, *(end - 1 for end in ends), *range(5, len(data), 97)}):
        cut.write_bytes(data[:length])
        model = await RecordingModel.open(Numbered(), cut, goes_on=True)
        await model.complete(opening(task="later"))
        await model.close()
        whole = max(sum(end <= length for end in ends) - 2, 0)
        items = read_recording(cut)
        assert [item.exchange.task for item in items] == ["filter"] * whole + ["later"]
        assert [item.exchange.number for item in items] == list(range(1, whole + 2))


@pytest.mark.asyncio
async def test_a_new_recording_takes_no_file_that_holds_something(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    await recorded(path)
    before = path.read_bytes()
    with pytest.raises(UsageError) as raised:
        await RecordingModel.open(Numbered(), path)
    assert str(raised.value) == (f"{path}: holds something already; name a new file, or remove it")
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["my notes", "my notes\n", "{}\n", '{"type": "exchange"}\n'])
@pytest.mark.asyncio
async def test_somebodys_other_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        await RecordingModel.open(Numbered(), path, goes_on=True)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.asyncio
async def test_two_runs_cannot_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    with pytest.raises(UsageError, match="another run records into it"):
        await RecordingModel.open(Numbered(), path, goes_on=True)
    await model.close()
    await (await RecordingModel.open(Numbered(), path, goes_on=True)).close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to(path.parent / "no" / "where"), "No such file"),
        (os.mkfifo, "is no regular file"),
    ],
    ids=["folder", "nowhere", "fifo"],
)
@pytest.mark.asyncio
async def test_what_is_no_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(UsageError, match=why) as raised:
        await RecordingModel.open(Numbered(), path)
    assert "\n" not in str(raised.value)


@pytest.mark.asyncio
async def test_a_full_disk_is_said_as_one() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    model = RecordingModel(Numbered(), full, os.open(full, os.O_WRONLY), 0)
    with pytest.raises(DiskFullError, match=os.strerror(errno.ENOSPC)):
        await model.complete(opening())
    await model.close()


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_written_any_more_loses_the_attempt(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    path.touch()
    model = RecordingModel(Numbered(), path, os.open(path, os.O_RDONLY), 0)
    with pytest.raises(InfrastructureError, match="the recording cannot be written"):
        await model.complete(opening())
    await model.close()


@pytest.mark.asyncio
async def test_an_answer_that_is_being_written_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    text = "x" * 200_000
    for number in range(8):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(model.complete, opening(text, task=f"t{number}"))
                for _ in range(number):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    await model.complete(opening(task="last"))
    await model.close()
    assert read_recording(path)[-1].exchange.task == "last"


@pytest.mark.asyncio
async def test_an_answer_that_did_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    model = await RecordingModel.open(Numbered(), path)
    await model.complete(opening(task="first"))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(InfrastructureError, match="the recording cannot be written"):
            await model.complete(opening("x" * 10_000, task="second"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    await model.complete(opening(task="third"))
    await model.close()
    items = read_recording(path)
    assert [item.exchange.task for item in items] == ["first", "third"]


DAMAGE = {
    "a line that is no JSON": (3, b"{oops}\n", "is no line of a recording"),
    "a line that is no UTF-8": (3, b'{"type": "\xff"}\n', "no UTF-8"),
    "another kind of line": (3, b'{"type": "event"}\n', "is no line of a recording"),
    "too deep": (3, b"[" * 100_000 + b"\n", "nested too deeply"),
    "another version": (1, b'{"type": "recording", "version": 2}\n', "has version 2"),
    "no head": (1, b"", "head in the first line"),
    "no prefix": (2, b"", "prefix of this exchange is missing"),
    "an exchange that is gone": (3, b"", "exchange 2 is out of order"),
    "an empty line": (3, b"\n", "is no line of a recording"),
}


@pytest.mark.parametrize(("number", "line", "why"), DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.asyncio
async def test_a_damaged_file_is_refused_with_the_place(
    tmp_path: Path, number: int, line: bytes, why: str
) -> None:
    path = tmp_path / "run.rec"
    await recorded(path)
    whole = path.read_bytes().splitlines(keepends=True)
    whole[number - 1] = line
    path.write_bytes(b"".join(whole))
    with pytest.raises(UsageError) as raised:
        read_recording(path)
    assert str(raised.value).startswith(f"{path}:{number}: ")
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("head", ['{"type": "recording", "version": 1}', ""])
def test_nothing_is_no_recording(tmp_path: Path, head: str) -> None:
    path = tmp_path / "run.rec"
    path.write_text(head, encoding="utf-8")
    with pytest.raises(UsageError, match="is empty"):
        read_recording(path)
    with pytest.raises(UsageError, match=r"No such file.*--record"):
        read_recording(tmp_path / "none.rec")
    with pytest.raises(UsageError, match="Is a directory"):
        read_recording(tmp_path)


@pytest.mark.asyncio
async def test_a_recording_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    await recorded(path)
    with path.open("ab") as file:
        file.write(b"{damage}\n")
    check_recording(path)
    with pytest.raises(UsageError, match="is no line of a recording"):
        read_recording(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ('{"type": "recording", "version": 1}', "is empty"),
        ("my notes\n", ":1: is no line of a recording"),
        ('{"type": "recording", "version": 2}\n', ":1: has version 2"),
        ('{"type": "prefix", "digest": "", "tools": [], "system": []}\n', ":1: .*head"),
    ],
)
def test_what_is_no_recording_by_its_first_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "run.rec"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=why):
        check_recording(path)


@pytest.mark.parametrize("look", [check_recording, read_recording])
def test_what_cannot_be_a_recording_is_not_read(
    tmp_path: Path, look: Callable[[Path], object]
) -> None:
    path = tmp_path / "run.rec"
    with pytest.raises(UsageError, match="No such file"):
        look(path)
    path.touch()
    os.truncate(path, FILE_BYTES_MAX + 1)
    with pytest.raises(UsageError, match="is larger than 256 MiB, more than can be replayed"):
        look(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="is no regular file"):
        look(path)


def written(path: Path, *changes: dict[str, object]) -> Path:
    """A recording of exchanges that differ from a plain one by what is said."""
    exchange = {"type": "exchange", "task": "a", "attempt": 1, "model": "m", "prefix": "p"}
    failed = {"messages": [], "error": {"reason": "provider", "message": "x"}}
    head = {"type": "recording", "version": 1}
    prefix = {"type": "prefix", "digest": "p", "tools": [], "system": []}
    numbered = [
        {**exchange, **failed, "number": number, **change}
        for number, change in enumerate(changes, start=1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, prefix, *numbered)), "utf-8")
    return path


def test_nothing_goes_on_from_another_attempt(tmp_path: Path) -> None:
    path = written(tmp_path / "run.rec", {}, {"after": 1, "replied": False, "attempt": 2})
    with pytest.raises(UsageError, match="goes on from an exchange of another attempt"):
        read_recording(path)


def test_a_prefix_is_what_it_says_not_what_it_is_called(tmp_path: Path) -> None:
    (item,) = read_recording(written(tmp_path / "run.rec", {}))
    assert item.prefix.digest != "p"


def test_a_goes_on_from_nowhere_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "run.rec", {"after": 7})
    with pytest.raises(UsageError, match="goes on from an exchange that is missing"):
        read_recording(path)
