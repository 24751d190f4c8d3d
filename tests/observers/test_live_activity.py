"""What running agents do, read from transcripts while they are being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from orchestrator.agent.transcript import Entry, Transcript
from orchestrator.core.usage import Usage
from orchestrator.messages import Message, Request, TextBlock, ToolResult, ToolUse
from orchestrator.observers import activity
from orchestrator.observers.activity import Activities, Activity
from orchestrator.observers.board import Row
from orchestrator.state_folder import RunFolder
from tests.observers.story import ESCAPES, usage

REQUEST = Request(
    task="filter", attempt=1, model="m", max_tokens=1, tools=(), system=("s",), messages=()
)


def row(started: int = 3, attempt: int = 1, *, running: bool = True) -> Row:
    return Row(
        task="filter",
        index=0,
        status="running",
        role="implementer",
        attempt=attempt,
        usage=Usage(),
        text="",
        since=1.0 if running else None,
        started=started,
    )


def said(*blocks: TextBlock | ToolUse) -> Entry:
    return Entry(message=Message(role="assistant", blocks=blocks), usage=usage())


def call(name: str, **arguments: JsonValue) -> ToolUse:
    return ToolUse(id="1", name=name, input=arguments)


def result(text: str = "ok") -> Entry:
    blocks = (ToolResult(tool_use_id="1", content=text),)
    return Entry(message=Message(role="user", blocks=blocks))


async def begun(folder: RunFolder, started: int = 3) -> Transcript:
    transcript = await Transcript.create(folder.transcript("filter", 1))
    await transcript.begin(REQUEST, started)
    return transcript


@pytest.mark.asyncio
async def test_the_last_call_and_the_cost_so_far(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    activities = Activities(folder)
    assert activities.look([row()]) == {"filter": Activity()}
    transcript = await begun(folder)
    await transcript.append(said(call("Edit", old_string="a", file_path="x.py")))
    assert activities.look([row()]) == {"filter": Activity("Edit x.py", False, usage())}
    await transcript.append(result())
    assert activities.look([row()]) == {"filter": Activity("Edit x.py", True, usage())}
    await transcript.append(said(call("Read", file_path="a"), call("Grep", pattern="b")))
    twice = usage() + usage()
    assert activities.look([row()]) == {"filter": Activity("Read a (+1)", False, twice)}
    await transcript.append(result(), said(TextBlock(text="I am\nlost")))
    assert activities.look([row()])["filter"].text == "I am lost"
    assert activities.look([row(running=False)]) == {}
    await transcript.close()


@pytest.mark.asyncio
async def test_Z11_what_an_agent_calls_cannot_drive_the_terminal(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    transcript = await begun(folder)
    await transcript.append(said(call("Bash", command=f"echo '{ESCAPES}'\nrm x")))
    await transcript.close()
    text = Activities(folder).look([row()])["filter"].text
    assert text.startswith(r"Bash echo '\x1b]52;c;ZXZpbA==\x07\x1b[2Jclear \x9b31m \u202egnp' rm x")


@pytest.mark.asyncio
async def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    await (await begun(folder)).close()
    activities = Activities(folder)
    line = said(call("Read", file_path="x.py")).model_dump_json().encode() + b"\n"
    with folder.transcript("filter", 1).open("ab", buffering=0) as file:
        for byte in line[:-1]:
            file.write(bytes([byte]))
            assert activities.look([row()])["filter"].text == ""
        file.write(line[-1:])
        assert activities.look([row()])["filter"].text == "Read x.py"


@pytest.mark.asyncio
async def test_a_line_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    await (await begun(folder)).close()
    good = said(call("Read", file_path="x.py")).model_dump_json().encode()
    with folder.transcript("filter", 1).open("ab") as file:
        file.write(b'{"type": "message", "mess\n\xff\xfe\n[1]\n\n' + good + b"\n{")
    assert Activities(folder).look([row()])["filter"].text == "Read x.py"


@pytest.mark.asyncio
async def test_a_long_transcript_is_caught_up_with_in_pieces(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    transcript = await begun(folder)
    long = "x" * activity.CHUNK_BYTES
    await transcript.append(said(call("Write", content=long, file_path="big")), result(long))
    await transcript.append(said(call("Read", file_path="end")))
    await transcript.close()
    activities = Activities(folder)
    looks = [activities.look([row()])["filter"].text for _ in range(3)]
    assert looks == ["", "Write big", "Read end"]


@pytest.mark.asyncio
async def test_the_file_of_a_lost_try_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    lost = await begun(folder, started=3)
    await lost.append(said(call("Read", file_path="old")))
    await lost.close()
    activities = Activities(folder)
    assert activities.look([row(started=9)]) == {"filter": Activity()}
    again = await begun(folder, started=9)
    assert activities.look([row(started=9)]) == {"filter": Activity()}
    await again.append(said(call("Read", file_path="new")))
    await again.close()
    assert activities.look([row(started=9)])["filter"].text == "Read new"
