"""Equal for the same failure with other times, paths and addresses; different otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.signature import normalised, signature

SAME = {
    "durations": ("1 failed in 0.12s", "1 failed in 13.40 s"),
    "timestamps": ("2026-01-02T03:04:05Z refused", "2027-11-30 23:59:59.123+01:00 refused"),
    "log timestamps": ("2026-01-02 03:04:05,123 ERROR x", "2026-01-02 03:04:06,987 ERROR x"),
    "clock times": ("at 03:04:05: no", "at 13:04:05.5: no"),
    "addresses": ("<T at 0x7f01>", "<T at 0xdeadBEEF>"),
    "folders": ('File "/tmp/one/tickets/search.py", line 3', 'File "/b/search.py", line 3'),
    "temporary names": ("cannot open /tmp/tmpab12_9zx", "cannot open /tmp/tmpq0q0q0q0"),
    "object ids": (f"at {'a' * 40}", f"at {'0' * 40}"),
    "longer object ids": (f"at {'a' * 64}", f"at {'0' * 64}"),
    "uuids": (
        "run 123e4567-e89b-12d3-a456-426614174000",
        "run 00000000-e89b-12d3-a456-426614174000",
    ),
    "process ids": ("killed, pid 17", "killed, PID 99812"),
    "colours": ("\x1b[31mFAILED\x1b[0m", "FAILED"),
    "white space": ("a  b\t c\n\n", "a b c"),
}
OTHER = {
    "another file": ("/x/search.py: no", "/x/models.py: no"),
    "another line": ('File "/x/a.py", line 3', 'File "/x/a.py", line 4'),
    "another count": ("3 failed", "2 failed"),
    "another error": ("ValueError", "TypeError"),
    "another relative folder": ("src/one/a.py", "src/two/a.py"),
    "one more line": ("a", "a\nb"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME.keys())
def test_R04_the_same_failure_has_one_signature(pair: tuple[str, str]) -> None:
    assert signature("gate_red", pair[0]) == signature("gate_red", pair[1])


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER.keys())
def test_other_failures_have_other_signatures(pair: tuple[str, str]) -> None:
    assert signature("gate_red", pair[0]) != signature("gate_red", pair[1])


def test_the_reason_counts() -> None:
    assert signature("gate_red", "x") != signature("conflict", "x")


@given(st.text(max_size=300))
def test_any_text_has_a_short_signature(text: str) -> None:
    assert len(signature("limit", text)) == 16
    assert set(signature("limit", text)) <= set("0123456789abcdef")


@given(st.text(alphabet="ab/ \n0123456789:.-s", max_size=80))
def test_what_is_normal_stays_as_it_is(text: str) -> None:
    once = normalised(text)
    assert signature("x", once) == signature("x", normalised(once))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["/a", "1", "a/", "0x", "2026-", "\x1b[", "tmp", " "])
def test_hostile_evidence_is_read_in_one_pass(piece: str) -> None:
    assert len(signature("x", piece * 50_000)) == 16
