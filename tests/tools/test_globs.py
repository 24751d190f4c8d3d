"""Patterns for paths: what matches, and that no pattern takes for ever."""

from __future__ import annotations

import pytest

from orchestrator.ports import ToolError
from orchestrator.tools.globs import below, matcher


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/*.py", "other/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "tests/test_a.py", True),
        ("src/**", "src/x/y", True),
        ("src/", "src/x/y", True),
        ("src/", "other/src/x", True),
        ("*.{ts,tsx}", "web/a.tsx", True),
        ("*.{ts,tsx}", "web/a.js", False),
        ("{a,b}/{c,d}.txt", "b/c.txt", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("?.txt", "ab.txt", False),
        ("!*.py", "a.py", False),
        ("!*.py", "a.txt", True),
        ("./a.py", "a.py", True),
        ("A.py", "a.py", False),
        ("**/a/**/b", "a/x/a/b", True),
        ("**/a/**/b", "x/b", False),
    ],
)
def test_a_pattern_matches_what_it_says(pattern: str, path: str, matches: bool) -> None:
    assert matcher(pattern)(path) is matches


def test_hostile_patterns_end_soon() -> None:
    path = "/".join(["a" * 100] * 30)
    assert not matcher("**/" + "a*" * 40 + "b")(path)
    assert not matcher("**/a*/" * 20 + "b")(path)


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(ToolError, match="more than 64 alternatives"):
        matcher("{a,b}" * 20)


def test_an_unclosed_brace_is_literal() -> None:
    assert matcher("a{b,c")("a{b,c")


def test_below_is_about_folders_not_prefixes() -> None:
    assert below("src", "src/a.py") == "a.py"
    assert below("src", "srcs/a.py") is None
    assert below("src/a.py", "src/a.py") == "a.py"
    assert below(".", "src/a.py") == "src/a.py"
