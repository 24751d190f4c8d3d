"""Runs a command line of the program in the tests' own process: starting one takes a second."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from tests.cli.program import Result


def run_inside(*words: str, home: Path, **variables: str) -> Result:
    """`orchestrate WORDS` with its state below `home`; the folder is the tests' own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"ORCHESTRATE_HOME": str(home), **variables}.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
    return Result(int(code), _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
