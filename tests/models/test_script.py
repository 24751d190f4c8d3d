"""Script files: what is read, and every way to be wrong with its line, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ExitCode, PlanError
from orchestrator.models.script import Script, load_script

GOOD = """\
tasks:
  filter:
    - say: I will read the code.
      calls:
        - Read: {file_path: tickets/search.py}
        - Grep: {pattern: search_tickets, -n: true}
    - expect: AttributeError
      calls: [{SubmitChange: {summary: done, decisions: []}}]
      stop_reason: max_tokens
      delay_s: 0.5
      usage: {input_tokens: 10, usd: 0.25}
  filter#2:
    - say: again
  "*":
    - calls:
        - Now:
"""


def script(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return load_script(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    """The faults without the path: `line: message (hint)`."""
    with pytest.raises(PlanError) as raised:
        script(tmp_path, text)
    assert raised.value.exit_code == ExitCode.USAGE
    assert all(fault.file == str(tmp_path / "script.yaml") for fault in raised.value.faults)
    return [str(fault).removeprefix(f"{fault.file}:") for fault in raised.value.faults]


def test_everything_a_turn_can_say_is_read(tmp_path: Path) -> None:
    first, second = script(tmp_path, GOOD).tasks["filter"]
    assert first.say == "I will read the code."
    assert [(call.name, call.input) for call in first.calls] == [
        ("Read", {"file_path": "tickets/search.py"}),
        ("Grep", {"pattern": "search_tickets", "-n": True}),
    ]
    assert (first.expect, first.delay_s, first.usage) == (None, 0, None)
    assert second.expect == "AttributeError"
    assert second.delay_s == 0.5
    assert second.usage is not None
    assert (second.usage.calls, second.usage.input_tokens, second.usage.usd) == (1, 10, 0.25)


def test_the_stop_reason_follows_from_the_calls_unless_it_is_said(tmp_path: Path) -> None:
    tasks = script(tmp_path, GOOD).tasks
    assert tasks["filter"][0].ends_with == "tool_use"
    assert tasks["filter"][1].ends_with == "max_tokens"
    assert tasks["filter#2"][0].ends_with == "end_turn"


def test_a_call_with_nothing_behind_it_has_no_arguments(tmp_path: Path) -> None:
    (turn,) = script(tmp_path, GOOD).tasks["*"]
    assert [(call.name, call.input) for call in turn.calls] == [("Now", {})]


def test_turns_are_those_of_the_attempt_else_of_the_task_else_of_anybody(tmp_path: Path) -> None:
    loaded = script(tmp_path, GOOD)
    assert loaded.key_for("filter", 1) == "filter"
    assert loaded.key_for("filter", 2) == "filter#2"
    assert loaded.key_for("filter", 3) == "filter"
    assert loaded.key_for("docs", 1) == "*"
    assert script(tmp_path, "tasks: {a: []}").key_for("b", 1) is None


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    loaded = script(tmp_path, GOOD)
    assert [loaded.line("filter", 0), loaded.line("filter", 1), loaded.line("*", 0)] == [3, 7, 15]


def test_a_missing_script_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(PlanError) as raised:
        load_script(path)
    assert str(raised.value) == (
        f"{path}: no such script file (give --scripted the path of a script file)"
    )


def test_a_folder_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="the script cannot be read: Is a directory"):
        load_script(tmp_path)


def test_all_faults_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    told = faults(
        tmp_path,
        """\
tasks:
  filter:
    - say: 5
      says: hello
    - calls: Read
    - calls:
        - Read
        - {Read: {}, Grep: {}}
        - Grep: pattern
      stop_reason: done
      delay_s: -1
    - just text
    - usage: {inptu_tokens: 1}
      delay_s: .nan
  Docs: []
  filter#0: []
  docs: {say: hello}
plan: 1
""",
    )
    lines = [fault.split(":")[0] for fault in told]
    assert lines == [
        "3",
        "4",
        "5",
        "7",
        "8",
        "9",
        "10",
        "11",
        "12",
        "13",
        "14",
        "15",
        "16",
        "17",
        "18",
    ]
    by_line = dict(zip(lines, told, strict=True))
    assert "must be text" in by_line["3"]
    assert "`says`" in by_line["4"]
    assert "did you mean `say`?" in by_line["4"]
    assert "must be a mapping with one key" in by_line["7"]
    assert "must map arguments of `Grep` to values" in by_line["9"]
    assert "end_turn" in by_line["10"]
    assert "at least 0" in by_line["11"]
    assert "a turn must be a mapping" in by_line["12"]
    assert "inptu_tokens" in by_line["13"]
    assert "names no task" in by_line["15"]
    assert "must be a list" in by_line["17"]
    assert "`plan`" in by_line["18"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("- say: hello\n", "a script must be a mapping"),
        ("goal: x\n", "`tasks` is missing"),
        ("tasks:\n  a: []\n---\ntasks: {}\n", "second document"),
        ("tasks:\n\ta: []\n", "tab"),
        ("tasks: {a: [], a: []}\n", "a"),
        ("tasks: {a: [null]}\n", "a turn must be a mapping"),
    ],
)
def test_P12_a_file_that_is_no_script_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    told = faults(tmp_path, text)
    assert said in "\n".join(told)


def test_P14_a_huge_script_is_refused(tmp_path: Path) -> None:
    assert "larger than" in "\n".join(faults(tmp_path, "tasks: {}\n" + "#" * (1024 * 1024)))
