"""The sample and the two bundled demos: what the scripts say is true of the files they are about.

The story of `kitebase` is acted out here without the orchestrator: its edits are applied in their
order to a copy of the sample, its commands and the plan's gates are run for real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from orchestrator.core.checks import check_plan, with_integration
from orchestrator.core.drafts import PlanDraft, resolve_plan
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.patches import apply_patch
from orchestrator.core.plan import Gate, Plan
from orchestrator.core.products import PlanPatch, Product, Report
from orchestrator.core.roles import SUBMIT_TOOLS, Role
from orchestrator.data import builtin, demo
from orchestrator.documents import load_document
from orchestrator.models.script import Call, Script, load_script
from orchestrator.roles import load_roles, role_sources
from orchestrator.tools.registry import TOOLS

NAMES = ("kitebase", "explore")
RULE = "an unknown status raises ValueError"
SEARCHED = ["KITE-139", "KITE-142", "KITE-144"]

# The interpreter of the tests is the sample's `python`, as a demo arranges it.
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def roles() -> dict[str, Role]:
    return load_roles(role_sources(bundled=builtin("roles")))


def plan(name: str) -> Plan:
    """The demo's plan as a run has it."""
    path = demo(name).plan
    draft = PlanDraft.model_validate(load_document(path.read_bytes(), str(path)).data)
    return with_integration(resolve_plan(draft, roles()), roles())


def script(name: str) -> Script:
    return load_script(demo(name).script)


def product(call: Call) -> Product:
    """What a Submit call hands in, checked as the tool checks it."""
    kind = next(kind for kind, tool in SUBMIT_TOOLS.items() if tool == call.name)
    adapter: TypeAdapter[Product] = TypeAdapter(Product)
    return adapter.validate_python({"kind": kind, **call.input})


class Copy:
    """A copy of the sample that a script's calls are applied to."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(demo("kitebase").sample, folder)
        self.root = folder

    def run(self, command: str | tuple[str, ...]) -> tuple[int, str]:
        """Exit status and both streams of a command, run as gates and agents run it."""
        shell = ["bash", "-o", "errexit", "-o", "pipefail", "-c"]
        done = subprocess.run(
            [*shell, command] if isinstance(command, str) else command,
            cwd=self.root,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            encoding="utf-8",
        )
        return done.returncode, done.stdout

    def edit(self, call: Call) -> None:
        """Replace exact text that is there exactly once."""
        path = self.root / str(call.input["file_path"])
        text, old = path.read_text(encoding="utf-8"), str(call.input["old_string"])
        assert text.count(old) == 1, f"{call.input['file_path']}: {old!r}"
        path.write_text(text.replace(old, str(call.input["new_string"])), encoding="utf-8")

    def play(self, name: str, task: str, evidence: str = "") -> list[tuple[int, str]]:
        """Act out a task's turns and check their expectations; what its commands gave.

        `evidence` is what its first turn sees of what happened before.
        """
        given: list[tuple[int, str]] = []
        results = evidence
        for turn in script(name).tasks[task]:
            assert turn.expect is None or turn.expect in results
            results = ""
            for call in turn.calls:
                if call.name == "Edit":
                    self.edit(call)
                elif call.name == "Bash":
                    given.append(self.run(str(call.input["command"])))
                    results += given[-1][1]
                elif call.name == "Read":
                    path = self.root / str(call.input["file_path"])
                    results += path.read_text(encoding="utf-8")
        return given

    def files(self) -> dict[str, bytes]:
        """Content by path."""
        paths = sorted(self.root.rglob("*"))
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    def green(self, gate: Gate) -> bool:
        return self.run(gate.run)[0] == 0


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "kitebase")


def gates(task: str) -> dict[str, Gate]:
    return {
        gate.name: gate for item in plan("kitebase").tasks if item.id == task for gate in item.gates
    }


def test_the_sample_is_green_and_finds_three_tickets(copy: Copy) -> None:
    status, output = copy.run("python -m unittest -q")
    assert status == 0
    assert "Ran 4 tests" in output
    status, output = copy.run("python -m tickets search sso")
    assert status == 0
    assert [line.split()[:2] for line in output.splitlines()] == [
        ["KITE-139", "closed"],
        ["KITE-142", "in_progress"],
        ["KITE-144", "open"],
    ]


def test_the_sample_s_readme_shows_real_output(copy: Copy) -> None:
    lines = (copy.root / "README.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("    $ python -m tickets search sso")
    _, output = copy.run("python -m tickets search sso")
    assert [line.strip() for line in lines[start + 1 : start + 4]] == output.splitlines()


def test_the_base_is_green_under_every_gate_of_integrate(copy: Copy) -> None:
    # So that a red gate later is news, whatever is made of gates that were red before.
    assert all(copy.green(gate) for gate in gates("integrate").values())


def test_the_goal_s_own_gate_is_red_on_the_base(copy: Copy) -> None:
    assert not copy.green(gates("filter")["--status open finds one ticket"])
    assert not copy.green(gates("docs")["the README shows --status"])


def test_the_first_edit_breaks_three_tests_and_the_second_mends_them(copy: Copy) -> None:
    (broken, mended) = copy.play("kitebase", "filter")
    assert broken[0] == 1
    assert "FAILED (errors=3)" in broken[1]
    assert "AttributeError: 'NoneType' object has no attribute 'lower'" in broken[1]
    assert mended[0] == 0
    assert "Ran 6 tests" in mended[1]
    assert all(copy.green(gate) for gate in gates("filter").values())


def test_the_documentation_passes_its_gate_and_shows_real_output(copy: Copy) -> None:
    copy.play("kitebase", "docs")
    assert copy.green(gates("docs")["the README shows --status"])
    copy.play("kitebase", "filter")
    readme = (copy.root / "README.md").read_text(encoding="utf-8")
    _, output = copy.run("python -m tickets search sso --status open")
    assert f"    $ python -m tickets search sso --status open\n    {output}" in readme


def test_the_rule_is_red_though_all_tests_pass_and_green_after_the_fix(copy: Copy) -> None:
    for task in ("explore-search", "explore-status", "explore-tests", "filter", "docs", "review"):
        copy.play("kitebase", task)
    integrate = gates("integrate")
    assert copy.green(integrate["unit tests"])
    status, output = copy.run(integrate[RULE].run)
    assert status == 1

    copy.play("kitebase", "replan-1", evidence=output)
    (tests, _) = copy.play("kitebase", "fix-status")
    assert "Ran 8 tests" in tests[1]
    assert all(copy.green(gate) for gate in integrate.values())
    status, output = copy.run("python -m tickets search sso --status archived")
    assert status == 2
    assert "unknown status 'archived', use one of open, in_progress, closed" in output


def test_the_planner_s_patch_fits_the_graph_when_integrating_failed() -> None:
    call = script("kitebase").tasks["replan-1"][-1].calls[-1]
    patch = product(call)
    assert isinstance(patch, PlanPatch)
    whole = plan("kitebase")
    view = GraphView(
        settings=whole.settings,
        roles=tuple(roles().values()),
        tasks=tuple(
            TaskView(task=task, status="failed" if task.id == "integrate" else "succeeded")
            for task in whole.tasks
        ),
        mends="integrate",
    )
    revised = apply_patch(view, patch, "replan-1")
    assert not isinstance(revised, list), revised
    assert [task.id for task in revised.add] == ["fix-status"]
    (integrate,) = revised.replace
    assert set(integrate.needs) == {"fix-status", "docs", "review"}
    assert [gate.name for gate in integrate.gates] == ["unit tests", RULE]


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_whole_and_without_a_warning(name: str) -> None:
    assert check_plan(plan(name), roles()) == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_task_with_an_agent_has_turns_and_hands_in_what_its_role_does(name: str) -> None:
    known = {task.id: roles()[task.role] for task in plan(name).tasks if task.role is not None}
    if name == "kitebase":
        known |= {"replan-1": roles()["planner"], "fix-status": roles()["implementer"]}
    tasks = script(name).tasks
    assert set(tasks) == set(known)
    for task, role in known.items():
        calls = [call for turn in tasks[task] for call in turn.calls]
        assert calls[-1].name == role.submit_tool
        assert {call.name for call in calls[:-1]} <= set(role.tools)
        assert product(calls[-1]).kind == role.product
        assert all(turn.say for turn in tasks[task])


@pytest.mark.parametrize("name", NAMES)
def test_each_call_has_arguments_that_its_tool_takes(name: str) -> None:
    turns = [turn for turns in script(name).tasks.values() for turn in turns]
    calls = [call for turn in turns for call in turn.calls if call.name in TOOLS]
    assert len(calls) > 10
    for call in calls:
        TOOLS[call.name].arguments.model_validate(call.input)


@pytest.mark.parametrize("name", NAMES)
def test_each_quote_stands_at_its_line_of_the_sample(name: str) -> None:
    reports = [
        product(call)
        for turns in script(name).tasks.values()
        for turn in turns
        for call in turn.calls
        if call.name == "SubmitReport"
    ]
    claims = [claim for report in reports if isinstance(report, Report) for claim in report.claims]
    assert len(claims) > 10
    for claim in claims:
        text = (demo(name).sample / claim.path).read_text(encoding="utf-8")
        lines = text.splitlines()[claim.line - 1 : claim.end_line or claim.line]
        assert claim.quote
        assert claim.quote in "\n".join(lines), f"{claim.path}:{claim.line}"


def test_exploring_writes_nothing_and_fans_out_five_questions(copy: Copy) -> None:
    whole = plan("explore")
    before = copy.files()
    for task in whole.tasks:
        copy.play("explore", task.id)
    assert copy.files() == before
    assert [task.role for task in whole.tasks] == ["explorer"] * 6
    assert len(whole.tasks[-1].needs) == 5
    assert whole.gates == ()
