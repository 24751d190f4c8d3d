"""The README's two commands and what continuous integration runs are the same text."""

from __future__ import annotations

import os

import pytest

from tests.style.source import ROOT, text_files

COMMANDS = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/orchestrate demo",
    ".venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", ["README.md", ".ci/run"])
def test_the_command_stands_there_alone_on_its_line(path: str, command: str) -> None:
    assert command in [line.strip() for line in text_files()[path].splitlines()]


def test_the_script_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert text_files()[".ci/run"].startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)
