"""The adapter against llama.cpp, which speaks the Messages API in its own way.

Needs the packages `xllamacpp` and `gguf`; see `llama_server`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestrator.messages import Reply
from orchestrator.models.clock import RealClock
from orchestrator.models.connect import open_model
from orchestrator.models.servers import server_of
from orchestrator.ports import Model
from tests.support.api.asking import first_request, next_request

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("gguf") is None,
        reason="xllamacpp and gguf are not installed",
    ),
]
REPLY_TOKENS_MAX = 24


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llama")
    program = Path(__file__).with_name("llama_server.py")
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(program), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), log.read_text(encoding="utf-8")
        yield address
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def model_at(url: str) -> AsyncIterator[Model]:
    said: list[str] = []
    opened = open_model(server_of(url, {}), {}, clock=RealClock(), prices={}, tell=said.append)
    async with opened as model:
        yield model
    assert said == []


@pytest.mark.asyncio
async def test_a_conversation_goes_on_and_its_prefix_is_read_from_the_cache(url: str) -> None:
    request = first_request("llama", model="tiny", max_tokens=REPLY_TOKENS_MAX)
    replies: list[Reply] = []
    async with model_at(url) as model:
        for _ in range(4):
            reply = await model.complete(request)
            replies.append(reply)
            request = next_request(request, reply)
    assert {reply.stop_reason for reply in replies} <= {"end_turn", "max_tokens"}
    usages = [reply.usage for reply in replies]
    assert all(0 < usage.output_tokens <= REPLY_TOKENS_MAX for usage in usages)
    assert all(usage.calls == 1 and usage.usd == 0 for usage in usages)
    # What a random model says may be no text, and is asked for again: a first try may have filled
    # the cache already.
    prompts = [usage.input_tokens + usage.cache_read_tokens for usage in usages]
    assert prompts[0] > 50, "bytes of the prompt are tokens"
    reads = [usage.cache_read_tokens for usage in usages]
    assert reads == sorted(set(reads)), "each turn reads more than the one before"


@pytest.mark.asyncio
async def test_a_model_of_any_name_without_a_key_answers_a_long_prompt(url: str) -> None:
    request = first_request("long", model="any/name:latest", max_tokens=4)
    request = request.model_copy(update={"system": ("words and rules, " * 500,)})
    async with model_at(url) as model:
        usage = (await model.complete(request)).usage
    assert usage.tokens > 8_000
