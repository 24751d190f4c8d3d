"""Which files still parse, and where those that do not are broken."""

from __future__ import annotations

import pytest

from orchestrator.tools.parses import BYTES_MAX, problem_in


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.py", b"x = '\\d'\nif x is 'a': pass\n"),
        ("a.py", b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"),
        ("a.py", b"\xef\xbb\xbfx = 1\r\n"),
        ("a.json", b'{"a": [1, 2]}'),
        ("a.toml", b'[a]\nb = "c"\n'),
        ("a.yaml", b"a: !Custom [1]\n---\nb: 2\n"),
        ("a.txt", b"(("),
        ("Makefile", b"(("),
        ("big.json", b"[" * (BYTES_MAX + 1)),
    ],
)
def test_what_is_fine_or_unknown_is_no_problem(path: str, data: bytes) -> None:
    assert problem_in(path, data) is None


@pytest.mark.parametrize(
    ("path", "data", "line"),
    [
        ("a.py", b"x = 1\ndef f(:\n    pass\n", 2),
        ("a.py", b"def f():\npass\n", 2),
        ("a.JSON", b'{\n"a": 1,\n}', 3),
        ("a.toml", b"a = 1\nb = \n", 2),
        ("a.yml", b"a: 1\nb: [1\nc: 2\n", 3),
    ],
)
def test_the_place_is_named(path: str, data: bytes, line: int) -> None:
    problem = problem_in(path, data)
    assert problem is not None
    assert problem.line == line
    assert f"line {line}: " in problem.shown(data)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("deep.py", b"-" * 50_000 + b"1"),
        ("deep.py", b"a" + b".b" * 20_000),
        ("deep.json", b"[" * 100_000),
        ("deep.toml", b"a = " + b"[" * 20_000),
        ("deep.yaml", b"[" * 100_000),
        ("zero.py", b"x = 1\0\n"),
        ("bytes.json", b'"\xff"'),
        ("control.yaml", b"a: \x01\n"),
    ],
)
def test_hostile_files_are_a_problem_and_no_crash(path: str, data: bytes) -> None:
    assert problem_in(path, data) is not None
