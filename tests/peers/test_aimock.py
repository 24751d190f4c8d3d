"""The adapter against a mock server of somebody else: `@copilotkit/aimock`, from npm.

What it knows of the Messages API it did not learn here. It has no counters of a cache and cannot
count tokens.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from orchestrator.messages import OpaqueBlock
from orchestrator.models.connect import open_model
from orchestrator.models.servers import server_of
from orchestrator.ports import Model
from tests.support.api.asking import first_request, next_request
from tests.support.virtual_clock import VirtualClock

PACKAGE = "@copilotkit/aimock@1.43"
INSTALL_S_MAX = 90

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

THOUGHT = "I look first."
FIXTURES = [
    {
        "match": {"userMessage": "# Task `work`", "turnIndex": 0},
        "response": {
            "content": "I read. \u00e9\U0001f600",
            "reasoning": THOUGHT,
            "toolCalls": [
                {"name": "Read", "arguments": json.dumps({"file_path": path})} for path in "ab"
            ],
        },
    },
    {
        "match": {"userMessage": "# Task `work`", "turnIndex": 1},
        "response": {
            "toolCalls": [{"name": "SubmitReport", "arguments": json.dumps({"summary": "so"})}]
        },
    },
    {"match": {"userMessage": "# Task `text`"}, "response": {"content": "Only words."}},
    {
        "match": {"userMessage": "# Task `busy`", "sequenceIndex": 0},
        "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529},
    },
    {
        "match": {"userMessage": "# Task `busy`", "sequenceIndex": 1},
        "response": {
            "error": {"message": "Slow down", "type": "rate_limit_error"},
            "status": 429,
            "retryAfter": 20,
        },
    },
    {"match": {"userMessage": "# Task `busy`"}, "response": {"content": "Here I am."}},
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mock server's program, installed for this module."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node or npm is not installed")
    folder = tmp_path_factory.mktemp("aimock")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, timeout=INSTALL_S_MAX)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not answer in time")
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        pytest.skip(f"npm cannot install {PACKAGE}: {last}")
    return folder / "node_modules/@copilotkit/aimock/dist/cli.js"


@contextmanager
def served(program: Path, folder: Path, *options: str) -> Iterator[str]:
    """The mock server while it runs; its URL."""
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}), encoding="utf-8")
    words = ["node", str(program), "-p", "0", "-f", str(fixtures), "--strict", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        yield next(_urls(process.stdout))
    finally:
        process.kill()
        process.communicate()


def _urls(lines: Iterator[str] | Sequence[str] | object) -> Iterator[str]:
    assert isinstance(lines, Iterator)
    for line in lines:
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            yield found[0]
    raise AssertionError("the mock server ended before it said where it listens")


@asynccontextmanager
async def model_at(url: str, clock: VirtualClock) -> AsyncIterator[Model]:
    environ = {"ANTHROPIC_API_KEY": "any"}
    said: list[str] = []
    opened = open_model(server_of(url, environ), environ, clock=clock, prices={}, tell=said.append)
    async with opened as model:
        yield model


@pytest.mark.asyncio
async def test_text_thoughts_and_calls_of_a_whole_conversation(
    program: Path, tmp_path: Path
) -> None:
    with served(program, tmp_path) as url:
        async with model_at(url, VirtualClock()) as model:
            request = first_request()
            reply = await model.complete(request)
            second = await model.complete(next_request(request, reply))
            words = await model.complete(first_request("text"))
    assert reply.stop_reason == "tool_use"
    assert reply.message.text == "I read. \u00e9\U0001f600"
    assert [call.input for call in reply.message.calls] == [{"file_path": "a"}, {"file_path": "b"}]
    thoughts = [block.raw for block in reply.message.blocks if isinstance(block, OpaqueBlock)]
    assert [thought["thinking"] for thought in thoughts] == [THOUGHT]
    assert [call.name for call in second.message.calls] == ["SubmitReport"]
    assert second.message.calls[0].input == {"summary": "so"}
    assert (words.stop_reason, words.message.text) == ("end_turn", "Only words.")


@pytest.mark.asyncio
async def test_L11_overload_and_rate_limits_are_waited_for(program: Path, tmp_path: Path) -> None:
    clock = VirtualClock()
    with served(program, tmp_path) as url:
        async with model_at(url, clock) as model:
            reply = await model.complete(first_request("busy"))
    assert reply.message.text == "Here I am."
    assert clock.slept >= 20


@pytest.mark.asyncio
@pytest.mark.parametrize("chaos", ["drop", "malformed", "disconnect", "ratelimit"])
async def test_chaos_is_survived_as_often_as_it_happens(
    program: Path, tmp_path: Path, chaos: str
) -> None:
    clock, asked = VirtualClock(), 0
    with served(program, tmp_path, f"--chaos-{chaos}", "0.1") as url:
        async with model_at(url, clock) as model:
            while clock.slept == 0:  # every fault is waited out
                assert asked < 500
                reply = await model.complete(first_request("text"))
                assert reply.message.text == "Only words."
                asked += 1
