"""Plain lines: what a person reads as the run goes, and that nothing can drive the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest

from orchestrator.core.events import Event
from orchestrator.core.machine import evolve, fold
from orchestrator.core.state import RunState
from orchestrator.observers.lines import line_printer
from orchestrator.observers.summary import summary_lines
from orchestrator.observers.text import Style, clean, clean_line, dollars, duration, tail
from tests.observers.story import RUN, beginning, failing, stored, whole

INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def lines_of(events: Sequence[Event], style: Style = Style()) -> str:
    stream = io.StringIO()
    observe = line_printer(stream, style)
    state = RunState(RUN)
    for event in stored(events):
        observe(event, evolve(state, event))
    return stream.getvalue()


def test_a_run_is_told_from_start_to_end() -> None:
    told = [line.split("  [")[0].strip() for line in lines_of(whole()).splitlines()]
    assert told[0] == "0.0s  run started: kitebase on bbbbbbbbbbbb (main)"
    assert "model scripted:kitebase.script.yaml, sandbox bubblewrap, workspaces checkout" in told
    assert "1.0s  plan: adds look, filter, integrate" in told
    assert "2.0s  look #1 started" in told
    assert "3.0s  look #1 succeeded in 1.5s: It is in search.py" in told
    assert "5.0s  filter #1 failed in 1.5s: own_gate_red" in told
    assert "gate tests failed (0.5s, exit 1, passed on the base)" in told
    assert "| AttributeError: None" in told
    assert "left out of the commit: .venv/: artefact" in told
    assert "10.0s  replanning after integrate: adds replan-1" in told
    assert "13.0s  plan changed by replan-1: adds fix; changes integrate" in told
    assert told[-1] == "18.0s  run succeeded"


def test_money_so_far_stands_at_each_end_of_an_attempt() -> None:
    money = re.findall(r"\[(\S+) so far\]", lines_of(failing()))
    assert money == ["$0.2500", "$0.5000", "$0.7500", "$0.7500"]


def test_Z11_no_control_or_invisible_character_reaches_the_terminal() -> None:
    told = lines_of(whole())
    assert not INVISIBLE.search(told)
    assert r"\x1b]52;c;ZXZpbA==\x07" in told
    assert r"\u202e" in told


def test_a_forged_line_stays_inside_its_own() -> None:
    assert not [line for line in lines_of(whole()).splitlines() if line.startswith(("##", "|"))]


def test_colour_is_all_that_a_style_adds() -> None:
    coloured = lines_of(whole(), Style(colour=True))
    assert "\x1b[32msucceeded\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == lines_of(whole())


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": ""}, True, True),
    ],
)
def test_T08_colour_only_where_it_is_wanted(
    environ: dict[str, str], terminal: bool, colour: bool
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    assert Style.of(stream, environ).colour is colour
    assert Style.of(stream, environ, plain=True).colour is False


def test_summary_names_branch_tasks_tokens_and_cost() -> None:
    told = list(summary_lines(fold(RUN, stored(whole()))))
    assert told[0] == f"run {RUN}: succeeded in 18.0s"
    assert told[1] == f"branch: orchestrate/{RUN} at 444444444444"
    rows = {line.split()[1]: line.split() for line in told if len(line.split()) > 6}
    assert rows["filter"][:6] == ["succeeded", "filter", "2x", "3.0s", "6,320", "$0.5000"]
    assert rows["look"][6:] == ["It", "is", "in", "search.py"]
    assert told[-1] == (
        "total: 15,800 tokens (500 in, 100 cache write, 15,000 cache read, 200 out), "
        "10 calls, $1.2500, 1 replan"
    )
    assert not INVISIBLE.search("\n".join(told))


def test_summary_of_a_failure_says_why_and_what_it_blocks() -> None:
    told = "\n".join(summary_lines(fold(RUN, stored(failing()))))
    assert "gate_red: no ValueError was raised" in told
    assert f"run {RUN}: running" in told


def test_summary_of_a_run_that_has_only_begun() -> None:
    for count in range(1, len(beginning()) + 1):
        assert list(summary_lines(fold(RUN, stored(beginning()[:count]))))


def test_clean_keeps_text_and_shows_the_rest() -> None:
    assert clean("tab\there\nünï 漢 🙂") == "tab\there\nünï 漢 🙂"
    assert clean("a\r\nb\rc") == "a\nb\\x0dc"
    assert clean("\udc80") == "\\udc80"
    assert clean_line("  a \n\n b ", 3) == "a b"
    assert clean_line("abcdef", 4) == "abc…"
    assert tail("1\n2\n3\n\n", 2) == ["2", "3"]
    assert tail("\n \n", 2) == []


def test_numbers_are_short() -> None:
    assert [duration(s) for s in (0, 3.14159, 59.96, 125, 3_725)] == [
        "0.0s",
        "3.1s",
        "60.0s",
        "2m05s",
        "1h02m",
    ]
    assert [dollars(usd) for usd in (0, 0.01234, 1234.5)] == ["$0.0000", "$0.0123", "$1,234.50"]
