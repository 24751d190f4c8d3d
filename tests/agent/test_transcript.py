"""The transcript file: what is in it, and what a crash or a second try leaves."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from orchestrator.agent.parts import PromptParts
from orchestrator.agent.prompt import first_request
from orchestrator.agent.transcript import Entry, Transcript, read_transcript
from orchestrator.core.usage import Usage
from orchestrator.errors import DiskFullError
from orchestrator.messages import Message, OpaqueBlock, Request, TextBlock
from orchestrator.tools.submit import submit_spec
from tests.agent.examples import order, role

THINKING = OpaqueBlock(raw={"type": "thinking", "signature": "EqQB==", "thinking": "é"})


def opening(prompt: str = "You write.") -> Request:
    acting = role(prompt=prompt)
    return first_request(order(acting), acting, PromptParts(), [submit_spec("change")])


def entry(text: str, usage: Usage | None = None) -> Entry:
    message = Message(role="assistant", blocks=(THINKING, TextBlock(text=text)))
    return Entry(message=message, usage=usage)


@pytest.mark.asyncio
async def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "filter.1.jsonl"
    transcript = await Transcript.create(path)
    await transcript.begin(opening(), started=7)
    first = entry("one", Usage(output_tokens=3, usd=0.25))
    second = entry("line\nbreak \u2028", Usage(output_tokens=4, usd=0.5))
    await transcript.append(first)
    await transcript.append(second)
    await transcript.close()

    content = read_transcript(path)
    assert content.header is not None
    assert (content.header.task, content.header.attempt) == ("filter", 1)
    assert content.header.started == 7
    assert content.header.tools == ("SubmitChange",)
    assert content.entries == (first, second)
    assert transcript.usage == Usage(output_tokens=7, usd=0.75)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["type"] for line in lines[:-1]] == ["header", "message", "message"]
    assert lines[-1] == ""


@pytest.mark.asyncio
async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    transcript = await Transcript.create(tmp_path / "a.jsonl")
    await transcript.close()
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600


@pytest.mark.asyncio
async def test_agents_that_share_their_prefix_have_one_digest(tmp_path: Path) -> None:
    digests = []
    for number, prompt in enumerate(["You write.", "You write.", "You review."]):
        path = tmp_path / f"{number}.jsonl"
        transcript = await Transcript.create(path)
        await transcript.begin(opening(prompt))
        await transcript.close()
        header = read_transcript(path).header
        assert header is not None
        digests.append(header.system_digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.asyncio
async def test_lost_tries_are_kept_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "filter.1.jsonl"
    for text in ("first", "second", "third"):
        transcript = await Transcript.create(path)
        await transcript.append(entry(text))
        await transcript.close()
    names = ["filter.1.lost-1.jsonl", "filter.1.lost-2.jsonl", "filter.1.jsonl"]
    texts = [read_transcript(tmp_path / name).entries[0].message.text for name in names]
    assert texts == ["first", "second", "third"]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.asyncio
async def test_a_file_cut_at_any_byte_gives_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    transcript = await Transcript.create(path)
    await transcript.begin(opening())
    await transcript.append(entry("one"))
    await transcript.append(entry("two"))
    await transcript.close()
    data = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(data) if byte == 10]
    cut = tmp_path / "cut.jsonl"
    for length in range(len(data) + 1):
        cut.write_bytes(data[:length])
        content = read_transcript(cut)
        whole = sum(end <= length for end in ends)
        assert (content.header is not None, len(content.entries)) == (whole > 0, max(whole - 1, 0))


@pytest.mark.asyncio
async def test_a_full_disk_is_said_as_one() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    transcript = Transcript(full, os.open(full, os.O_WRONLY))
    with pytest.raises(DiskFullError, match=os.strerror(errno.ENOSPC)):
        await transcript.append(entry("one"))
    await transcript.close()
