"""Text that goes to a model: harmless, and honest about what was cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.text import cleaned, clipped, visible


def is_harmless(text: str) -> bool:
    return all(char in "\t\n" or (char.isprintable() or not char.isascii()) for char in text)


def test_Z11_escape_sequences_that_drive_a_terminal_are_gone() -> None:
    output = (
        b"\x1b]52;c;ZXZpbA==\x07title \x1b]0;owned\x1b\\\x1b[31mred\x1b[0m\x1b[2J\x1b[1;1H"
        b"\x1bP1$r0m\x1b\\end\x07\n"
    )
    assert cleaned(output) == "title redend\\x07\n"


def test_Z11_reordering_and_c1_controls_are_shown() -> None:
    assert visible("a\u202eb\x9bc\x7f") == "a\\u202eb\\x9bc\\x7f"


def test_an_unfinished_sequence_does_not_swallow_the_rest() -> None:
    assert cleaned(b"\x1b]0;never ended\nnext line\n").endswith("\nnext line\n")


def test_a_progress_bar_keeps_its_last_state() -> None:
    assert cleaned(b"10%\r50%\r100%\r\ndone\n") == "100%\ndone\n"


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert cleaned(b"caf\xe9") == "caf\ufffd"


@given(st.binary(max_size=300))
def test_whatever_comes_out_is_harmless(output: bytes) -> None:
    text = cleaned(output)
    assert is_harmless(text)
    assert "\x1b" not in text
    text.encode()


def test_short_text_is_left_alone() -> None:
    assert clipped("one\ntwo\n", 100, hint="x") == "one\ntwo\n"


def test_a_cut_says_how_much_is_missing_and_how_to_get_it() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    cut = clipped(text, 300, hint="use offset")
    lines = cut.split("\n")
    note = next(line for line in lines if line.startswith("[... "))
    kept = len([line for line in lines if line.startswith("line ")])
    assert lines[0] == "line 0"
    assert lines[-2] == "line 999"
    assert f"{1_000 - kept} lines" in note
    assert note.endswith("left out here: use offset ...]")


def test_what_was_lost_before_is_said_too() -> None:
    assert "1,234 bytes more" in clipped("a\nb\n", 100, hint="x", missing_bytes=1_234)


@given(st.text(alphabet="ab\n", max_size=400), st.integers(min_value=10, max_value=200))
def test_cut_text_keeps_its_ends_and_counts_what_is_gone(text: str, most: int) -> None:
    cut = clipped(text, most, hint="x")
    if len(text) <= most:
        assert cut == text
        return
    head, _, rest = cut.partition("[... ")
    count, _, tail = rest.partition(" left out here: x ...]\n")
    gone = int(count.split(", ")[1].split()[0].replace(",", ""))
    head_kept = head if text.startswith(head) else head[:-1]
    assert text.startswith(head_kept)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= most + 1
    assert abs(len(text) - len(head_kept) - len(tail) - gone) <= 1
