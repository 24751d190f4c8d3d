"""`export`: the journal as JSON lines, whole enough to be folded far from where it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.events import StoredEvent
from orchestrator.core.machine import fold
from orchestrator.journal import Journal
from orchestrator.state_folder import StateFolder
from tests.cli.inside import run_inside
from tests.cli.program import record
from tests.observers.story import FINAL, RUN, beginning, whole
from tests.support.repositories import make_repository


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kite", {"a": "1"})


def test_every_event_comes_out_whole_and_can_be_read_again(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    result = run_inside("export", "--repo", str(repository), home=home)
    assert (result.code, result.err) == (0, "")
    assert result.out.isascii()
    assert result.out.replace("\n", "").isprintable(), "hostile texts drive no terminal"
    read = [StoredEvent.model_validate_json(line) for line in result.out.splitlines()]
    database = StateFolder.for_repository(repository / ".git", home).database
    assert read == Journal.open(database).events(RUN)
    state = fold(RUN, read)
    assert (state.status, state.commit) == ("succeeded", FINAL)


def test_a_line_has_what_the_journal_knows_and_the_event(home: Path, repository: Path) -> None:
    record(home, repository / ".git", beginning())
    result = run_inside("export", RUN[:8], "--repo", str(repository), home=home)
    first = json.loads(result.out.splitlines()[0])
    assert list(first) == ["seq", "run", "at", "cause", "body"]
    assert (first["seq"], first["run"], first["body"]["type"]) == (1, RUN, "RunStarted")


def test_to_a_file(home: Path, repository: Path, tmp_path: Path) -> None:
    record(home, repository / ".git", beginning())
    words = ("export", "--repo", str(repository))
    to_stdout = run_inside(*words, home=home)
    path = tmp_path / "run.jsonl"
    result = run_inside(*words, "-o", str(path), home=home)
    assert (result.code, result.out, result.err) == (0, "", f"written to {path}\n")
    assert path.read_text(encoding="ascii") == to_stdout.out
    refused = run_inside(*words, "-o", str(tmp_path / "nosuch" / "x"), home=home)
    assert (refused.code, refused.out) == (2, "")
    assert "cannot be written" in refused.err
    assert len(refused.err.splitlines()) == 1
