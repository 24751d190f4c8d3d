"""Submit tools, the todo list, the registry: names and arguments that scripts depend on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.products import (
    Change,
    Claim,
    Decision,
    Finding,
    PlanPatch,
    PlanProposal,
    Report,
    Verdict,
)
from orchestrator.core.roles import ProductKind
from orchestrator.errors import UsageError
from orchestrator.ports import ToolError
from orchestrator.tools.registry import TOOLS, build_tools
from orchestrator.tools.submit import parse_product, submit_spec
from tests.tools.trees import bench_of

ARGUMENTS = {
    "Bash": {"command", "timeout", "description"},
    "Edit": {"file_path", "old_string", "new_string", "replace_all"},
    "Glob": {"pattern", "path"},
    "Grep": {"pattern", "path", "glob", "output_mode", "-i", "-n", "head_limit"},
    "Read": {"file_path", "offset", "limit"},
    "TodoWrite": {"todos"},
    "Write": {"file_path", "content"},
}


def test_tools_have_the_documented_arguments() -> None:
    specs = [tool.spec for tool in build_tools(list(reversed(TOOLS)))]
    assert [spec.name for spec in specs] == sorted(ARGUMENTS)
    assert {spec.name: set(spec.input_schema["properties"]) for spec in specs} == ARGUMENTS
    assert all(spec.input_schema["additionalProperties"] is False for spec in specs)
    todo = next(spec for spec in specs if spec.name == "TodoWrite")
    assert set(todo.input_schema["$defs"]["TodoItem"]["properties"]) == {
        "content",
        "status",
        "activeForm",
    }


def test_an_unknown_tool_is_named() -> None:
    with pytest.raises(UsageError, match=r"tools: RunGate, Run \(there are|tools: Run, RunGate"):
        build_tools(["Read", "RunGate", "Run"])


@pytest.mark.parametrize(
    ("kind", "name", "fields"),
    [
        ("report", "SubmitReport", {"summary", "claims", "items", "discoveries"}),
        ("change", "SubmitChange", {"summary", "decisions", "discoveries"}),
        ("verdict", "SubmitVerdict", {"approve", "findings"}),
        ("patch", "SubmitPatch", {"add", "drop", "rewire", "amend", "why"}),
        ("plan", "SubmitPlan", {"goal", "name", "context", "gates", "tasks", "why"}),
    ],
)
def test_submit_tools_have_the_documented_fields(
    kind: ProductKind, name: str, fields: set[str]
) -> None:
    spec = submit_spec(kind)
    assert spec.name == name
    assert set(spec.input_schema["properties"]) == fields
    assert "kind" not in spec.input_schema.get("required", [])
    json.dumps(spec.input_schema)


def test_P09_the_schema_of_a_plan_asks_for_the_needs_of_each_task() -> None:
    schema = submit_spec("plan").input_schema
    assert schema["required"] == ["tasks"]
    assert schema["$defs"]["ProposedTaskDraft"]["required"] == ["id", "needs"]
    with pytest.raises(ToolError, match=r"tasks\.1\.needs: Field required"):
        parse_product("plan", {"tasks": [{"id": "a", "needs": []}, {"id": "b", "prompt": "x"}]})
    plan = parse_product("plan", {"tasks": [{"id": "a", "needs": []}, {"id": "b", "needs": "a"}]})
    assert isinstance(plan, PlanProposal)
    assert [task.needs for task in plan.tasks] == [(), ("a",)]


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        ([{"id": "a", "needs": []}, "a"], "tasks.1: a task must be a mapping of keys, not text"),
        ([{"id": "a", "needs": [{"id": "b"}]}], "tasks.0.needs.0: Input should be a valid string"),
        ([{"id": "a", "needs": ["B!"]}], "tasks.0.needs.0: is no task id: `B!`"),
    ],
)
def test_P08_a_malformed_edge_refuses_the_whole_plan(tasks: object, fault: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_product("plan", {"tasks": tasks})
    assert fault in str(caught.value)


def test_arguments_become_products() -> None:
    report = parse_product(
        "report", {"summary": "s", "claims": [{"path": "a.py", "line": 3, "quote": "x"}]}
    )
    assert report == Report(summary="s", claims=(Claim(path="a.py", line=3, quote="x"),))
    change = parse_product("change", {"summary": "s", "decisions": [{"what": "w", "why": "y"}]})
    assert change == Change(summary="s", decisions=(Decision(what="w", why="y"),))
    finding = {"path": "a.py", "line": 1, "severity": "error", "message": "m"}
    verdict = parse_product("verdict", {"approve": False, "findings": [finding]})
    assert verdict == Verdict(
        approve=False,
        findings=(Finding(path="a.py", line=1, severity="error", message="m"),),
    )
    patch = parse_product("patch", {"add": [{"id": "fix", "needs": "filter"}], "why": "red"})
    assert isinstance(patch, PlanPatch)
    assert patch.add[0].needs == ("filter",)


def test_a_faulty_product_names_each_fault() -> None:
    with pytest.raises(ToolError) as caught:
        parse_product("report", {"claims": [{"path": "a.py", "line": 0}], "sumary": "s"})
    text = str(caught.value)
    assert "summary: Field required" in text
    assert "claims.0.line: Input should be greater than or equal to 1" in text
    assert "sumary: Extra inputs are not permitted" in text


def test_many_faults_are_counted_and_not_all_told() -> None:
    with pytest.raises(ToolError, match="and 42 more"):
        parse_product("verdict", {"approve": True, **{f"x{n}": n for n in range(50)}})


@pytest.mark.asyncio
async def test_the_list_is_recited_with_exactly_one_in_progress(tmp_path: Path) -> None:
    def todos(*statuses: str) -> list[dict[str, str]]:
        return [{"content": f"step {s}", "status": s, "activeForm": "x"} for s in statuses]

    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        recited = await bench.use("TodoWrite", todos=todos("completed", "in_progress", "pending"))
        assert recited == (
            "1. [completed] step completed\n2. [in_progress] step in_progress\n"
            "3. [pending] step pending\n[1 of 3 completed]"
        )
        assert "[2 of 2 completed]" in await bench.use(
            "TodoWrite", todos=todos("completed", "completed")
        )
        for wrong in (("pending",), ("in_progress", "in_progress"), ("completed", "pending")):
            error = await bench.error("TodoWrite", todos=todos(*wrong))
            assert "exactly one must be, until all are completed" in error
