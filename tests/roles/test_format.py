"""Role files: what they can say, and every way to be wrong with its line, all at once."""

from __future__ import annotations

import pytest

from orchestrator.core.roles import Limits
from orchestrator.errors import ExitCode, PlanError
from orchestrator.roles import TOOLS, RoleFile, parse_role
from orchestrator.tools import registry

GOOD = """\
---
name: auditor
description: Looks for holes
tools: Read, Grep,Glob , Read
model: claude-sonnet-5-5
maxTurns: 12
orchestrate:
  product: report
  writes: false
  budget: {usd: 0.5, tokens: 1000, minutes: 2.5}
---

# You audit

Look twice. --- is no fence here.
"""


def faults(text: str) -> list[str]:
    with pytest.raises(PlanError) as raised:
        parse_role(text, "r.md")
    assert raised.value.exit_code == ExitCode.USAGE
    return [str(fault) for fault in raised.value.faults]


def role(front: str, prompt: str = "Do it.") -> RoleFile:
    return parse_role(f"---\n{front}\n---\n{prompt}\n", "r.md")


def test_everything_a_role_file_can_say_is_read() -> None:
    read = parse_role(GOOD, "r.md")
    assert read.name == "auditor"
    assert read.front.description == "Looks for holes"
    assert read.tools == ("Glob", "Grep", "Read")
    assert read.front.model == "claude-sonnet-5-5"
    assert (read.product, read.writes) == ("report", False)
    assert read.limits == Limits(usd=0.5, tokens=1000, turns=12, minutes=2.5)
    assert read.prompt == "# You audit\n\nLook twice. --- is no fence here."


def test_roles_may_name_the_tools_that_there_are() -> None:
    # The two lists are siblings that do not know one another.
    assert set(TOOLS) == set(registry.TOOLS)


def test_the_least_a_role_file_says() -> None:
    read = role("name: a\ntools: [Read]")
    assert (read.product, read.writes, read.limits) == (None, None, Limits())
    assert read.front.model is None


@pytest.mark.parametrize(
    "tools", ["Grep, Read", "[Read, Grep]", "\n  - Grep\n  - Read", '["Read", "Grep", "Read"]']
)
def test_tools_are_a_list_or_a_comma_string(tools: str) -> None:
    assert role(f"name: a\ntools: {tools}").tools == ("Grep", "Read")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("inherit", None),
        ("opus", "claude-opus-5-5"),
        ("sonnet", "claude-sonnet-5-5"),
        ("haiku", "claude-haiku-5-5"),
        ("qwen3:8b", "qwen3:8b"),
        ("anthropic/claude-opus-5", "anthropic/claude-opus-5"),
    ],
)
def test_models_have_short_names(said: str, meant: str | None) -> None:
    assert role(f"name: a\ntools: Read\nmodel: {said}").front.model == meant


def test_a_role_that_hands_in_a_change_writes() -> None:
    assert role("name: a\ntools: Read\norchestrate: {product: change}").writes is True
    assert role("name: a\ntools: Read\norchestrate: {product: verdict}").writes is False


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm() -> None:
    assert parse_role("\ufeff" + GOOD.replace("\n", "\r\n"), "r.md").tools == (
        "Glob",
        "Grep",
        "Read",
    )


def test_all_faults_of_a_file_come_at_once_with_their_lines() -> None:
    told = faults(
        """\
---
name: My Role
tools: [Read, Reed, RunGate, SubmitReport]
model: -x
maxTurns: 0
color: blue
orchestrate:
  product: essay
  writes: maybe
  resolves: true
  budgt: {usd: 1}
  budget:
    usd: .nan
    turns: -1
---
"""
    )
    lines = [fault.split(": ")[0] for fault in told]
    assert lines == [f"r.md:{line}" for line in (2, 3, 3, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15)]
    assert "is no role name: `My Role`" in told[0]
    assert "is no tool: `Reed` (did you mean `Read`?)" in told[1]
    assert "`RunGate`, which is not supported yet" in told[2]
    assert "`SubmitReport`, which comes with the product (leave it out)" in told[3]
    assert "unknown key `color`" in told[6]
    assert "'report'" in told[7]
    assert "is true, which is not supported yet" in told[9]
    assert "did you mean `budget`?" in told[10]
    assert "the prompt is empty" in told[13]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "r.md:1: a role file starts with front matter (make the first line `---`)"),
        ("name: a\n", "r.md:1: a role file starts with front matter (make the first line `---`)"),
        ("---\nname: a\n", "r.md:1: the front matter has no end (close it with a line `---`)"),
        ("---\nname: a\ntools: Read\n---\n \n", "r.md:4: the prompt is empty"),
        ("---\nname: a\n---\nx\n", "r.md:2: `tools` is missing"),
        ("---\ntools: Read\n---\nx\n", "r.md:2: `name` is missing"),
        ("---\nname: a\ntools:\n---\nx\n", "`tools` is missing"),
        ("---\nname: a\ntools: []\n---\nx\n", "r.md:3: `tools` names no tool"),
        ("---\nname: a\ntools: ','\n---\nx\n", "r.md:3: `tools` names no tool"),
        ("---\nname: a\ntools: 5\n---\nx\n", "r.md:3: `tools` must be a list"),
        ("---\nname: a\nname: b\ntools: Read\n---\nx\n", "r.md:3:"),
        ("---\n- a\n---\nx\n", "a role file must be a mapping"),
        ("---\nname: a\ntools: Read\norchestrate: {product: plan}\n---\nx\n", "not supported yet"),
        (
            "---\nname: a\ntools: Read\norchestrate: {product: report, writes: true}\n---\nx\n",
            "r.md:4: product `report` does not go with `writes: true`",
        ),
        (
            "---\nname: a\ntools: Read\nmaxTurns: 3\norchestrate: {budget: {turns: 3}}\n---\nx\n",
            "`maxTurns` says the same as the budget's `turns`",
        ),
        ("---\nname: a\ntools: Read\n---\n" + "x" * 30_001, "30001 characters, at most 30000"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(text: str, said: str) -> None:
    assert said in "\n".join(faults(text))
