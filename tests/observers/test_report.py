"""The report and the JSON stream: complete, parseable, and not forgeable from inside."""

from __future__ import annotations

import io
import json
import re

from orchestrator.core.machine import evolve, fold
from orchestrator.core.state import RunState
from orchestrator.observers.jsonlines import json_lines, write_result
from orchestrator.observers.report import code, fence, report_json, report_markdown, text
from tests.observers.story import BASE, FINAL, FIX, RUN, START, failing, stored, whole


def stream_of() -> list[str]:
    stream = io.StringIO()
    observe = json_lines(stream)
    state = RunState(RUN)
    for event in stored(whole()):
        observe(event, evolve(state, event))
    write_result(stream, state)
    return stream.getvalue().splitlines()


def test_the_stream_has_one_line_an_event_and_the_result_last() -> None:
    records = [json.loads(line) for line in stream_of()]
    assert [record["type"] for record in records] == [
        *(event.type for event in whole()),
        "result",
    ]
    assert {"type", "at", "run", "task", "attempt"} <= set.intersection(
        *(set(record) for record in records[:-1])
    )
    assert records[2] == {
        "type": "AttemptStarted",
        "at": START + 3,
        "run": RUN,
        "seq": 3,
        "cause": None,
        "task": "look",
        "attempt": 1,
        "limits": {"usd": None, "tokens": None, "turns": None, "minutes": None},
    }
    assert records[-1] == {
        "type": "result",
        "run": RUN,
        "status": "succeeded",
        "branch": f"orchestrate/{RUN}",
        "commit": FINAL,
        "usd": 1.25,
        "seconds": 18.0,
        "tasks": dict.fromkeys(("look", "filter", "integrate", "replan-1", "fix"), "succeeded"),
    }


def test_the_stream_is_printable_ascii() -> None:
    assert all(line.isascii() and line.isprintable() for line in stream_of())


def test_json_report_is_one_document_with_each_task() -> None:
    events = stored(whole())
    report = json.loads(report_json(fold(RUN, events), events))
    assert (report["base"], report["base_branch"], report["commit"]) == (BASE, "main", FINAL)
    assert report["usage"]["tokens"] == 15_800
    assert list(report["tasks"]) == ["look", "filter", "integrate", "replan-1", "fix"]
    task = report["tasks"]["filter"]
    assert (task["status"], task["attempts"], task["role"]) == ("succeeded", 2, "implementer")
    assert [failure["reason"] for failure in task["failures"]] == ["own_gate_red"]
    assert report["tasks"]["integrate"]["gates"][0]["outcome"] == "passed"
    assert report["tasks"]["fix"]["commit"] == FIX
    assert [one["type"] for one in report["replans"]] == ["PlanRevised", "PlanRevised"]


def test_markdown_report_tells_branch_tasks_gates_and_replans() -> None:
    events = stored(whole())
    report = report_markdown(fold(RUN, events), events)
    assert report.startswith(f"# Run {RUN}: succeeded\n")
    assert f"- Branch: `orchestrate/{RUN}` at `{FINAL}`" in report
    assert "| fix | succeeded | 1 | 1.5 | 3160 | 0.2500 | An unknown status raises" in report
    assert "- integrate failed; a planner task was added: integrate has failed" in report
    assert "- replan-1 changed the plan: The rule of the rules file was broken\n" in report
    assert "  - adds `fix`\n  - changes `integrate`" in report
    assert "`tickets/search.py:3` takes a filter" in report
    assert "- Decided: status is a keyword, because callers stay" in report
    assert "Attempt 1 failed: own_gate_red." in report
    assert "```text\n3 tests failed" in report
    assert "Gate `tests`: **passed** (0.5 s, exit 0; passed on the base)" in report


def test_Z11_a_report_cannot_be_forged_or_drive_a_terminal() -> None:
    events = stored(failing())
    report = report_markdown(fold(RUN, events), events)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", report)
    assert "\n## Forged" not in report
    assert "<script>" not in report
    headings = [line for line in report.splitlines() if line.startswith("#")]
    assert headings == [
        f"# Run {RUN}: running",
        "## Tasks",
        "### look: succeeded",
        "### filter: succeeded",
        "### integrate: failed",
    ]


def test_untrusted_text_cannot_leave_its_markdown() -> None:
    assert text("a|b <i> `c` [l](u)") == r"a\|b \<i\> \`c\` \[l\](u)"
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    fenced = list(fence("x\n````\n# y"))
    assert (fenced[0], fenced[-1]) == ("`````text", "`````")
