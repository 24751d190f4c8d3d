"""YAML texts of people and strangers: values, lines, and everything that is refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.documents import (
    BYTES_MAX,
    DEPTH_MAX,
    FAULTS_MAX,
    NODES_MAX,
    JsonLike,
    faults_of,
    load_document,
)
from orchestrator.errors import Fault, PlanError


def refused(text: bytes | str) -> tuple[Fault, ...]:
    with pytest.raises(PlanError) as caught:
        load_document(text, "f.yaml")
    assert all("\n" not in str(fault) for fault in caught.value.faults)
    return caught.value.faults


def told(text: bytes | str) -> str:
    (fault,) = refused(text)
    return str(fault)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("yes", "yes"),
        ("y", "y"),
        ("010", 10),
        ("0o17", 15),
        ("0xFf", 255),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2024-01-01", "2024-01-01"),
        ("1.10", 1.1),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("1e3", 1000.0),
        ("1e400", math.inf),
        ("-.inf", -math.inf),
        (".INF", math.inf),
        ("nan", "nan"),
        ("inf", "inf"),
        ("~", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("''", ""),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_the_core_schema(written: str, value: JsonLike) -> None:
    data = load_document(f"k: {written}", "f").data
    assert isinstance(data, dict)
    assert data["k"] == value
    assert type(data["k"]) is type(value)


def test_nan_is_a_number() -> None:
    data = load_document("k: .nan", "f").data
    assert isinstance(data, dict)
    assert isinstance(data["k"], float)
    assert math.isnan(data["k"])


TEXT = """\
# line 1
tasks:
  build:
    needs:
      - a

      - b
    prompt: |
      first
      second
  c: [1,
      {d: 2}]
"""


def test_every_value_knows_its_line() -> None:
    document = load_document(TEXT, "f")
    assert document.data == {
        "tasks": {
            "build": {"needs": ["a", "b"], "prompt": "first\nsecond\n"},
            "c": [1, {"d": 2}],
        }
    }
    assert document.key_line(("tasks",)) == 2
    assert document.line(("tasks",)) == 3
    assert document.key_line(("tasks", "build")) == 3
    assert document.key_line(("tasks", "build", "needs")) == 4
    assert document.line(("tasks", "build", "needs", 0)) == 5
    assert document.line(("tasks", "build", "needs", 1)) == 7
    assert document.key_line(("tasks", "build", "prompt")) == 8
    assert document.line(("tasks", "c", 0)) == 11
    assert document.line(("tasks", "c", 1, "d")) == 12
    assert document.line(("tasks", "build", "needs", 7, "x")) == document.line(
        ("tasks", "build", "needs")
    )
    assert document.key_line(("tasks", "build", "model")) == 3
    assert document.line(("nothing",)) == 2


def test_lines_hold_behind_a_byte_order_mark_and_with_windows_line_ends() -> None:
    document = load_document(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n", "f")
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert document.line(("b", "c")) == 3


def test_an_alias_shares_its_value_and_stands_on_its_own_line() -> None:
    document = load_document("a: &x [1, 2]\nb:\n - *x\n", "f")
    assert document.data == {"a": [1, 2], "b": [[1, 2]]}
    assert document.key_line(("b", 0)) == 3


def test_P04_a_repeated_key_is_refused_with_both_lines() -> None:
    assert told("a: 1\nb:\n  c: 1\na: 2\n") == (
        "f.yaml:4: the key `a` stands twice, on lines 1 and 4 (rename or remove one)"
    )


def test_P04_every_repeated_key_is_told_at_once() -> None:
    faults = refused("a: 1\nb: {c: 1, c: 2}\na: 2\n'a': 3\n")
    assert [fault.line for fault in faults] == [2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml: the file is empty"),
        ("# only words\n", "f.yaml: the file is empty"),
        ("---\n", "f.yaml: the file is empty"),
        ("null", "f.yaml: the file is empty"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2: a second document starts here (keep one in a file)"),
        ("a:\n\tb: 1\n", "f.yaml:2: there is a tab in the indentation (use spaces)"),
        ("a: 1\nb: 2\n\tc: 3\n", "f.yaml:3: there is a tab in the indentation (use spaces)"),
        (b"a: 1\nb: \xff\n", "f.yaml:2: is not UTF-8 (save it as UTF-8)"),
        ("a: 1".encode("utf-16"), "f.yaml:1: is not UTF-8 (save it as UTF-8)"),
        ("a: \ud800", "f.yaml:1: is not UTF-8 (save it as UTF-8)"),
        (b"a: 1\n\n\x00", "f.yaml:3: has the control character U+0000 (remove it)"),
        ("a: \x1b[0m", "f.yaml:1: has the control character U+001B (remove it)"),
        ('"\\e[2J\\n": 1\n"\\e[2J\\n": 2', r"the key `\x1b[2J\n` stands twice, on lines 1 and 2"),
        ("1: a", "f.yaml:1: the key `1` is not text (put it in quotes)"),
        ("true: a", "f.yaml:1: the key `true` is not text (put it in quotes)"),
        ("~: b", "f.yaml:1: the key `~` is not text (put it in quotes)"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "f.yaml:3: merge keys (`<<`) are not supported"),
        ("a: !!python/object:os.system x", "f.yaml:1: tags are not supported"),
        ("a:\n  - !x [1]", "f.yaml:2: tags are not supported: !x"),
        ("[a]: b", "f.yaml:1: a key must be text, not a list or a mapping"),
        ("a: &x b\n*x : c", "f.yaml:2: the alias `*x` cannot be a key"),
        ("a: *b", "f.yaml:1: there is no anchor `&b` before this alias"),
        ("a: &a\n  b: *a", "f.yaml:2: `&a` contains itself"),
        ("a: 99999999999999999999", "f.yaml:1: this number is too large (put it in quotes"),
        ("a: 0x" + "f" * 10_000, "f.yaml:1: this number is too large (put it in quotes"),
        ("a: 'b\nc: d\n", "(while scanning a quoted scalar that begins on line 1)"),
        ("a: [1\nb: 2", "f.yaml:2: is no YAML: "),
        ("a: b: c", "f.yaml:1: is no YAML: "),
    ],
)
def test_P12_what_is_no_document_is_one_line_with_its_place(
    text: bytes | str, message: str
) -> None:
    assert message in told(text)


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert load_document("'<<': 1", "f").data == {"<<": 1}


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


def test_P14_an_alias_bomb_is_refused_where_it_gets_too_large() -> None:
    # 9 + 9**2 + ... grows past the limit on the line of 9**6 values.
    assert told(bomb(9)) == f"f.yaml:6: has more than {NODES_MAX} values, aliases expanded"


def test_P14_deep_nesting_is_refused() -> None:
    assert "nest" in told("[" * 5000)
    assert told("[" * 65 + "]" * 65) == f"f.yaml:1: is nested deeper than {DEPTH_MAX} levels"
    load_document("[" * 64 + "]" * 64, "f")
    block = "\n".join(" " * depth + "a:" for depth in range(100))
    assert told(block) == f"f.yaml:65: is nested deeper than {DEPTH_MAX} levels"


def test_P14_depth_counts_through_aliases() -> None:
    inner = "a: &a " + "[" * 40 + "]" * 40
    outer = "\nb: " + "[" * 40 + "*a" + "]" * 40
    assert told(inner + outer) == f"f.yaml:2: is nested deeper than {DEPTH_MAX} levels"


def test_P14_a_large_file_is_refused() -> None:
    assert told(b"a" * (BYTES_MAX + 1)) == f"f.yaml: is larger than {BYTES_MAX} bytes"


HOSTILE = """
import resource, sys
from orchestrator.documents import load_document
from orchestrator.errors import PlanError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_document(sys.stdin.buffer.read(), "f")
except PlanError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "text",
    [
        bomb(9),
        "[" * 5000,
        "[" + "1," * 150_000 + "]",
        "- " * 500_000,
        "{" + ",".join(f"k{n}: 1" for n in range(90_000)) + "}",
        "{" + "a: 1," * 190_000 + "}",
        "&a [*a]\n" * 100_000,
        "a: '" + "x" * 1_000_000,
    ],
    ids=["bomb", "brackets", "items", "dashes", "keys", "repeated", "loops", "quote"],
)
def test_P14_hostile_text_costs_little_memory(text: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", HOSTILE],
        input=text.encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert int(child.stdout) < 100_000, "kilobytes"


def test_P14_hostile_text_costs_little_processor_time() -> None:
    before = time.process_time()
    for text in (bomb(9), "[" * 5000, "{" + "a: 1," * 190_000 + "}"):
        refused(text)
    assert time.process_time() - before < 3.0


def test_no_more_faults_are_told_than_one_can_read() -> None:
    assert len(refused("a: 1\n" * 1000)) == FAULTS_MAX


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=8)
values: st.SearchStrategy[JsonLike] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_another_program_writes_as_json_comes_back(value: JsonLike) -> None:
    text = json.dumps({"k": value}, ensure_ascii=False)
    assert load_document(text, "f").data == {"k": value}


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int
    names: tuple[str, ...] = ()
    on: bool = False


class Outer(BaseModel):
    inner: Inner
    ratio: float = 0.0


def test_faults_of_pydantic_are_in_words_and_in_line_order() -> None:
    document = load_document(
        "ratio: much\ninner:\n  names: [a, 1]\n  colour: red\n  on: 7\n", "f.yaml"
    )
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(document.data)
    assert [str(fault) for fault in faults_of(caught.value, document)] == [
        "f.yaml:1: `ratio` must be a number",
        "f.yaml:2: `inner.count` is missing",
        "f.yaml:3: `inner.names[1]` must be text, not a number (put it in quotes)",
        "f.yaml:4: `inner.colour` is an unknown key",
        "f.yaml:5: `inner.on` must be true or false, not a number",
    ]
