"""Plans that stand in a reply's text: found where they are, and nothing else taken for one."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent.written import Written, written_product
from orchestrator.core.roles import ProductKind

PLAN = {"tasks": [{"id": "a", "needs": []}], "why": "One part {it is}."}
JSON = json.dumps(PLAN, indent=2)
YAML = "why: One part {it is}.\ntasks:\n  - id: a\n    needs: []\n"


def found(text: str, kind: ProductKind = "plan") -> object:
    """The arguments that stand in a text, or the fault that is told of them."""
    written = written_product(kind, text)
    return written if written is None else written.fault or written.arguments


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        json.dumps(PLAN),
        f"```json\n{JSON}\n```",
        f"Here is the plan:\n\n```json\n{JSON}\n```\nIt has one task.",
        f"```\n{JSON}\n```",
        f"``` JSON \n{JSON}\n``` ",
        f"```yaml\n{YAML}```",
        f"I looked at the {{code}} and f({{}}).\nMy plan is {json.dumps(PLAN)}, as asked.",
        f"```python\nx = {{'tasks': 1}}\n```\nSo:\n{JSON}",
        f'```json\n{{"answer": 42}}\n```\nand\n```json\n{JSON}\n```',
        f"```json\n{JSON[:-1]},  # a comma too many, and a comment\n}}\n```",
        f"```json\n{JSON}\n",
    ],
    ids=[
        *("whole", "one line", "fence", "fence in prose", "fence without a language", "capitals"),
        *("yaml", "braces before", "another fence", "two fences", "yaml's grace", "open fence"),
    ],
)
def test_P05_a_plan_in_text_is_found(text: str) -> None:
    assert found(text) == PLAN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I am done: the plan has three tasks.",
        "{",
        "{}",
        '{"answer": {"tasks": []}}',
        "[1, {}]",
        "```json\n[]\n```",
        "```\nmake test\n```",
        "tasks: I have none {yet}",
    ],
)
def test_text_without_a_plan_holds_none(text: str) -> None:
    assert found(text) is None


@pytest.mark.parametrize("kind", ["report", "change", "verdict"])
def test_only_plans_and_patches_are_taken_from_text(kind: ProductKind) -> None:
    assert found('{"summary": "done", "tasks": []}', kind) is None


def test_a_patch_is_told_by_its_own_keys() -> None:
    assert found('So: {"drop": ["a"], "why": "x"}', "patch") == {"drop": ["a"], "why": "x"}
    assert found('{"tasks": []}', "patch") is None
    assert found('{"drop": []}', "plan") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"tasks": [}', "this cannot be read as JSON: Expecting value"),
        ('{"tasks": [{"id": "a", "needs": []}', "this cannot be read as JSON: Expecting"),
        ("```json\n{'tasks': [}\n```", "this cannot be read as JSON"),
        ("```yaml\ntasks:\n\t- id: a\n```", "the block:2: there is a tab in the indentation"),
        ("```yaml\ntasks: &a [*a]\n```", "the block:1: `&a` contains itself"),
        ('{"tasks": [], "tasks": []}', "the key 'tasks' stands twice"),
        ('{"tasks": [NaN]}', "NaN is no number"),
        ('{"tasks": ' + "[" * 100_000, "this cannot be read as JSON"),
        ('{"tasks": [' + "9" * 5_000 + "]}", "this cannot be read as JSON"),
        ("```\ntasks: " + "[" * 500 + "\n```", "the block:1: is nested deeper"),
        ("```python\n{'tasks': []}\n```", "this cannot be read as JSON"),
    ],
)
def test_what_was_meant_as_a_plan_and_cannot_be_read_is_told(text: str, fault: str) -> None:
    told = found(text)
    assert isinstance(told, str)
    assert fault in told


def test_a_plan_that_can_be_read_goes_before_one_that_cannot() -> None:
    assert found(f'{{"tasks": oops}}\n\n{JSON}') == PLAN


def test_P14_hostile_text_costs_little() -> None:
    began = time.process_time()
    for text in (
        "```json\n" * 100_000,
        "{" * 1_000_000,
        '{"tasks":' * 100_000,
        '{"a":[' * 100_000,
        "`" * 1_000_000,
        '"tasks":{' * 100_000,
        "x" * 2_000_000 + JSON,
    ):
        written = written_product("plan", text)
        assert written is None or written.fault
    assert time.process_time() - began < 20, "a second or two of work, not minutes"


@given(before=st.text(max_size=60), after=st.text(max_size=60), prompt=st.text(max_size=60))
def test_whatever_stands_around_it_a_fenced_plan_is_found(
    before: str, after: str, prompt: str
) -> None:
    plan = {"tasks": [{"id": "a", "needs": [], "prompt": prompt}]}
    before, after = before.replace("`", "'"), after.replace("`", "'")
    text = f"{before}\n```json\n{json.dumps(plan)}\n```\n{after}"
    assert written_product("plan", text) == Written(plan)
