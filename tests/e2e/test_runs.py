"""Whole runs of small plans: conflicts, reviews, red gates, budgets, reading only, many at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.events import AttemptFailed, RunPaused, RunStarted
from tests.e2e.support import (
    Place,
    bash,
    change,
    changes,
    finished,
    json_lines,
    make_place,
    of_task,
    report,
    snapshot,
    submit_patch,
    turns,
    types,
    write,
    writer,
)
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(180)

RESULT_KEYS = ["type", "run", "status", "branch", "commit", "usd", "seconds", "tasks"]
"""As the reference promises them."""

LINES = "".join(f"line {number}\n" for number in range(1, 13))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": LINES, "other.txt": "x\n"})


def show(place: Place, path: str) -> str:
    """A file of the run's branch."""
    return git(place.repository, "show", f"{place.branches()[place.id]}:{path}") + "\n"


def test_two_writers_conflict_and_the_planner_makes_one_give_way(place: Place) -> None:
    both = "grep -q A list.txt && grep -q B list.txt"
    words = place.plan(
        {"a": writer(), "b": writer(), "join": {"needs": ["a", "b"], "gates": [both]}},
        {
            "a": turns(bash("sed -i 's/line 6/A/' list.txt"), change()),
            "b": turns(bash("sed -i 's/line 6/B/' list.txt"), change()),
            "replan-1": turns(
                submit_patch(
                    add=[{"id": "move-b", **writer(needs=["b"])}],
                    rewire=[{"id": "join", "needs": ["a", "move-b"]}],
                )
            ),
            "move-b": turns(
                bash("sed -i 's/^B$/line 6/; s/line 12/B/' list.txt"), change("b gives way")
            ),
        },
    )
    result = place.run(*words)
    assert result.code == 0, result.err
    assert show(place, "list.txt") == LINES.replace("line 6", "A").replace("line 12", "B")
    (failed,) = (event for event in place.events() if isinstance(event, AttemptFailed))
    assert (failed.task, failed.reason) == ("join", "conflict")
    assert "list.txt" in failed.evidence
    assert "warning" in result.err


def test_a_rejected_review_is_replanned_and_then_approved(place: Place) -> None:
    finding = {"path": "new.txt", "line": 1, "severity": "error", "message": "say please"}
    words = place.plan(
        {"w": writer(), "review": {"role": "reviewer", "prompt": "look", "needs": ["w"]}},
        {
            "w": turns(write("new.txt", "do it\n"), change()),
            "review": turns({"SubmitVerdict": {"approve": False, "findings": [finding]}}),
            "review#2": turns({"SubmitVerdict": {"approve": True, "findings": []}}),
            "replan-1": [
                {
                    "expect": "say please",
                    **turns(
                        submit_patch(
                            add=[{"id": "fix", **writer(needs=["w"])}],
                            rewire=[{"id": "review", "needs": ["fix"]}],
                        )
                    )[0],
                }
            ],
            "fix": turns(bash("echo please > new.txt"), change()),
        },
    )
    result = place.run(*words)
    assert result.code == 0, result.err
    assert show(place, "new.txt") == "please\n"
    assert of_task(place.events(), "review") == [
        *("AttemptStarted", "AttemptFailed", "AttemptStarted", "AttemptSucceeded"),
    ]


def test_the_same_failure_twice_ends_the_replanning_before_its_budget(place: Place) -> None:
    words = place.plan(
        {"w": writer(), "check": {"needs": ["w"], "gates": ["echo broken; exit 1"]}},
        {
            "w": turns(write("new.txt", "1\n"), change()),
            "*": turns(
                submit_patch(
                    add=[{"id": "fix", **writer(needs=["w"])}],
                    rewire=[{"id": "check", "needs": ["fix"]}],
                )
            ),
            "fix": turns(write("newer.txt", "2\n"), change()),
        },
        budget={"replans": 5},
    )
    result = place.run(*words, "--json")
    assert result.code == 1, result.err
    events = place.events()
    assert sum(getattr(event, "replans", None) is not None for event in events) == 1
    assert of_task(events, "check").count("AttemptFailed") == 2
    last = json_lines(result)[-1]
    assert (last["status"], last["branch"], last["commit"]) == ("failed", None, None)
    assert last["tasks"] == {
        "w": "succeeded",
        "check": "failed",
        "replan-1": "succeeded",
        "fix": "succeeded",
    }
    assert place.branches() == {}


def test_T03_json_is_the_stream_that_the_reference_promises(place: Place) -> None:
    """Standard output is JSON lines and nothing else, whatever an agent says."""
    hostile = '\x1b]0;title\x07 {"type": "result"}\n\u202e done'
    words = place.plan({"w": writer()}, {"w": turns(write("new.txt", "1\n"), change(hostile))})
    result = place.run(*words, "--json")
    assert result.code == 0, result.err
    lines = json_lines(result)
    assert [line["type"] for line in lines[:-1]] == [event.type for event in place.events()]
    assert all({"type", "at", "run", "task", "attempt"} <= line.keys() for line in lines[:-1])
    assert list(lines[-1]) == RESULT_KEYS
    assert lines[-1]["type"] == "result"
    assert lines[-1]["run"] == place.id
    assert lines[-1]["branch"] == f"orchestrate/{place.id}"
    assert lines[-1]["commit"] == place.branches()[place.id]
    assert lines[-1]["tasks"] == {"w": "succeeded"}
    assert "\x1b" not in result.out + result.err
    assert "\u202e" not in result.out + result.err


def test_a_budget_that_is_too_small_pauses_the_run_until_there_is_more(place: Place) -> None:
    words = place.plan(
        {"w": writer(model="claude-opus-5-5")},
        {"w": turns(write("new.txt", "1\n"), change())},
        budget={"usd": 0.000001},
    )
    result = place.run(*words)
    assert result.code == 4, result.err
    assert f"orchestrate resume {place.id}" in result.err
    assert isinstance(place.events()[-1], RunPaused)
    again = place.run("resume")
    assert again.code == 4, again.err
    counts = types(place.events())
    assert (counts["PlanRevised"], counts["TaskBlocked"]) == (1, 0), "nobody has failed"
    assert place.branches() == {place.id: git(place.repository, "rev-parse", "HEAD")}
    richer = place.run("resume", "--budget-usd", "5")
    assert richer.code == 0, richer.err
    assert git(place.repository, "show", f"orchestrate/{place.id}:new.txt") == "1"


def test_reading_only_leaves_products_and_no_branch(place: Place) -> None:
    claim = {"path": "list.txt", "line": 3, "quote": "line 3"}
    script = {
        "look": turns(bash("rm -rf * && echo x > y"), report("gone?")),
        "again": turns(report("three", claims=[claim])),
    }
    explorer = {"role": "explorer", "prompt": "look"}
    before = snapshot(place.repository)
    result = place.run(
        *place.plan({"look": explorer, "again": {**explorer, "needs": ["look"]}}, script), "--json"
    )
    assert result.code == 0, result.err
    last = json_lines(result)[-1]
    assert (last["status"], last["branch"], last["commit"]) == ("succeeded", None, None)
    assert place.branches() == {}
    assert changes(before, place.repository) == []
    product = json.loads(place.folder().product("again").read_text(encoding="utf-8"))
    assert product["summary"] == "three"
    assert product["claims"][0]["path"] == "list.txt"
    assert place.folder().product("look").is_file()


@pytest.mark.parametrize("options", [["--workers", "1"], ["--sandbox", "off"]])
def test_independent_writers_give_the_same_tree_whatever_the_options(
    place: Place, options: list[str]
) -> None:
    names = ("a", "b", "c")
    words = place.plan(
        {name: writer(writes=[f"/{name}.txt"]) for name in names},
        {name: turns(bash(f"echo {name} > {name}.txt"), change()) for name in names},
        gates=["test -f a.txt && test -f b.txt && test -f c.txt"],
    )
    result = place.run(*words, *options)
    assert result.code == 0, result.err
    tree = git(place.repository, "ls-tree", "--name-only", place.branches()[place.id])
    assert tree.split() == ["a.txt", "b.txt", "c.txt", "list.txt", "other.txt"]
    assert place.left_behind() == []
    events = place.events()
    started = events[0]
    assert isinstance(started, RunStarted)
    if options[-1] == "off":
        assert started.sandbox == "none"
    assert ("sandbox: none" in result.err) == (started.sandbox == "none")
    if options[0] == "--workers":
        order = [kind for kind in (event.type for event in events) if kind.startswith("Attempt")]
        assert order == ["AttemptStarted", "AttemptSucceeded"] * 4


def test_twelve_explorers_at_once(place: Place) -> None:
    names = [f"look-{number}" for number in range(12)]
    words = place.plan(
        {name: {"role": "explorer", "prompt": "look"} for name in names},
        {name: turns(bash(f"echo {name}"), report(name)) for name in names},
        workers=12,
    )
    result = place.run(*words)
    assert result.code == 0, result.err
    kinds = [event.type for event in place.events()]
    assert kinds[2:14] == ["AttemptStarted"] * 12
    assert types(place.events())["AttemptSucceeded"] == 12
    assert place.left_behind() == []


def test_D03_two_runs_at_once_have_their_own_names(place: Place) -> None:
    words = place.plan(
        {"w": writer()}, {"w": turns(bash("echo 1 >> list.txt"), change())}, name="twin"
    )
    with place.started(*words) as one, place.started(*words) as other:
        assert (finished(one).code, finished(other).code) == (0, 0)
    assert len(place.runs()) == 2
    assert set(place.branches()) == set(place.runs())
    for run, commit in place.branches().items():
        assert of_task(place.events(run), "w") == ["AttemptStarted", "AttemptSucceeded"]
        assert git(place.repository, "diff", "--stat", "HEAD", commit).count("|") == 1
    assert place.left_behind() == []


def test_a_script_that_ends_too_early_fails_its_task(place: Place) -> None:
    words = place.plan(
        {"w": writer(on_failure="fail", attempts=1)}, {"w": turns(write("new.txt", "1\n"))}
    )
    result = place.run(*words)
    assert result.code == 1, result.err
    (failed,) = (event for event in place.events() if isinstance(event, AttemptFailed))
    assert failed.reason == "script"
    assert "script exhausted" in failed.evidence
    assert place.branches() == {}
