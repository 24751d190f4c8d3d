"""Where answers come from: options that exclude each other, keys, servers that stop answering."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.core.events import RunPaused
from tests.cli.inside import run_inside
from tests.cli.program import Result, orchestrate_each
from tests.e2e.support import (
    Call,
    Place,
    change,
    changes,
    make_place,
    of_task,
    snapshot,
    turns,
    types,
    write,
    write_yaml,
    writer,
)
from tests.support.api.answer import Outage
from tests.support.api.conversation import Conversation, Policy, script_policy, thoughtful
from tests.support.api.server import KEY, ApiServer
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

READ: Call = {"Read": {"file_path": "list.txt"}}
CREDIT = Outage(
    400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
)
REVOKED = Outage(401, "authentication_error", "invalid x-api-key")
FAR = Outage(429, "rate_limit_error", "This would exceed your limit", {"retry-after": "90000"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


def plan(place: Place) -> Path:
    """Two writers, one after the other."""
    tasks = {
        "a": writer(writes=["/a.txt"]),
        "b": writer(writes=["/b.txt"], needs=["a"], gates=["test -f a.txt -a -f b.txt"]),
    }
    return write_yaml(place.repository.parent / "plan.yaml", {"tasks": tasks})


def script() -> dict[str, list[dict[str, object]]]:
    return {
        name: turns(READ, write(f"{name}.txt", f"{name}\n"), change(name)) for name in ("a", "b")
    }


def policy() -> Policy:
    return thoughtful(script_policy(script()))


def refused(place: Place, *lines: tuple[str, ...], **variables: str) -> list[str]:
    """Run command lines that must not leave a trace; the one line that each says."""
    before = snapshot(place.repository)
    repository = ("--repo", str(place.repository))
    results = [run_inside(*line, *repository, home=place.home, **variables) for line in lines]
    for line, result in zip(lines, results, strict=True):
        assert (result.code, result.out) == (2, ""), (line, result)
    assert changes(before, place.repository) == []
    assert place.branches() == {}
    assert not place.home.exists()
    return [result.err for result in results]


def test_options_that_exclude_each_other_are_one_line(place: Place) -> None:
    file = str(plan(place))
    words = {"--scripted": "s.yaml", "--replay": "r.jsonl", "--base-url": "http://localhost:1"}
    scripted, replay, url = ((name, value) for name, value in words.items())
    told = refused(
        place,
        ("run", file, *scripted, *url),
        ("run", file, *scripted, *replay),
        ("plan", "a goal", *replay, *url),
        ("run", file, *scripted, *replay, *url),
        ("run", file, *replay, "--record", "new.jsonl"),
    )
    for line, named in zip(
        told,
        (
            ("--scripted", "--base-url"),
            ("--scripted", "--replay"),
            ("--replay", "--base-url"),
            ("--scripted", "--replay", "--base-url"),
            ("--record", "--replay"),
        ),
        strict=True,
    ):
        assert line.count("\n") == 1
        assert all(name in line for name in named), line
    for line in refused(
        place,
        ("run", file, "--goal", "a goal", *scripted),
        ("run", *scripted),
        ("run", "--goal", " ", *scripted),
        ("plan", "", *scripted),
        ("plan", "x" * 20_001, *scripted),
        ("plan", "goal \udcff", *scripted),
        ("plan", *scripted),
    ):
        said, hint = line.splitlines()
        assert "goal" in said or "TEXT" in said
        assert hint.startswith("see `orchestrate ")
        assert len(said) < 200


def test_records_that_cannot_be_are_refused_before_anything_else(place: Place) -> None:
    file, folder = str(plan(place)), place.repository.parent
    answers = write_yaml(folder / "script.yaml", {"tasks": script()})
    run = ("run", file, "--scripted", str(answers))
    (folder / "not.jsonl").write_text("{}\n[" + "[" * 9_000, encoding="utf-8")
    told = refused(
        place,
        (*run, "--record", str(folder / "nosuch" / "new.jsonl")),
        (*run, "--record", str(folder)),
        (*run, "--record", file),
        ("run", file, "--replay", str(folder / "nosuch.jsonl")),
        ("run", file, "--replay", str(folder)),
        ("run", file, "--replay", file),
        ("run", file, "--replay", str(folder / "not.jsonl")),
    )
    parts = ("folder", "folder", "new file", "nosuch", "irectory", "yaml:1: ", "not.jsonl:1: ")
    for part, line in zip(parts, told, strict=True):
        assert part in line
        assert line.count("\n") == 1
    assert Path(file).read_text(encoding="utf-8").startswith("tasks:")


def test_without_a_key_it_says_what_to_set(place: Place) -> None:
    file = str(plan(place))
    lines = (
        ("run", file),
        ("run", "--goal", "a goal", "--yes"),
        ("plan", "a goal"),
        ("run", file, "--base-url", "https://api.anthropic.com"),
    )
    for line in refused(place, *lines):
        assert line == "no key: set ANTHROPIC_API_KEY, or name a server with --base-url\n"
    for line in refused(place, *lines, ANTHROPIC_API_KEY="two words"):
        assert line.startswith("ANTHROPIC_API_KEY: ")
        assert "two words" not in line
    (line,) = refused(place, ("run", file, "--base-url", "https://me:secret@host"))
    assert line.startswith("--base-url: ")
    assert "secret" not in line


def test_a_real_model_runs_commands_in_no_sandbox_only_when_told_to(
    place: Place, tmp_path: Path
) -> None:
    programs, found = tmp_path / "bin", shutil.which("git")
    assert found is not None
    programs.mkdir()
    (programs / "git").symlink_to(found)
    before, file = snapshot(place.repository), str(plan(place))
    with ApiServer(policy()) as server:
        lines = (("run", file), ("run", "--goal", "a goal", "--yes"), ("plan", "a goal"))
        results = orchestrate_each(
            *((*line, "--base-url", server.url) for line in lines),
            cwd=place.repository,
            home=place.home,
            PATH=str(programs),
            ANTHROPIC_API_KEY=KEY,
        )
        assert server.log == []
    for result in results:
        assert (result.code, result.out) == (3, "")
        assert "--sandbox off" in result.err.splitlines()[-1]
        assert "bubblewrap" in result.err.splitlines()[-1]
    assert not place.home.exists()
    assert changes(before, place.repository) == []
    assert place.branches() == {}


def inside(place: Place, *words: str, **variables: str) -> Result:
    """The program on the repository, without a start of its own and without a sandbox."""
    options = ("--repo", str(place.repository), "--sandbox", "off")
    return run_inside(*words, *options, home=place.home, **variables)


@pytest.mark.parametrize(
    ("outage", "advice"),
    [
        pytest.param(CREDIT, "credit", id="no credit"),
        pytest.param(REVOKED, "ANTHROPIC_API_KEY", id="key revoked"),
        pytest.param(FAR, "1,500 minutes", id="far reset"),
    ],
)
def test_L03_L16_a_server_that_stops_pauses_the_run_and_another_one_goes_on(
    place: Place, outage: Outage, advice: str
) -> None:
    def before(conversation: Conversation) -> Outage | None:
        return outage if (conversation.task, conversation.turn) == ("b", 1) else None

    with ApiServer(policy()) as server, ApiServer(policy()) as other:
        server.state.before = before
        result = inside(
            place,
            *("run", str(plan(place))),
            ANTHROPIC_API_KEY=KEY,
            ANTHROPIC_BASE_URL=server.url,
        )
        assert result.code == 4, result.err
        assert f"go on:  orchestrate resume {place.id}" in result.out
        assert advice in result.out
        assert outage.message in result.out
        paused = place.events()[-1]
        assert isinstance(paused, RunPaused)
        assert paused.reason == "provider"
        assert (paused.until is not None) == (outage is FAR)
        assert ("UTC" in result.out) == (outage is FAR)
        said = len(server.log)

        gone = inside(place, "resume")
        assert (gone.code, gone.out) == (2, ""), "no key any more"
        assert gone.err == "no key: set ANTHROPIC_API_KEY, or name a server with --base-url\n"
        both = inside(place, "resume", "--base-url", other.url, "--scripted", "s.yaml")
        assert (both.code, both.out) == (2, "")
        assert place.events()[-1] == paused, "nothing was journaled"

        moved = inside(place, "resume", "--base-url", other.url, ANTHROPIC_API_KEY=KEY)
        assert moved.code == 0, moved.err
        assert len(server.log) == said, "the first server is left alone"
        assert {(item.task, item.status) for item in other.log} == {("b", 200)}
    events = place.events()
    assert of_task(events, "a") == ["AttemptStarted", "AttemptSucceeded"]
    assert types(events)["AttemptFailed"] == 0
    assert types(events)["PlanRevised"] == 1
    names = git(place.repository, "ls-tree", "--name-only", place.branches()[place.id])
    assert names.split() == ["a.txt", "b.txt", "list.txt"]
    assert place.left_behind() == []


def test_land_needs_a_branch_before_anything_is_paid_for(place: Place) -> None:
    git(place.repository, "checkout", "-q", "--detach")
    answers = write_yaml(place.repository.parent / "script.yaml", {"tasks": script()})
    (line,) = refused(place, ("run", str(plan(place)), "--scripted", str(answers), "--land"))
    assert line.startswith("--land: ")
    assert "git switch" in line


def test_a_planner_is_needed_for_a_goal(place: Place, tmp_path: Path) -> None:
    roles = tmp_path / "roles"
    roles.mkdir()
    (roles / "planner.md").write_text(
        "---\nname: planner\ndescription: d\ntools: Read\norchestrate: {product: report}\n---\nR",
        encoding="utf-8",
    )
    told = refused(
        place,
        ("plan", "a goal", "--roles", str(roles), "--base-url", "http://localhost:1"),
        ("run", "--goal", "a goal", "--roles", str(roles), "--base-url", "http://localhost:1"),
    )
    for line in told:
        assert "planner" in line
        assert line.count("\n") == 1


def test_nothing_and_what_is_no_text_are_no_values(place: Place) -> None:
    file = str(plan(place))
    cases = [("--model", value) for value in ("", " ", "m\udcff", "m\x1b[2J")]
    cases += [(option, "") for option in ("--record", "--replay", "--scripted", "--roles")]
    told = refused(place, *(("run", file, *case) for case in cases))
    for (option, _), lines in zip(cases, told, strict=True):
        said, hint = lines.splitlines()
        assert option in said
        assert hint == "see `orchestrate run --help`"
    nowhere = run_inside("run", file, "--repo", "", home=place.home)
    assert (nowhere.code, nowhere.out) == (2, ""), "an unset variable is not the working folder"


def test_a_script_out_of_a_pipe_is_refused(place: Place) -> None:
    text = write_yaml(place.repository.parent / "script.yaml", {"tasks": script()}).read_bytes()
    end, other = os.pipe()
    os.write(other, text)
    os.close(other)
    (told,) = refused(place, ("run", str(plan(place)), "--scripted", f"/dev/fd/{end}"))
    os.close(end)
    assert told == f"--scripted /dev/fd/{end}: can be read only once; name a regular file\n"
