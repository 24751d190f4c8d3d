"""A planner's plan as a file gives the same tasks, whatever its texts say."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from orchestrator.core.events import PlanRevised
from orchestrator.core.goals import goal_plan
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import (
    Gate,
    ModelPrice,
    PlanSettings,
    RunBudget,
    Task,
    TaskDefaults,
)
from orchestrator.core.products import PlanProposal
from orchestrator.core.proposals import BYTES_MAX as PROPOSAL_BYTES_MAX
from orchestrator.core.proposals import PROPOSED_MAX, apply_plan, settings_with
from orchestrator.core.roles import Limits
from orchestrator.documents import BYTES_MAX
from orchestrator.planfile import LoadedPlan, load_plan
from orchestrator.planfile.write import plan_text
from tests.support.simulator import ROLES

USER = PlanSettings(
    name="slug",
    goal="Add a filter\nto the search",
    base="release/1.2",
    workers=3,
    budget=RunBudget(usd=2.5, minutes=30.0, replans=1),
    defaults=TaskDefaults(
        model="m",
        limits=Limits(usd=0.5, turns=20),
        attempts=3,
        timeout_s=90.0,
        gates=(Gate(name="lint", run=("ruff", "check"), timeout_s=60.0, env={"A": "on"}),),
        role_models={"implementer": "large: model"},
    ),
    context=("AGENTS.md",),
    env={"TZ": "UTC"},
    protect=("tests/", "*.lock"),
    gates=(Gate(name="make test", run="make test"),),
    overlap="serialise",
    prices={"m": ModelPrice(input=1.0, output=2.25, cache_read=1e-07)},
    approve=("plan", "replans"),
)
EXAMPLE = PlanProposal.model_validate(
    {
        "goal": "A filter",
        "name": "status filter",
        "why": "One part.\ntasks: []",
        "gates": ["make test", {"run": ["pytest", "-q"], "name": "all tests", "timeout": "2m"}],
        "context": ["README.md"],
        "tasks": [
            {
                "id": "search",
                "role": "implementer",
                "needs": [],
                "writes": ["tickets/search.py", "tests/*.py"],
                "prompt": "Add it.\n\n- keep: callers\n  as they are\n",
                "gates": [],
                "timeout": 90,
            },
            {
                "id": "docs",
                "role": "implementer",
                "needs": ["search"],
                "prompt": "Tell it.",
                "when": {"task": "search", "field": "summary", "equals": 1.0},
            },
        ],
    }
)


def tasks_in_run(proposal: PlanProposal, user: PlanSettings) -> tuple[Task, ...] | None:
    """What the run makes of it; None where it refuses."""
    (own,) = goal_plan(user, ROLES).tasks
    view = GraphView(
        settings=user,
        roles=tuple(ROLES.values()),
        tasks=(TaskView(task=own, status="running"),),
    )
    revised = apply_plan(view, proposal, "plan")
    return revised.add if isinstance(revised, PlanRevised) else None


def loaded(proposal: PlanProposal, user: PlanSettings, folder: Path) -> LoadedPlan:
    path = folder / "plan.yaml"
    path.write_text(plan_text(proposal, user), encoding="utf-8")
    return load_plan(path, ROLES)


def test_a_goal_with_a_list_in_it_comes_back_as_it_was(tmp_path: Path) -> None:
    user = PlanSettings(goal="Do these:\n- id: one\n- id: two\ntasks: many")
    assert loaded(EXAMPLE, user, tmp_path).plan.goal == user.goal


def test_the_file_is_one_that_a_person_would_write() -> None:
    text = plan_text(EXAMPLE, PlanSettings(goal="Add a filter", budget=RunBudget(usd=2.5)))
    assert text == (
        "# A plan for: Add a filter\n"
        "# Understood as: A filter\n"
        "# One part. tasks: []\n"
        "# Read it, change what you like, then: orchestrate run FILE\n"
        "\n"
        "name: status filter\n"
        "goal: Add a filter\n"
        "budget:\n"
        "  usd: 2.5\n"
        "context: [README.md]\n"
        "gates:\n"
        "  - make test\n"
        "  - name: all tests\n"
        '    run: [pytest, "-q"]\n'
        "    timeout: 120\n"
        "\n"
        "tasks:\n"
        "  - id: search\n"
        "    role: implementer\n"
        "    needs: []\n"
        '    writes: [tickets/search.py, "tests/*.py"]\n'
        "    prompt: |\n"
        "      Add it.\n"
        "\n"
        "      - keep: callers\n"
        "        as they are\n"
        "    gates: []\n"
        "    timeout: 90\n"
        "\n"
        "  - id: docs\n"
        "    role: implementer\n"
        "    needs: [search]\n"
        "    prompt: Tell it.\n"
        "    when:\n"
        "      task: search\n"
        "      field: summary\n"
        "      equals: 1.0\n"
    )


@pytest.mark.parametrize("user", [PlanSettings(goal="x"), USER], ids=["bare", "everything set"])
def test_the_file_gives_the_tasks_of_the_run_and_the_users_settings(
    user: PlanSettings, tmp_path: Path
) -> None:
    read = loaded(EXAMPLE, user, tmp_path)
    assert read.plan.tasks == tasks_in_run(EXAMPLE, user)
    kept = {"approve": tuple(item for item in user.approve if item != "plan")}
    assert read.plan.settings == settings_with(user, EXAMPLE).model_copy(update=kept)


HOSTILE = (
    *("true", "Null", "~", "", " ", "no", "y", "0o17", "1e5", "012", "-1", ".inf", ".nan", "12:30"),
    *("- a", "a: b", "a #b", "#", "? x", "!tag", "&a", "*a", "{}", "[", "%", "@", "`", "|", ">-"),
    *("---", "...", "<<", "'", '"', "\\", "a\tb", "\ta", "a\n", "\na", "a\n\n", "a \n b", " a\nb"),
    *("a\r\nb", "\r", "\x07", "\x1b[2J", "\x7f", "\x85", "\x9b", "\ufeff", "\u2028", "\u202e"),
    *("\ufffe", "\U0001f642", "é", "漢字", "\u3000x", "\xa0", "a\n---\nb: c\n", "x" * 200),
    *(
        "tasks:\n  - id: b\n",
        "\n  - id: b",
        "a\n\t\nb",
        "a\n   \nb",
        "\N{EM DASH}" * 70,
        "=",
        "null",
    ),
)
Texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=80).map(lambda text: text.replace("\0", ""))
)
Lines = st.one_of(
    st.sampled_from([text for text in HOSTILE if text.isprintable() and text]),
    st.text(string.printable, min_size=1, max_size=40).filter(str.isprintable),
)
Prompts = Texts.map(lambda text: text if text.strip() else f"Do it.{text}")
Patterns = st.lists(  # a backslash at the end is no pattern
    Lines.map(lambda text: text.replace("*", "").rstrip("\\")).filter(bool), max_size=3
)
Commands = st.one_of(
    Texts.filter(lambda text: bool(text.strip())),
    st.lists(Texts, max_size=2).map(lambda more: ["make", *more]),
)
Gates = st.lists(
    st.one_of(
        Commands,
        st.fixed_dictionaries(
            {"run": Commands},
            optional={"timeout": st.floats(0.001, 1000), "env": st.just({"A": "1"})},
        ),
    ),
    max_size=3,
)
Optional: dict[str, st.SearchStrategy[object]] = {
    "context": st.lists(Lines, max_size=3),
    "gates": Gates,
    "check": Commands,
    "model": Lines,
    "budget": st.fixed_dictionaries(
        {}, optional={"usd": st.floats(0.01, 100), "turns": st.integers(1, 99)}
    ),
    "timeout": st.one_of(st.integers(1, 10**5), st.floats(0.001, 10**5)),
    "env": st.dictionaries(st.from_regex(r"[A-Z_]{1,150}", fullmatch=True), Texts, max_size=2),
    "attempts": st.integers(1, 20),
    "on_failure": st.sampled_from(["replan", "retry", "fail"]),
}
Rest: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries({}, optional=Optional)


@st.composite
def proposals(draw: st.DrawFn) -> PlanProposal:
    """Plans with any text in every place, each writer in its own folder."""
    ids = draw(
        st.lists(
            st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}", fullmatch=True),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    tasks: list[dict[str, object]] = []
    for number, key in enumerate(ids):
        needs = draw(st.lists(st.sampled_from(ids[:number]), unique=True)) if number else []
        task: dict[str, object] = {"id": key, "needs": needs, "prompt": draw(Prompts)}
        task["role"] = draw(st.sampled_from(["implementer", "explorer"]))
        if task["role"] == "implementer":
            task["writes"] = [f"{key}/", *(f"{key}/{pattern}" for pattern in draw(Patterns))]
        task.update(draw(Rest))
        if draw(st.integers(0, 4)) == 0 and needs:
            value = draw(st.one_of(Texts, st.integers(-5, 5), st.floats(-5, 5), st.booleans()))
            task["when"] = {"task": needs[0], "field": "summary", "equals": value}
        tasks.append(task)
    values = {
        "goal": draw(Texts),
        "name": draw(Lines.map(lambda text: text[:60])),
        "context": draw(st.lists(Lines, max_size=2)),
        "gates": [*draw(Gates), "make test"],
        "why": draw(Texts),
        "tasks": tasks,
    }
    return PlanProposal.model_validate(values)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(proposal=proposals(), user=st.sampled_from([PlanSettings(goal="x"), USER]), goal=Texts)
def test_any_plan_that_the_run_takes_gives_the_same_tasks_as_a_file(
    proposal: PlanProposal, user: PlanSettings, goal: str, tmp_path: Path
) -> None:
    user = user.model_copy(update={"goal": goal})
    expected = tasks_in_run(proposal, user)
    assume(expected is not None)
    read = loaded(proposal, user, tmp_path)
    assert read.plan.tasks == expected
    assert (read.plan.goal, read.plan.name) == (goal, proposal.name)


@settings(max_examples=60, deadline=None)
@given(proposal=proposals(), goal=Texts)
def test_Z11_nothing_in_the_file_drives_a_terminal(proposal: PlanProposal, goal: str) -> None:
    text = plan_text(proposal, PlanSettings(goal=goal))
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("\ntasks:\n") == 1
    head = text[: text.index("\nname: ")] if "\nname: " in text else ""
    assert all(line.startswith("#") for line in head.splitlines())


@pytest.mark.parametrize("text", ["a\n", "\U0001f642\x1b", "\u2028", "ab", "\n", "é"])
def test_the_largest_plan_that_is_taken_is_a_file_that_can_be_read(
    text: str, tmp_path: Path
) -> None:
    size = len(json.dumps(text, ensure_ascii=False).strip('"').encode())
    times = (PROPOSAL_BYTES_MAX // PROPOSED_MAX - 500) // size
    proposal = PlanProposal.model_validate(
        {
            "tasks": [
                {"id": f"t{n}", "role": "explorer", "prompt": "x" + text * times, "needs": []}
                for n in range(PROPOSED_MAX)
            ]
        }
    )
    assert len(proposal.model_dump_json().encode()) > 0.85 * PROPOSAL_BYTES_MAX
    expected = tasks_in_run(proposal, PlanSettings())
    assert expected is not None, "it is not too large"
    assert len(plan_text(proposal, PlanSettings()).encode()) <= BYTES_MAX
    assert loaded(proposal, PlanSettings(), tmp_path).plan.tasks == expected
