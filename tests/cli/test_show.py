"""Commands that look at runs: which run is meant, what is printed where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from orchestrator.agent.transcript import Transcript
from orchestrator.cli.lookup import checkout_of, common_dir
from orchestrator.core.events import Event, RunPaused
from orchestrator.core.machine import fold
from orchestrator.core.usage import Usage
from orchestrator.journal import Journal, RunLog
from orchestrator.messages import Message, Request, TextBlock
from orchestrator.state_folder import RunFolder, StateFolder
from tests.cli.program import orchestrate, orchestrate_each, record
from tests.observers.story import RUN, START, beginning, failing, started, whole
from tests.support.repositories import commit_files, commit_on, git, make_repository

OTHER = "other-20261130-1500-0001"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n", "sub/b.txt": "b\n"})


@pytest.fixture
def recorded(home: Path, repository: Path) -> Path:
    """A repository with a finished run and a newer one that was paused."""
    record(home, repository / ".git", whole())
    paused = [*beginning(), RunPaused(reason="budget", detail="the money is spent")]
    record(home, repository / ".git", paused, run=OTHER, at=START + 1000)
    return repository


def test_list_shows_the_newest_run_first(home: Path, recorded: Path) -> None:
    result, lines = orchestrate_each(["list"], ["list", "--json"], cwd=recorded, home=home)
    assert (result.code, result.err) == (0, "")
    rows = [line.split() for line in result.out.splitlines()]
    assert [row[:2] for row in rows] == [["paused", OTHER], ["succeeded", RUN]]
    assert [json.loads(line)["run"] for line in lines.out.splitlines()] == [OTHER, RUN]


def test_no_runs_is_no_error(home: Path, repository: Path) -> None:
    listed, shown = orchestrate_each(["list"], ["status"], cwd=repository, home=home)
    assert (listed.code, listed.out, listed.err) == (0, "", "no runs yet\n")
    assert (shown.code, shown.out) == (2, "")
    assert "no run" in shown.err


def test_status_is_of_the_newest_run_or_the_named_one(home: Path, recorded: Path) -> None:
    newest, named, document = orchestrate_each(
        ["status"], ["status", "kite"], ["status", RUN, "--json"], cwd=recorded, home=home
    )
    assert newest.out.startswith(f"run {OTHER}: paused")
    assert f"orchestrate resume {OTHER}" in newest.out
    assert named.out.startswith(f"run {RUN}: succeeded")
    record = json.loads(document.out)
    assert (record["branch"], record["live"]) == (f"orchestrate/{RUN}", False)


def test_T05_runs_are_found_from_subfolders_and_linked_worktrees(
    home: Path, recorded: Path, tmp_path: Path
) -> None:
    git(recorded, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert OTHER in orchestrate("list", cwd=tmp_path / "linked" / "sub", home=home).out
    places = [recorded / "sub", tmp_path / "linked", tmp_path / "linked" / "sub"]
    lines = [["list", "--repo", str(place)] for place in places]
    for result in orchestrate_each(*lines, cwd=tmp_path, home=home):
        assert OTHER in result.out


def test_outside_of_a_repository_all_runs_are_there(
    home: Path, recorded: Path, tmp_path: Path
) -> None:
    assert OTHER in orchestrate("list", cwd=tmp_path, home=home).out
    elsewhere = make_repository(tmp_path / "elsewhere", {"x": "1"})
    listed, named, newest = orchestrate_each(
        ["list"], ["status", RUN], ["status"], cwd=elsewhere, home=home
    )
    assert listed.out == ""
    assert RUN in named.out
    assert newest.code == 2


def test_the_folder_of_a_repository_is_the_one_that_git_names(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main", {"sub/x": "1"})
    git(main, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    git(tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "apart"), str(main), "split")
    (tmp_path / "alias").symlink_to(main / "sub")
    inside = (main, main / "sub", main / ".git", tmp_path / "linked", tmp_path / "linked" / "sub")
    for place in (*inside, tmp_path / "bare.git", tmp_path / "split", tmp_path / "alias"):
        answer = git(place, "rev-parse", "--path-format=absolute", "--git-common-dir")
        assert common_dir(place) == Path(answer).resolve(), place
    assert common_dir(tmp_path) is None
    assert checkout_of(main / "sub") == main
    assert checkout_of(tmp_path / "linked" / "sub") == tmp_path / "linked"
    assert checkout_of(tmp_path / "bare.git") is None
    assert checkout_of(tmp_path) is None


def test_an_unknown_or_ambiguous_run_is_answered_with_a_list(home: Path, recorded: Path) -> None:
    lines = (["status", "nosuch"], ["status", ""])
    unknown, ambiguous = orchestrate_each(*lines, cwd=recorded, home=home)
    assert "'nosuch' is no run" in unknown.err
    assert "means more than one run" in ambiguous.err
    for result in (unknown, ambiguous):
        assert (result.code, result.out) == (2, "")
        assert f"there are: {OTHER}, {RUN}" in result.err
        assert len(result.err.splitlines()) == 1


def test_a_folder_that_is_no_repository_is_named(home: Path, tmp_path: Path) -> None:
    lines = (["list", "--repo", "."], ["list", "--repo", "nosuch"])
    outside, missing = orchestrate_each(*lines, cwd=tmp_path, home=home)
    assert (outside.code, missing.code) == (3, 3)
    assert "not in a git repository" in outside.err
    assert "no such folder" in missing.err


async def spend(folder: RunFolder, usd: float) -> None:
    """A try of `filter`, begun by the last event there is, that has cost so much."""
    transcript = await Transcript.create(folder.transcript("filter", 1))
    message = Message(role="user", blocks=(TextBlock(text="go"),))
    request = Request(
        task="filter",
        attempt=1,
        model="m",
        max_tokens=1,
        tools=(),
        system=(),
        messages=(message,),
    )
    await transcript.begin(request, started=5)
    await transcript.spend(Usage(usd=usd))
    await transcript.close()


def test_a_live_run_is_seen_without_disturbing_it(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", [*beginning(), started("filter")])
    ended = orchestrate("status", cwd=repository, home=home)
    assert f"interrupted; go on with: orchestrate resume {RUN}" in ended.err
    state = StateFolder.for_repository(repository / ".git", home)
    anyio.run(spend, folder, 17)
    with RunLog.acquire(folder, Journal.open(state.database)):
        live, whole = (
            orchestrate("status", *more, cwd=repository, home=home) for more in ([], ["--json"])
        )
        listed = orchestrate("list", cwd=repository, home=home)
    assert live.code == 0
    assert re.search(r"live: process \d+ on ", live.err)
    assert listed.out.startswith("running")
    # What the one that has ended cost, by its event, and the one in flight, by its transcript.
    before = fold(RUN, Journal.open(state.database).events(RUN)).usage.usd
    assert json.loads(whole.out)["usd"] == pytest.approx(before + 17)
    assert "$17.00" in next(line for line in live.out.splitlines() if "  filter" in line)


def test_report_goes_to_stdout_or_a_file(home: Path, recorded: Path) -> None:
    target = recorded.parent / "report.out"
    printed, document, filed = orchestrate_each(
        ["report", RUN],
        ["report", RUN, "--format", "json"],
        ["report", RUN, "-o", str(target)],
        cwd=recorded,
        home=home,
    )
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith(f"# Run {RUN}: succeeded")
    assert json.loads(document.out)["status"] == "succeeded"
    assert (filed.code, filed.out) == (0, "")
    assert target.read_text(encoding="utf-8") == printed.out


def test_reports_to_come_are_refused(home: Path, recorded: Path) -> None:
    lines = [["report", "--format", form] for form in ("html", "junit", "sarif", "mermaid")]
    for result in orchestrate_each(*lines, cwd=recorded, home=home):
        assert (result.code, result.out) == (2, "")
        assert "not supported yet" in result.err


def test_a_damaged_journal_is_one_sentence(home: Path, recorded: Path) -> None:
    state = StateFolder.for_repository(recorded / ".git", home)
    state.database.write_bytes(b"x" * 5000)
    result = orchestrate("status", cwd=recorded, home=home)
    assert (result.code, result.out) == (3, "")
    assert "damaged" in result.err
    assert len(result.err.splitlines()) == 1


def replaced(events: list[Event], ids: dict[str, str]) -> list[Event]:
    """The events with other commit ids."""
    found: list[Event] = []
    for event in events:
        changes = {
            name: ids[value]
            for name in ("base", "commit")
            if (value := getattr(event, name, None)) in ids
        }
        found.append(event.model_copy(update=changes))
    return found


@pytest.fixture
def with_hub(home: Path, repository: Path) -> Path:
    """A finished run whose commits really are in the hub."""
    base = git(repository, "rev-parse", "HEAD")
    done = commit_on(repository, base, {"a.txt": "two\n"}, "filter\n\nOrchestrate-Task: filter\n")
    fixed = commit_on(repository, done, {"new.txt": "n\n"}, "fix\n\nOrchestrate-Task: fix\n")
    ids = {"b" * 40: base, "1" * 40: done, "3" * 40: fixed, "4" * 40: fixed}
    record(home, repository / ".git", replaced(whole(), ids))
    state = StateFolder.for_repository(repository / ".git", home)
    git(repository, "clone", "-q", "--bare", ".", str(state.hub))
    for name, commit in (("one", done), ("two", fixed)):
        git(repository, "push", "-q", str(state.hub), f"{commit}:refs/orchestrate/{name}")
    return repository


def test_diff_of_a_run_is_what_git_says(home: Path, with_hub: Path) -> None:
    result = orchestrate("diff", cwd=with_hub, home=home)
    assert (result.code, result.err) == (0, "")
    assert re.findall(r"^[+-]\w.*", result.out, re.MULTILINE) == ["-one", "+two", "+n"]
    commit_files(with_hub, {}, "the user goes on")
    (with_hub.parent / "patch").write_text(result.out, encoding="utf-8")
    git(with_hub, "apply", "--check", str(with_hub.parent / "patch"))


def test_diff_of_a_task_is_its_own_work(home: Path, with_hub: Path) -> None:
    tasks = ("fix", "nosuch", "look", "replan-1", "integrate")
    lines = [["diff", RUN, task] for task in tasks]
    fixed, unknown, *others = orchestrate_each(*lines, cwd=with_hub, home=home)
    assert re.findall(r"^[+-]\w.*", fixed.out, re.MULTILINE) == ["+n"]
    assert (unknown.code, unknown.out) == (2, "")
    assert "look, filter, integrate, replan-1, fix" in unknown.err
    for result in others:  # these hand on what they were given
        assert (result.code, result.out, result.err) == (0, "", "nothing changed\n")


def test_diff_without_a_result_or_a_hub_says_so(home: Path, repository: Path) -> None:
    record(home, repository / ".git", failing())
    result = orchestrate("diff", cwd=repository, home=home)
    assert (result.code, result.out) == (3, "")
    assert "hub.git" in result.err
