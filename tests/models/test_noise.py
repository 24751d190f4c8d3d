"""What two equal runs may differ in, and what they may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.models.noise import without_noise

SAME = {
    "unittest": ("Ran 3 tests in 0.003s", "Ran 3 tests in 1.250s"),
    "pytest": ("3 passed in 0.12s", "3 passed in 61.02s"),
    "whole seconds": ("Time: 2 s", "Time: 11 s"),
    "milliseconds": ("ok 1 - adds (3 ms)", "ok 1 - adds (12ms)"),
    "the shell's time": ("real\t0m0.003s", "real\t1m12.5s"),
    "node's tests": ("# duration_ms 12.31", "# duration_ms 9"),
    "junit": ('<testcase name="a" time="0.001">', '<testcase name="a" time="1.3">'),
    "timestamps": ("at 2026-11-30T15:07:00.123Z", "at 2027-01-01 00:00:00,5 +0100"),
    "days": ("on 2026-11-30.", "on 2027-01-02."),
    "clock times": ("[15:07:00] start", "[5:08:59.12] start"),
    "git's dates": (
        "Date:   Mon Nov 30 15:07:00 2026 +0000",
        "Date:   Tue Dec 1 05:07:10 2026 +0000",
    ),
    "the date command": (
        "Mon Nov 30 15:07:00 UTC 2026",
        "Tue Dec  1 05:07:10 AM CET 2026",
    ),
    "Unix seconds": ("1796052171.377464323", "1796052172.5"),
    "mail's dates": ("Date: Mon, 30 Nov 2026 15:07:00 GMT", "Date: Tue, 01 Dec 2026 05:07:00 GMT"),
    "listings": ("root 12 Nov 30 15:07 a.txt", "root 12 Dec  1 05:10 a.txt"),
    "object ids": (f"commit {'a1' * 20}", f"commit {'0f' * 20}"),
    "short object ids": ("a1b2c3d add a filter", "0123456 add a filter"),
    "uuids": ("id 123e4567-e89b-12d3-a456-426614174000", "id ABCDEF67-e89b-12d3-a456-426614174999"),
    "addresses": ("<T object at 0x7f01>", "<T object at 0xdeadBEEF>"),
    "process ids": ("killed, pid 17", "killed, pid 99812"),
    "temporary files": ("in /tmp/tmpab12_9zx/a.py", "in /var/tmp/x/tmpq0q0q0q0/a.py"),
    "temporary names": ("wrote tmp.Xa12bcDEfg", "wrote tmp.Ya9999DEfg"),
    "pytest's folders": ("/tmp/pytest-of-joe/pytest-3/t0/a", "/tmp/pytest-of-ann/pytest-12/t0/a"),
    "workspaces": ('File "/home/a/trees/x.1/t/a.py", line 3', 'File "/workspace/a.py", line 3'),
    "runs": ("orchestrate/demo-20261130-1432-7f3a", "orchestrate/demo-20270101-0001-aaaa"),
    "ports": ("listening on 127.0.0.1:43211", "listening on 127.0.0.1:80"),
    "speeds": ("copied, 12.3 MB/s", "copied, 9 MB/s"),
}
OTHER = {
    "counts": ("3 failed", "2 failed"),
    "indentation": ("    return x", "  return x"),
    "blank lines": ("a\n\nb", "a\nb"),
    "line numbers": ("a.py:12:34: E501", "a.py:12:35: E501"),
    "lines in traces": ('File "/x/a.py", line 3', 'File "/x/a.py", line 4'),
    "file names": ("/x/a.py: no", "/x/b.py: no"),
    "relative folders": ("src/one/a.py", "src/two/a.py"),
    "versions": ("git 2.39.5", "git 2.47.1"),
    "words of hex letters": ("the facade effaced", "the facade defaced"),
    "small numbers": ("x = 123456", "x = 123457"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME.keys())
def test_what_changes_from_run_to_run_is_taken_out(pair: tuple[str, str]) -> None:
    assert without_noise(pair[0]) == without_noise(pair[1])


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER.keys())
def test_what_means_something_stays(pair: tuple[str, str]) -> None:
    assert without_noise(pair[0]) != without_noise(pair[1])


@given(st.text(alphabet="a1/ \n:.-sT0NovMmp", max_size=80))
def test_every_line_stays_a_line(text: str) -> None:
    whole = without_noise(text).split("\n")
    assert whole == [without_noise(line) for line in text.split("\n")]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["/a", "1", "a/", "0x", "2026-", "1:", "tmp", " ", "a", "Mon ", "Nov 1 ", "time", "1m"]
)
def test_hostile_output_is_read_in_one_pass(piece: str) -> None:
    assert "\n" not in without_noise(piece * 50_000)
