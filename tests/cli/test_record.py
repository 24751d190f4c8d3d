"""`--record` and `--replay`: a run is told again without its model, or says where it differs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.core.events import AttemptFailed, RunStarted
from tests.cli.inside import run_inside
from tests.cli.planning import GOAL, scripted
from tests.cli.program import Result
from tests.e2e.support import (
    Call,
    Place,
    change,
    killed,
    make_place,
    turns,
    write,
    write_yaml,
    writer,
)
from tests.support.api.conversation import script_policy, thoughtful
from tests.support.api.server import KEY, ApiServer
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

READ: Call = {"Read": {"file_path": "list.txt"}}
PROMPT = "Write both files."
SCRIPT = {"w": turns(READ, write("a.txt", "a\n"), write("b.txt", "b\n"), change())}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "first", {"list.txt": "one\n"})


@pytest.fixture
def again(tmp_path: Path) -> Place:
    """The same repository elsewhere, with a state folder of its own."""
    return make_place(tmp_path / "second", {"list.txt": "one\n"})


def plan(folder: Path, prompt: str = PROMPT) -> str:
    tasks = {"w": writer(prompt=prompt, gates=["test -f a.txt -a -f b.txt"], on_failure="fail")}
    return str(write_yaml(folder / "plan.yaml", {"tasks": tasks}))


def inside(place: Place, *words: str, **variables: str) -> Result:
    options = ("--repo", str(place.repository), "--sandbox", "off")
    return run_inside(*words, *options, home=place.home, **variables)


def tree(place: Place) -> str:
    return git(place.repository, "rev-parse", f"orchestrate/{place.runs()[-1]}^{{tree}}")


def test_a_run_with_a_server_is_replayed_without_one(
    place: Place, again: Place, tmp_path: Path
) -> None:
    tape = tmp_path / "run.jsonl"
    file = plan(tmp_path)
    with ApiServer(thoughtful(script_policy(SCRIPT))) as server:
        options = ("--base-url", server.url, "--record", str(tape), "--sandbox", "off")
        recorded = place.run("run", file, *options, ANTHROPIC_API_KEY=KEY)
        assert recorded.code == 0, recorded.err
        asked = len(server.log)
    assert tape.stat().st_mode & 0o077 == 0
    assert KEY not in tape.read_text(encoding="utf-8")
    replayed = again.run("run", file, "--replay", str(tape), "--sandbox", "off")
    assert replayed.code == 0, replayed.err
    assert tree(again) == tree(place)
    assert asked == 4
    (started,) = (event for event in again.events() if isinstance(event, RunStarted))
    assert started.model == "replay:run.jsonl"
    for text in (replayed.err, replayed.out):
        assert "key" not in text
        assert "note:" not in text


def test_a_replay_says_at_which_request_it_first_differs(
    place: Place, again: Place, tmp_path: Path
) -> None:
    tape = tmp_path / "run.jsonl"
    answers = str(write_yaml(tmp_path / "script.yaml", {"tasks": SCRIPT}))
    words = ("--scripted", answers, "--record", str(tape))
    assert inside(place, "run", plan(tmp_path), *words).code == 0
    changed = plan(tmp_path, "Write one file.")
    result = inside(again, "run", changed, "--replay", str(tape))
    assert result.code == 1, result.err
    last = result.err.splitlines()[-1]
    assert f"{tape}: task `w`, attempt 1, turn 1: message 1, block 1 (a text), line" in last
    assert f"recorded `{PROMPT}`, now `Write one file.`" in last
    assert again.branches() == {}
    failed = [event for event in again.events() if isinstance(event, AttemptFailed)]
    assert {event.reason for event in failed} == {"script"}
    model = inside(again, "run", plan(tmp_path), "--replay", str(tape), "--model", "other")
    assert model.code == 1
    assert re.search("turn 1: the model: recorded `.*`, now `other`", model.err.splitlines()[-1])


def test_a_damaged_record_is_refused_with_its_line(place: Place, tmp_path: Path) -> None:
    tape = tmp_path / "run.jsonl"
    file = plan(tmp_path)
    answers = str(write_yaml(tmp_path / "script.yaml", {"tasks": SCRIPT}))
    assert inside(place, "run", file, "--scripted", answers, "--record", str(tape)).code == 0
    lines = tape.read_text(encoding="utf-8").splitlines(keepends=True)
    before, branches = place.runs(), place.branches()
    number = 1 + next(n for n, line in enumerate(lines) if json.loads(line)["type"] == "exchange")
    for spoilt in (lines[number - 1][:40] + "\n", "\n", '{"type": "exchange"}\n', "\x00\n"):
        broken = [*lines[: number - 1], spoilt, *lines[number:]]
        tape.write_text("".join(broken), encoding="utf-8")
        result = inside(place, "run", file, "--replay", str(tape))
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"{tape}:{number}: ")
        assert result.err.count("\n") == 1
    assert (place.runs(), place.branches()) == (before, branches)


def test_resume_goes_on_with_the_record_of_a_run_that_was_killed(
    place: Place, again: Place, tmp_path: Path
) -> None:
    tape = tmp_path / "run.jsonl"
    words = ("run", "--goal", GOAL, "--yes", "--record", str(tape))
    fault = "journal:8:kill"  # as the first of the two writers has ended
    options = (*scripted(place), "--sandbox", "off")
    assert killed(place.run(*words, *options, ORCHESTRATE_FAULT=fault))
    kept = tape.read_bytes()
    assert kept.count(b'"type": "exchange"') >= 4, "two of the planner, two of a writer"
    tape.write_bytes(kept + b'{"type": "exchange", "numb')  # as a crash in the middle leaves it
    resumed = inside(place, "resume")
    assert resumed.code == 0, resumed.err
    assert tape.read_bytes().startswith(kept)
    replayed = inside(again, "run", "--goal", GOAL, "--yes", "--replay", str(tape))
    assert replayed.code == 0, replayed.err
    assert tree(again) == tree(place)
    taken = inside(again, "run", "--goal", GOAL, *scripted(again), "--record", str(tape))
    assert (taken.code, taken.out) == (2, ""), "a finished record is not written into"
