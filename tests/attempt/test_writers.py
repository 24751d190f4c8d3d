"""Attempts of roles that write: what becomes a commit, what goes back, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.roles import Limits
from tests.attempt.rig import (
    DATE,
    IMPLEMENTER,
    RUN,
    TRAILERS,
    Rig,
    bash,
    call,
    gate,
    submit,
    turn,
)
from tests.support.repositories import commit_on, git


@pytest.mark.asyncio
async def test_a_change_becomes_a_commit_of_the_harness(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(call("Write", file_path="new.py", content="y = 2\n")),
        turn(submit("Add y\n\nBecause x needs it.")),
    )
    outcome = await rig.run(rig.spec(IMPLEMENTER, gate("grep y new.py")))
    assert (outcome.status, outcome.reason) == ("succeeded", None)
    commit = outcome.commit or ""
    assert rig.refs() == {"work/1": commit}
    shown = git(
        rig.hub.path, "log", "-1", "--format=%P|%T|%an|%cn|%ae|%ce|%at|%ct|%s|%b", commit
    ).split("|")
    assert shown == [
        rig.base,
        outcome.tree,
        *["orchestrate"] * 2,
        *["orchestrate@localhost"] * 2,
        *[str(DATE)] * 2,
        "work: Add y",
        f"Because x needs it.\n\n{TRAILERS}",
    ]
    assert rig.shown(commit, "new.py") == "y = 2"
    assert [(record.name, record.outcome, record.tree) for record in outcome.gates] == [
        ("tests", "passed", outcome.tree)
    ]
    assert outcome.usage.calls == 2


@pytest.mark.asyncio
async def test_a_change_stands_on_the_merge_of_its_needs(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    left = commit_on(rig.top, rig.base, {"left": "1\n"})
    right = commit_on(rig.top, rig.base, {"right": "2\n"})
    rig.script(turn(bash("cat left right > both"), submit()))
    outcome = await rig.run(rig.spec(IMPLEMENTER, inputs={"l": left, "r": right}))
    commit = outcome.commit or ""
    assert rig.shown(commit, "both") == "1\n2"
    assert git(rig.hub.path, "log", "-1", "--format=%P|%s", f"{commit}^") == (
        f"{left} {right}|work: merge l, r"
    )
    assert git(rig.hub.path, "log", "-1", "--format=%(trailers:only)", f"{commit}^").split() == [
        *("Orchestrate-Run:", RUN, "Orchestrate-Task:", "work", "Orchestrate-Attempt:", "1")
    ]


@pytest.mark.asyncio
async def test_the_same_attempt_again_makes_the_same_commit(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    left = commit_on(rig.top, rig.base, {"left": "1\n"})
    right = commit_on(rig.top, rig.base, {"right": "2\n"})
    rig.script(turn(bash("echo z > z"), submit()))
    spec = rig.spec(IMPLEMENTER, inputs={"l": left, "r": right})
    first, second = await rig.run(spec), await rig.run(spec)
    assert first == second
    assert rig.refs() == {"work/1": first.commit}


@pytest.mark.asyncio
async def test_a_red_gate_comes_back_and_the_agent_mends_it(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(bash("echo 'y = 1' > b.py"), submit("first")),
        turn(
            bash("echo 'y = 2' > b.py"),
            submit("second"),
            expect="gate `tests` failed with exit status 1",
        ),
    )
    outcome = await rig.run(rig.spec(IMPLEMENTER, gate("echo looked; grep 2 b.py")))
    assert outcome.status == "succeeded"
    assert rig.shown(outcome.commit or "", "b.py") == "y = 2"
    assert git(rig.hub.path, "rev-list", "--count", f"{rig.base}..{outcome.commit}") == "1"
    red = rig.model.results()[1]
    assert "$ echo looked; grep 2 b.py" in red
    assert "looked" in red.splitlines()
    assert "(on the base commit this gate failed)" in red


@pytest.mark.asyncio
async def test_giving_up_on_a_red_gate_keeps_the_work_for_the_next_attempt(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    tests = gate("echo the-tail; test -f b.py && test -f c.py")
    rig.script(turn(bash("echo b > b.py"), submit()), turn(say="No idea."), turn(say="Really."))
    outcome = await rig.run(rig.spec(IMPLEMENTER, tests))
    assert (outcome.status, outcome.reason) == ("failed", "own_gate_red")
    assert outcome.evidence.count("the-tail\n") == 1
    assert "Really." in outcome.evidence
    kept = outcome.commit or ""
    assert rig.refs() == {"rejected/work/1": kept}
    assert (rig.shown(kept, "b.py"), git(rig.hub.path, "rev-parse", f"{kept}^")) == ("b", rig.base)
    assert f"Orchestrate-Run: {RUN}" in git(rig.hub.path, "log", "-1", "--format=%B", kept)

    rig.script(turn(bash("cat b.py > c.py"), submit("both now")))
    again = await rig.run(rig.spec(IMPLEMENTER, tests, attempt=2, start_from=kept))
    assert again.status == "succeeded"
    commit = again.commit or ""
    assert (rig.shown(commit, "b.py"), rig.shown(commit, "c.py")) == ("b", "b")
    assert git(rig.hub.path, "rev-parse", f"{commit}^") == rig.base
    assert rig.refs() == {"rejected/work/1": kept, "work/2": commit}


@pytest.mark.asyncio
async def test_the_last_attempts_tree_handed_in_as_it_is_counts_as_a_change(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    kept = commit_on(rig.top, rig.base, {"b.py": "kept\n"})
    rig.script(turn(submit("it was done")))
    outcome = await rig.run(rig.spec(IMPLEMENTER, attempt=2, start_from=kept))
    assert outcome.status == "succeeded"
    assert rig.shown(outcome.commit or "", "b.py") == "kept"


@pytest.mark.asyncio
async def test_A03_saying_done_without_a_change_is_a_failure(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(say="All tests pass."), turn(say="All tests pass."))
    outcome = await rig.run(rig.spec(IMPLEMENTER, gate("true")))
    assert (outcome.status, outcome.reason) == ("failed", "nothing_handed_in")
    assert (outcome.commit, outcome.gates, rig.refs()) == (None, (), {})


@pytest.mark.asyncio
async def test_A03_an_empty_change_goes_back_and_no_gate_runs_for_it(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(bash("echo 'x = 1' > a.py; mkdir __pycache__; touch __pycache__/a.pyc"), submit()),
        turn(say="Nothing to do.", expect="nothing differs from what you were given"),
        turn(say="Nothing to do."),
    )
    outcome = await rig.run(rig.spec(IMPLEMENTER, gate("true")))
    assert (outcome.status, outcome.reason) == ("failed", "nothing_handed_in")
    assert "nothing differs" in outcome.evidence
    assert (outcome.commit, outcome.gates, rig.refs()) == (None, (), {})


@pytest.mark.asyncio
async def test_A11_an_edit_that_is_never_handed_in_is_kept_but_no_result(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(bash("echo 'x = 2' > a.py")), turn(say="Done."), turn(say="Done."))
    outcome = await rig.run(rig.spec(IMPLEMENTER))
    assert (outcome.status, outcome.reason) == ("failed", "nothing_handed_in")
    assert rig.refs() == {"rejected/work/1": outcome.commit}
    assert rig.shown(outcome.commit or "", "a.py") == "x = 2"


@pytest.mark.asyncio
async def test_A11_git_inside_the_workspace_does_not_commit(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    before = git(rig.top, "for-each-ref")
    rig.script(
        turn(bash("echo 'x = 2' > a.py; git add -A; git commit -m mine; true"), submit("theirs"))
    )
    outcome = await rig.run(rig.spec(IMPLEMENTER))
    assert outcome.status == "succeeded"
    log = git(rig.hub.path, "log", "--format=%s", f"{rig.base}..{outcome.commit}")
    assert log == "work: theirs"
    assert git(rig.top, "for-each-ref") == before


@pytest.mark.asyncio
async def test_A05_running_out_of_turns_is_no_success(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(*[turn(bash(f"echo {n} >> a.py"), say="fine") for n in range(3)])
    outcome = await rig.run(rig.spec(IMPLEMENTER, limits=Limits(turns=2)))
    assert (outcome.status, outcome.reason) == ("failed", "limit")
    assert len(rig.model.requests) == 2
    assert outcome.usage.calls == 2
    assert rig.shown(outcome.commit or "", "a.py") == "x = 1\n0"


@pytest.mark.asyncio
async def test_changes_outside_of_writes_or_in_protected_paths_go_back(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(bash("echo 'x = 2' > a.py; echo no > docs/n.md; rm tests/test_a.py"), submit()),
        turn(
            bash("printf 'one\\ntwo\\nthree\\n' > docs/n.md; echo ok > tests/test_a.py"),
            submit("only a"),
            expect="docs/n.md: outside of what this task writes",
        ),
    )
    outcome = await rig.run(rig.spec(IMPLEMENTER, writes=("*.py", "!tests/")))
    assert outcome.status == "succeeded"
    changed = git(rig.hub.path, "diff", "--name-only", rig.base, outcome.commit or "")
    assert changed == "a.py"

    rig.script(
        turn(bash("echo 'x = 3' > a.py; echo assert True > tests/test_a.py"), submit()),
        turn(say="I will not.", expect="tests/test_a.py: protected"),
        turn(say="No."),
    )
    refused = await rig.run(rig.spec(IMPLEMENTER, attempt=2))
    assert (refused.status, refused.reason) == ("failed", "nothing_handed_in")
    assert "tests/test_a.py: protected" in refused.evidence
    assert rig.shown(refused.commit or "", "tests/test_a.py") == "assert True"


@pytest.mark.asyncio
async def test_the_gate_sees_nothing_that_the_agent_left_lying_about(tmp_path: Path) -> None:
    files = {"a.py": "x = 1\n", ".gitignore": "*.local\n"}
    rig = await Rig.make(tmp_path, files)
    left = "touch conf.local; mkdir -p node_modules __pycache__; touch node_modules/m __pycache__/c"
    rig.script(turn(bash(f"{left}; echo 'x = 2' > a.py"), submit()))
    outcome = await rig.run(rig.spec(IMPLEMENTER, gate("ls -A; test -f conf.local")))
    assert outcome.status == "failed"
    rig.script(turn(bash(f"{left}; echo 'x = 2' > a.py"), submit()))
    seen = await rig.run(rig.spec(IMPLEMENTER, gate("ls -A"), attempt=2))
    assert seen.gates[0].tail.splitlines() == [".git", ".gitignore", "a.py"]
    assert [line.partition(":")[0] for line in seen.left_out] == ["__pycache__", "node_modules"]


@pytest.mark.asyncio
async def test_a_name_that_is_no_unicode_is_listed_and_harms_nobody(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(turn(bash("mkdir $'\\377.egg-info'; echo 'x = 2' > a.py"), submit()))
    outcome = await rig.run(rig.spec(IMPLEMENTER))
    assert outcome.status == "succeeded"
    assert len(outcome.left_out) == 1
    assert outcome.left_out[0].endswith(".egg-info: artefact folder")

    rig.script(
        turn(bash("echo 'x = 3' > a.py; touch $'\\377'"), submit()), turn(say="a"), turn(say="b")
    )
    refused = await rig.run(rig.spec(IMPLEMENTER, attempt=2))
    assert (refused.status, refused.reason) == ("failed", "nothing_handed_in")
    assert "not a plain file name" in refused.evidence
