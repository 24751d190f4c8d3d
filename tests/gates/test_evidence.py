"""What a gate said, put into words: short, capped, and without tricks."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import GateOutcome, GateRecord
from orchestrator.core.signature import signature
from orchestrator.gates.evidence import TAIL_CHARS, describe, describe_red, tail_of
from tests.gates.rig import Rig, gate

TREE = "d" * 40


def record(
    outcome: GateOutcome = "failed",
    tail: str = "",
    argv: tuple[str, ...] = ("bash", "-e", "-o", "pipefail", "-c", "make test"),
    base: GateOutcome | None = None,
    name: str = "tests",
) -> GateRecord:
    status = {"passed": 0, "failed": 2, "timeout": None, "environment": 127}[outcome]
    return GateRecord(
        name=name,
        argv=argv,
        tree=TREE,
        outcome=outcome,
        exit_status=status,
        seconds=1.5,
        base=base,
        tail=tail,
    )


def test_a_red_gate_in_words() -> None:
    assert describe(record(tail="1 failed", base="passed")) == (
        "gate `tests` failed with exit status 2\n$ make test\n"
        "(on the base commit this gate passed)\n1 failed"
    )
    assert describe(record("timeout")) == "gate `tests` ran out of time\n$ make test"
    assert describe(record("environment")).startswith(
        "gate `tests` could not run with exit status 127\n"
    )


def test_an_argv_is_shown_whole_also_when_it_starts_a_shell() -> None:
    assert "$ bash run.sh -x\n" in describe(record(argv=("bash", "run.sh", "-x"), tail="t"))
    assert "$ make -k test\n" in describe(record(argv=("make", "-k", "test"), tail="t"))


def test_only_the_red_ones_are_told() -> None:
    assert describe_red([record("passed", "fine")]) == ""
    told = describe_red([record("passed", "fine"), record("failed", "a"), record("timeout", "b")])
    assert told.count("gate `tests`") == 2
    assert "fine" not in told


def test_a_tail_is_the_end_and_says_that_it_is() -> None:
    assert tail_of(b"") == ""
    assert tail_of(b"\n\none\ntwo\n\n") == "one\ntwo"
    lines = [f"line {number}" for number in range(5_000)]
    tail = tail_of("\n".join(lines).encode())
    assert tail.startswith("[...]")
    assert tail.endswith("\nline 4998\nline 4999")
    assert len(tail) == TAIL_CHARS + len("[...]")


def test_G13_a_line_longer_than_the_cap_keeps_its_end() -> None:
    assert tail_of(b"x" * 50_000 + b"THE END\n").endswith("xxxTHE END")
    assert tail_of(("é" * 1_000_000 + "\n").encode()) == "[...]" + "é" * TAIL_CHARS
    assert tail_of(("\U0001f600" * 100_000).encode()).endswith("\U0001f600" * 3_999)


def test_Z11_escape_sequences_drive_no_terminal_and_hide_nothing() -> None:
    output = (
        b"\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x1b[31mred\x1b[0m \x1b[2K\x1b[1;1Hmoved\n"
        b"\x1b]unfinished\nFAILED\n\x9b31m \xe2\x80\xae \xc2\x9b31m \x08\x08\x00 end"
    )
    assert tail_of(output) == (
        "red moved\nunfinished\nFAILED\n\ufffd31m \\u202e \\x9b31m \\x08\\x08\\x00 end"
    )


def test_a_progress_bar_is_its_last_state() -> None:
    assert tail_of(b" 10%\r 50%\r100%\r\nok\r\n") == "100%\nok"


@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from([b"\x1b[", b"\x1b]", b"\x07", b"31m", b"\r", b"\n", b"\xc2", b"\x9b", b"A"])
    ).map(b"".join),
    st.integers(1, 200),
)
def test_whatever_a_gate_prints_the_evidence_is_short_and_plain(piece: bytes, times: int) -> None:
    tail = tail_of(piece * times)
    assert len(tail) <= TAIL_CHARS + len("[...]")
    assert not [c for c in tail if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    told = describe_red([record(tail=tail, base="failed")])
    assert tail in told
    assert len(told) <= TAIL_CHARS + 200


@given(st.text(max_size=3_000), st.text(min_size=1, max_size=80))
def test_whatever_a_plan_says_the_evidence_is_short_and_plain(command: str, name: str) -> None:
    told = describe(record(argv=(command,), name=name))
    assert len(told) <= 500 + 80 * 6 + 100
    assert not [c for c in told if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]


@pytest.mark.asyncio
async def test_the_same_failure_has_the_same_signature_whatever_the_checkout(
    tmp_path: Path,
) -> None:
    shouts = gate('echo "$PWD/a.py:1: took $RANDOM ms at $(date +%FT%T) pid $$"; exit 1')
    signatures = set()
    for name in ("one", "two"):
        rig = await Rig.make(tmp_path / name)
        signatures.add(signature("gate_red", describe_red([await rig.one(shouts)])))
    assert len(signatures) == 1
