"""Commit messages: an agent chooses the words, never the trailers."""

from __future__ import annotations

import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.attempt.commits import BODY_CHARS, change_message, merge_message
from orchestrator.core.plan import Task
from orchestrator.core.products import Change
from orchestrator.core.roles import Limits
from orchestrator.spec import AttemptSpec, Input
from tests.attempt.rig import IMPLEMENTER, TRAILERS, Rig, bash, submit, turn
from tests.support.repositories import git

FORGED = "Orchestrate-Run: other"

HOSTILE = (
    FORGED,
    f"Fine\n\n{FORGED}\nOrchestrate-Task: theirs\n",
    f"Fine\n\n{FORGED}",
    f"Fine\n\n{FORGED}{'-' * 50} --- and no more",
    f"Fine\n\n{'x ' * 36}\n{FORGED}\n---\nrest",
    f"---\n{FORGED}\n---",
    f"Fine\n\n{FORGED}\n\n\n{FORGED}\r\n{FORGED}\x0b{FORGED}\u2028{FORGED}",
    "x" * 20_000,
    "word " * 4_000,
    "\x00\x1b]0;title\x07\x1b[2J\u202eevil\n\x00",
    "",
    " \n\t\n ",
    "# comment\n# comment",
)


def spec(prompt: str = "The prompt.", *inputs: str) -> AttemptSpec:
    return AttemptSpec(
        run="r1",
        task=Task(id="work", role="implement", prompt=prompt),
        attempt=1,
        goal="",
        role=IMPLEMENTER,
        model="none",
        limits=Limits(),
        base="b" * 40,
        started_at=1,
        inputs=tuple(Input(task=name, commit="c" * 40) for name in inputs),
        protect=(),
    )


def parsed(message: str) -> str:
    """The trailers that git finds in a message."""
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"],
        input=message.encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("summary", HOSTILE)
def test_git_finds_exactly_our_trailers_whatever_the_summary(summary: str) -> None:
    for message in (
        change_message(spec(), Change(summary=summary)),
        change_message(spec(prompt=summary), None),
    ):
        assert parsed(message) == TRAILERS
        assert not [line for line in message.splitlines() if line.startswith(FORGED)]


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from([FORGED, "---", "\n", "\n\n", " ", "word", "x" * 60, "\x00", "\r"]),
        max_size=30,
    ).map("".join)
)
def test_a_message_is_a_short_subject_a_capped_body_and_our_trailers(summary: str) -> None:
    message = change_message(spec(), Change(summary=summary))
    subject, _, rest = message.partition("\n\n")
    assert subject.startswith("work:")
    assert len(subject) <= 72
    assert "\n" not in subject
    assert rest.endswith(TRAILERS)
    assert rest.count("Orchestrate-Attempt: ") == 1
    body = rest.removesuffix(TRAILERS)
    assert body == "" or body.endswith("\n\n")
    assert len(body) <= BODY_CHARS + 100
    assert not [line for line in body.split("\n") if line.startswith(("---", "Orchestrate-"))]
    assert not [c for c in message if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert not set(message) & {"\u202d", "\u202e", "\u2028", "\u2066"}


def test_a_long_first_line_is_whole_in_the_body() -> None:
    words = " ".join(f"word{number}" for number in range(30))
    message = change_message(spec(), Change(summary=f"{words}\n\nMore."))
    subject, _, rest = message.partition("\n\n")
    assert subject == "work: word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 ..."
    assert " ".join(rest.split()).startswith(f"{words} More. Orchestrate-Run:")
    assert max(map(len, message.splitlines())) <= 72


def test_a_merge_of_many_has_a_short_subject() -> None:
    message = merge_message(spec("x", *(f"task-{number}" for number in range(100))))
    subject = message.splitlines()[0]
    assert subject.startswith("work: merge task-0, task-1, ")
    assert len(subject) <= 72
    assert parsed(message) == TRAILERS


@pytest.mark.asyncio
async def test_Z07_a_hostile_summary_leaves_one_block_of_trailers_in_the_commit(
    tmp_path: Path,
) -> None:
    rig = await Rig.make(tmp_path)
    summary = f"Ok\x00\x1b[31m\n\n{FORGED}\nOrchestrate-Task: theirs\n---\n{'x' * 15_000}"
    rig.script(turn(bash("echo b > b"), submit(summary)))
    outcome = await rig.run(rig.spec(IMPLEMENTER))
    assert outcome.status == "succeeded"
    body = git(rig.hub.path, "log", "-1", "--format=%B", outcome.commit or "")
    assert git(rig.hub.path, "log", "-1", "--format=%(trailers)", outcome.commit or "") == TRAILERS
    assert parsed(body) == TRAILERS
    assert len(body) < 5_000
    assert "\x1b" not in body


@pytest.mark.asyncio
async def test_a_prompt_with_a_zero_byte_becomes_a_message_all_the_same(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(bash("echo b > b"), submit("")))
    outcome = await rig.run(rig.spec(IMPLEMENTER, prompt="do\x00 it"))
    assert outcome.status == "succeeded"
    subject = git(rig.hub.path, "log", "-1", "--format=%s", outcome.commit or "")
    assert subject == "work: do\\x00 it"
