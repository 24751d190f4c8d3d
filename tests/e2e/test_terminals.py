"""What a person at a terminal sees of a whole run: a table while it goes on, lines afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.at_terminal import at_terminal
from tests.e2e.support import Place, change, make_place, turns, write, writer

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"}, TMPDIR=str(tmp_path))


def test_the_demo_draws_a_table_and_leaves_the_terminal_as_it_was(place: Place) -> None:
    with at_terminal(place, "demo", TERM="xterm") as session:
        result = session.ended()
    assert "\x1b[?25l" in session.view.heard, "the cursor was hidden"
    assert "/7 done" in session.view.heard
    assert result.code == 0, result.err
    assert (session.view.cursor, session.view.column) == (True, 0)
    assert "/7 done" not in result.err, "the table is gone"
    assert "replanning after integrate: adds replan-1" in result.err
    assert result.out.startswith("run kitebase-")
    assert "\x1b" not in result.out, "stdout is no terminal"


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        pytest.param(["--plain"], {}, id="plain"),
        pytest.param([], {"CI": "true", "NO_COLOR": "1"}, id="CI"),
    ],
)
def test_T08_where_lines_are_wanted_no_escape_sequence_is_sent(
    place: Place, options: list[str], variables: dict[str, str]
) -> None:
    words = place.plan({"w": writer()}, {"w": turns(write("new.txt", "1\n"), change())})
    with at_terminal(place, *words, *options, TERM="xterm", **variables) as session:
        result = session.ended()
    assert result.code == 0, result.err
    assert "w #1 succeeded" in result.err
    assert "\x1b" not in session.view.heard
