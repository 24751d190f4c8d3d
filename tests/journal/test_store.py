"""The database: any event comes back as it went in; newer and damaged ones are refused whole."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.events import (
    EVENT,
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    GateRecord,
    PlanRejected,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    TaskBlocked,
    TaskSkipped,
)
from orchestrator.core.plan import Gate, PlanSettings, Task, When
from orchestrator.core.products import Change, Decision, Finding, PlanPatch, Report, Verdict
from orchestrator.core.roles import Limits, Role
from orchestrator.core.usage import Usage
from orchestrator.errors import RepositoryError
from orchestrator.journal import Journal, RunLog
from orchestrator.journal.run_log import encoded
from orchestrator.state_folder import StateFolder

RUN = "plan-20261130-1432-7f3a"

texts = st.text(max_size=40)
ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
objects = st.sampled_from(["a" * 40, "0" * 64])
counts = st.integers(1, 20)
money = st.floats(0, 1e6, allow_nan=False)
usages = st.builds(Usage, input_tokens=st.integers(0, 2**53), usd=money, seconds=money)
limits = st.builds(Limits, tokens=st.none() | st.integers(1, 10**9), turns=st.none() | counts)
gates = st.builds(Gate, name=st.text(min_size=1, max_size=80), run=texts | st.tuples(texts, texts))
records = st.builds(
    GateRecord,
    name=texts,
    argv=st.tuples(texts),
    tree=objects,
    outcome=st.sampled_from(["passed", "failed", "timeout"]),
    exit_status=st.none() | st.integers(0, 255),
    seconds=money,
    tail=texts,
)
whens = st.builds(When, task=ids, field=texts, equals=texts | st.booleans() | st.integers(-9, 9))
tasks = st.builds(
    Task,
    id=ids,
    prompt=texts,
    needs=st.lists(ids, max_size=3).map(tuple),
    writes=st.none() | st.tuples(texts),
    gates=st.tuples(gates),
    when=st.none() | whens | st.just(When.model_validate({"task": "a", "is": "failed"})),
    require=st.sampled_from(["all", "any", 2]),
    env=st.dictionaries(texts, texts, max_size=2),
)
findings = st.builds(
    Finding, path=texts, line=counts, severity=st.sampled_from(["error", "note"]), message=texts
)
products = st.one_of(
    st.none(),
    st.builds(Report, summary=texts, items=st.tuples(texts)),
    st.builds(Change, summary=texts, decisions=st.tuples(st.builds(Decision, what=texts))),
    st.builds(Verdict, approve=st.booleans(), findings=st.tuples(findings)),
    st.builds(PlanPatch, drop=st.tuples(ids), why=texts),
)
attempt = {"task": ids, "attempt": counts}
ended = {**attempt, "usage": usages}
roles = st.builds(Role, name=texts, tools=st.tuples(texts), product=st.just("change"), prompt=texts)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        RunStarted,
        repository=texts,
        base=objects,
        base_branch=st.none() | texts,
        settings=st.builds(PlanSettings, name=texts, gates=st.tuples(gates)),
        roles=st.tuples(roles),
        model=texts,
        sandbox=texts,
        workspace=texts,
        versions=st.dictionaries(texts, texts, max_size=3),
    ),
    st.builds(PlanRevised, by=st.none() | ids, add=st.lists(tasks, max_size=2).map(tuple)),
    st.builds(PlanRejected, by=ids, problems=st.tuples(texts)),
    st.builds(AttemptStarted, **attempt, limits=limits),
    st.builds(
        AttemptSucceeded,
        **ended,
        commit=objects,
        tree=objects,
        product=products,
        gates=st.tuples(records),
    ),
    st.builds(
        AttemptFailed,
        **ended,
        reason=st.sampled_from(["conflict", "limit"]),
        evidence=texts,
        signature=texts,
        product=products,
    ),
    st.builds(AttemptLost, **ended, why=texts, interrupted=st.booleans()),
    st.builds(AttemptCancelled, **ended, why=texts),
    st.builds(TaskSkipped, task=ids, why=texts),
    st.builds(TaskBlocked, task=ids, by=ids),
    st.builds(RunPaused, reason=st.sampled_from(["budget", "signal"]), detail=texts),
    st.builds(RunResumed, versions=st.dictionaries(texts, texts, max_size=2)),
    st.builds(RunFinished, status=st.just("failed"), branch=st.none() | texts),
)


def state_in(tmp_path: Path) -> StateFolder:
    state = StateFolder(tmp_path / "state")
    state.create()
    return state


def write(state: StateFolder, *bodies: Event, run: str = RUN, at: float = 1.5) -> Journal:
    journal = Journal.open(state.database)
    with RunLog.acquire(state.run(run), journal, clock=lambda: at) as log:
        anyio.run(log.append, [(body, None) for body in bodies])
    return journal


def damage(journal: Journal, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(journal.path)) as db, db:
        db.execute("DROP TRIGGER events_never_change")
        db.execute(statement, values)


@given(events)
def test_any_event_reads_back_as_it_was_written(event: Event) -> None:
    same, body = encoded(event)
    assert same == event
    assert EVENT.validate_json(body) == event


def test_any_run_comes_back_from_the_database(tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=30)
    @given(st.lists(events, min_size=1, max_size=6))
    def check(bodies: list[Event]) -> None:
        journal = write(state_in(tmp_path_factory.mktemp("run")), *bodies)
        stored = journal.events(RUN)
        assert [event.body for event in stored] == bodies
        assert [event.seq for event in stored] == list(range(1, len(bodies) + 1))
        assert journal.events(RUN, after=1) == stored[1:]

    check()


def test_runs_are_listed_in_the_order_of_their_start_whatever_the_clock_says(
    tmp_path: Path,
) -> None:
    state = state_in(tmp_path)
    write(state, RunResumed(), run="b", at=200.0)
    journal = write(state, RunResumed(), run="a", at=100.0)
    write(state, TaskSkipped(task="t", why=""), run="b", at=300.0)
    listed = [
        (run.id, run.started_at, run.last_type, run.last_at, run.events) for run in journal.runs()
    ]
    assert listed == [
        ("b", 200.0, "TaskSkipped", 300.0, 2),
        ("a", 100.0, "RunResumed", 100.0, 1),
    ]
    assert journal.last_seq("b") == 2
    assert journal.last_seq("nobody") == 0
    assert journal.events("nobody") == []


def test_a_journal_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    journal = write(state_in(tmp_path), RunResumed())
    with closing(sqlite3.connect(journal.path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(RepositoryError, match=r"newer release \(version 99"):
        Journal.open(journal.path)


def test_an_event_of_a_newer_release_is_refused_with_its_place(tmp_path: Path) -> None:
    journal = write(state_in(tmp_path), RunResumed(), RunResumed())
    damage(journal, "UPDATE events SET body = ? WHERE seq = 2", '{"type": "RunTeleported"}')
    with pytest.raises(RepositoryError, match=f"record 2 of run {RUN} cannot be read"):
        journal.events(RUN)


def test_D06_a_missing_record_is_refused(tmp_path: Path) -> None:
    journal = write(state_in(tmp_path), *[RunResumed()] * 4)
    damage(journal, "DELETE FROM events WHERE seq = 3")
    with pytest.raises(RepositoryError, match="record 3 is missing"):
        journal.events(RUN)


@pytest.mark.parametrize("body", ["\0" * 300, '{"type": "RunRes', '"\udcc3"', ""])
def test_D06_a_damaged_record_is_refused(tmp_path: Path, body: str) -> None:
    journal = write(state_in(tmp_path), RunResumed(), RunResumed())
    raw = body.encode("utf-8", "surrogateescape")
    damage(journal, "UPDATE events SET body = CAST(? AS TEXT) WHERE seq = 1", raw)
    with pytest.raises(RepositoryError):
        journal.events(RUN)


def test_D06_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(RepositoryError, match="damaged"):
        Journal.open(path)


def test_a_journal_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="cannot be opened"):
        Journal.open(tmp_path / "missing" / "runs.db")


def test_state_folders_are_their_owners_alone(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "home" / "repository-0123456789ab")
    write_state = state_folder_made(state)
    for folder in write_state:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def state_folder_made(state: StateFolder) -> list[Path]:
    state.create()
    run = state.run(RUN)
    run.create()
    folders = [state.root.parent, state.root, state.trees, run.root]
    return [*folders, run.transcripts, run.outputs, run.products]
