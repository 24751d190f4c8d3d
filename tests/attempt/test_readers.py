"""Attempts of roles that do not write: reports, verdicts and patches, held against the tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import PlanSettings, Task
from orchestrator.core.products import PlanPatch, Report, Verdict
from tests.attempt.rig import (
    EXPLORER,
    IMPLEMENTER,
    PLANNER,
    REVIEWER,
    Rig,
    bash,
    call,
    gate,
    turn,
)
from tests.support.repositories import Files, commit_on, git

GRAPH = GraphView(
    settings=PlanSettings(),
    roles=(IMPLEMENTER, PLANNER),
    tasks=(
        TaskView(task=Task(id="done", role="implement", prompt="x"), status="succeeded"),
        TaskView(
            task=Task(id="broken", role="implement", prompt="x", needs=("done",)), status="failed"
        ),
    ),
    mends="broken",
)


def report(*claims: JsonValue) -> dict[str, JsonValue]:
    return call("SubmitReport", summary="so", claims=list(claims))


def verdict(approve: bool, *findings: JsonValue) -> dict[str, JsonValue]:
    return call("SubmitVerdict", approve=approve, findings=list(findings))


def finding(path: str, line: int, severity: str = "error") -> dict[str, JsonValue]:
    return {"path": path, "line": line, "severity": severity, "message": "this is wrong"}


@pytest.mark.asyncio
async def test_a_red_tree_is_shown_to_no_agent(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    need = commit_on(rig.top, rig.base, {"b": "1\n"})
    rig.script(turn(report()))
    outcome = await rig.run(rig.spec(EXPLORER, gate("echo no; exit 1"), inputs={"b": need}))
    assert (outcome.status, outcome.reason) == ("failed", "gate_red")
    assert (rig.model.requests, outcome.usage.calls) == ([], 0)
    assert not (rig.state / "transcripts").exists()
    assert rig.refs() == {"rejected/work/1": need}


@pytest.mark.asyncio
async def test_a_report_hands_on_the_merge_of_its_needs(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    left = commit_on(rig.top, rig.base, {"left": "1\n"})
    right = commit_on(rig.top, rig.base, {"right": "2\n"})
    rig.script(
        turn(bash("echo changed > a.py; touch mine")),
        turn(report({"path": "left", "line": 1, "quote": "1"})),
    )
    outcome = await rig.run(rig.spec(EXPLORER, gate("true"), inputs={"l": left, "r": right}))
    assert outcome.status == "succeeded"
    assert isinstance(outcome.product, Report)
    assert [record.outcome for record in outcome.gates] == ["passed"]
    commit = outcome.commit or ""
    assert rig.refs() == {"work/1": commit}
    assert git(rig.hub.path, "log", "-1", "--format=%P|%T", commit) == (
        f"{left} {right}|{outcome.tree}"
    )
    assert git(rig.hub.path, "diff", "--name-only", rig.base, commit) == "left\nright"


@pytest.mark.asyncio
async def test_claims_that_do_not_hold_go_back_all_at_once(tmp_path: Path) -> None:
    files: Files = {
        "a.py": "x = 1\n",
        "f.txt": "one\x0cstill one\ntwo\u2028still two\n",
        "l1": b"caf\xe9\n",
    }
    rig = await Rig.make(tmp_path, files)
    good: list[JsonValue] = [
        {"path": "f.txt", "line": 2, "quote": "two"},
        {"path": "f.txt", "line": 1, "end_line": 2, "quote": "still one\ntwo"},
        {"path": "l1", "line": 1, "quote": "caf\u00e9"},
        {"path": "a.py", "line": 1, "quote": "  x   =\t1 "},
    ]
    rig.script(
        turn(
            report(
                {"path": "nowhere.py", "line": 1},
                {"path": "a.py", "line": 2},
                {"path": "a.py", "line": 1, "end_line": 9},
                {"path": "a.py", "line": 1, "quote": "x = 2"},
                {"path": "f.txt", "line": 3},
                {"path": "../../secret", "line": 1},
                {"path": "", "line": 1},
                *good,
            )
        ),
        turn(report(*good), expect="claim 1: there is no file `nowhere.py`"),
    )
    outcome = await rig.run(rig.spec(EXPLORER))
    assert outcome.status == "succeeded"
    returned = rig.model.results()[0].splitlines()
    assert [line.partition(":")[0] for line in returned[1:]] == [
        f"- claim {number}" for number in range(1, 8)
    ]
    assert "`a.py` has 1 lines, not 2 to 2" in returned[2]
    assert "`a.py:1` does not say 'x = 2'" in returned[4]


@pytest.mark.asyncio
async def test_a_claim_is_held_against_the_tree_not_against_what_the_agent_wrote(
    tmp_path: Path,
) -> None:
    rig = await Rig.make(tmp_path)
    claim: JsonValue = {"path": "proof.md", "line": 1, "quote": "it works"}
    rig.script(
        turn(bash("echo 'it works' > proof.md"), report(claim)),
        turn(say="Well.", expect="there is no file `proof.md`"),
        turn(say="Well."),
    )
    outcome = await rig.run(rig.spec(EXPLORER))
    assert (outcome.status, outcome.reason) == ("failed", "nothing_handed_in")
    assert "no file `proof.md`" in outcome.evidence
    assert (outcome.commit, rig.refs()) == (None, {})


@pytest.mark.asyncio
async def test_a_verdict_has_to_hold_together(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(verdict(False)),
        turn(verdict(True, finding("a.py", 1)), expect="you do not approve but name no finding"),
        turn(
            verdict(False, finding("a.py", 7), finding("gone.py", 1)),
            expect="you approve in spite of an error",
        ),
        turn(
            verdict(True, finding("a.py", 1, "note")),
            expect="finding 1: `a.py` has 1 lines, not 7",
        ),
    )
    outcome = await rig.run(rig.spec(REVIEWER))
    assert outcome.status == "succeeded"
    assert "- finding 2: there is no file `gone.py`" in rig.model.results()[2]
    assert isinstance(outcome.product, Verdict)
    assert outcome.product.approve


@pytest.mark.asyncio
async def test_a_verdict_against_is_a_failure_with_its_findings(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    bad = finding("a.py", 1) | {"message": "x is \x1b[8mhidden\x1b]52;c;aGk=\x07 wrong"}
    rig.script(turn(verdict(False, bad, finding("docs/n.md", 3, "warning"))))
    outcome = await rig.run(rig.spec(REVIEWER, gate("true")))
    assert (outcome.status, outcome.reason) == ("failed", "rejected")
    assert isinstance(outcome.product, Verdict)
    assert "a.py:1: error: x is " in outcome.evidence
    assert "docs/n.md:3: warning: this is wrong" in outcome.evidence
    assert "\x1b" not in outcome.evidence
    assert "\x07" not in outcome.evidence
    assert [record.outcome for record in outcome.gates] == ["passed"]
    assert (outcome.commit, outcome.usage.calls) == (None, 1)


@pytest.mark.asyncio
async def test_a_patch_that_does_not_fit_goes_back_with_all_its_problems(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    task: dict[str, JsonValue] = {"id": "mend", "role": "implement", "prompt": "Mend it."}
    rewire: JsonValue = [{"id": "broken", "needs": ["mend"]}]
    rig.script(
        turn(
            call(
                "SubmitPatch",
                add=[task | {"id": "done"}],
                drop=["unknown"],
                rewire=rewire,
                amend=[{"id": "done", "prompt": "again"}],
                why="so",
            )
        ),
        turn(
            call("SubmitPatch", add=[task | {"needs": ["done"]}], rewire=rewire, why="so"),
            expect="the patch does not fit the graph",
        ),
    )
    outcome = await rig.run(rig.spec(PLANNER, graph=GRAPH))
    assert outcome.status == "succeeded"
    assert isinstance(outcome.product, PlanPatch)
    returned = rig.model.results()[0].splitlines()[1:]
    assert [line.partition(":")[0] for line in returned] == [
        "- drop.0",
        "- add.0.id",
        "- amend.0.id",
    ]
    assert outcome.commit == rig.base


@pytest.mark.asyncio
async def test_a_patch_without_a_graph_goes_back(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    rig.script(
        turn(call("SubmitPatch", add=[], why="so")),
        turn(say="a", expect="there is no graph to patch here"),
        turn(say="b"),
    )
    outcome = await rig.run(rig.spec(PLANNER))
    assert (outcome.status, outcome.reason) == ("failed", "nothing_handed_in")
