"""The linter, the formatter and the type checker, as tests: one command tells all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.style.source import ROOT


def run_tool(*argv: str, timeout_s: float) -> None:
    """Run a module of this environment on the project; a failure says what it complains of."""
    done = subprocess.run(
        [sys.executable, "-m", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(argv)}\n{done.stdout}{done.stderr}", pytrace=False)


def test_ruff_check() -> None:
    run_tool("ruff", "check", "--output-format=concise", ".", timeout_s=50)


def test_ruff_format() -> None:
    run_tool("ruff", "format", "--check", "--output-format=concise", ".", timeout_s=50)


@pytest.mark.timeout(420)
def test_mypy_strict() -> None:
    run_tool("mypy", timeout_s=400)
