"""`logs`: a conversation as a person reads it, made harmless."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from orchestrator.agent.transcript import Entry, Transcript
from orchestrator.core.usage import Usage
from orchestrator.journal import Journal, RunLog
from orchestrator.messages import Message, OpaqueBlock, Request, TextBlock, ToolResult, ToolUse
from orchestrator.state_folder import RunFolder, StateFolder
from tests.cli.program import command, environment, orchestrate_each, record
from tests.observers.story import ESCAPES, RUN, beginning
from tests.support.repositories import make_repository

REQUEST = Request(
    task="filter",
    attempt=1,
    model="scripted",
    max_tokens=100,
    tools=(),
    system=("You are",),
    messages=(),
)
SAID = Entry(
    message=Message(
        role="assistant",
        blocks=(
            OpaqueBlock(raw={"type": "thinking", "thinking": "secret thoughts"}),
            TextBlock(text=f"I will read. {ESCAPES}"),
            ToolUse(id="c1", name="Read", input={"file_path": "a.py"}),
        ),
    ),
    usage=Usage(input_tokens=1_200, output_tokens=34),
    stop_reason="tool_use",
)
ANSWERED = Entry(
    message=Message(
        role="user",
        blocks=(
            ToolResult(tool_use_id="c1", content="\n".join(f"line {n}" for n in range(1, 101))),
        ),
    )
)
LATER = Entry(message=Message(role="assistant", blocks=(TextBlock(text="the later word"),)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})


async def write(folder: RunFolder, attempt: int, *entries: Entry) -> Transcript:
    transcript = await Transcript.create(folder.transcript("filter", attempt))
    await transcript.begin(REQUEST)
    await transcript.append(*entries)
    return transcript


async def written(folder: RunFolder, attempt: int, *entries: Entry) -> None:
    await (await write(folder, attempt, *entries)).close()


def test_a_conversation_is_readable_and_harmless(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    anyio.run(written, folder, 1, SAID, ANSWERED)
    result, full = orchestrate_each(
        ["logs", "kite", "filter"],
        ["logs", RUN, "filter", "--full"],
        cwd=repository,
        home=home,
    )
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "filter #1, scripted, tools:"
    assert "--- agent (1,234 tokens)" in lines
    assert "[thinking]" in lines
    assert '> Read {"file_path": "a.py"}' in lines
    assert "| line 30" in lines
    assert "| line 31" not in lines
    assert "| (70 more lines; --full)" in lines
    assert "\x1b" not in result.out
    assert "I will read. \\x1b]52;c;" in result.out
    assert "| line 100" in full.out.splitlines()


def test_the_newest_attempt_is_shown_or_the_named_one(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    anyio.run(written, folder, 1, SAID)
    anyio.run(written, folder, 10, LATER)
    newest, first, missing, unknown = orchestrate_each(
        ["logs", RUN, "filter"],
        ["logs", RUN, "filter", "--attempt", "1"],
        ["logs", RUN, "filter", "--attempt", "3"],
        ["logs", RUN, "nosuch"],
        cwd=repository,
        home=home,
    )
    assert "the later word" in newest.out
    assert "I will read" in first.out
    for refused in (missing, unknown):
        assert (refused.code, refused.out) == (2, "")
    assert "there are: filter" in unknown.err


def test_following_ends_when_the_run_does(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    state = StateFolder.for_repository(repository / ".git", home)
    transcript = anyio.run(write, folder, 1, SAID)
    live = RunLog.acquire(folder, Journal.open(state.database))
    with subprocess.Popen(
        command("logs", RUN, "filter", "-f"),
        cwd=repository,
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert any("> Read" in line for line in iter(child.stdout.readline, ""))
        anyio.run(transcript.append, LATER)
        assert any("the later word" in line for line in iter(child.stdout.readline, ""))
        assert child.poll() is None
        live.close()
        assert child.wait(30) == 0
    anyio.run(transcript.close)
