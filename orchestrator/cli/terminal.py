"""The process's streams: what is printed where, and that printing cannot fail for its encoding.

stdout carries a command's result and nothing else; stderr the rest.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from orchestrator.errors import UsageError
from orchestrator.observers.text import Style


def prepare_streams() -> None:
    """Make stdout and stderr safe to write to: closed ones lead nowhere, odd characters escaped."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdout.buffer, io.RawIOBase):
        # PYTHONUNBUFFERED: a raw stream drops what a closed pipe did not take, and says nothing.
        encoding = sys.stdout.encoding
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(sys.stdout.detach()), encoding=encoding)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")


def out_style(*, plain: bool = False) -> Style:
    """Colour for stdout."""
    return Style.of(sys.stdout, os.environ, plain=plain)


def err_style(*, plain: bool = False) -> Style:
    """Colour for stderr."""
    return Style.of(sys.stderr, os.environ, plain=plain)


def out(lines: Iterable[str]) -> None:
    """Print lines of the result."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def save(path: Path, text: str, hint: str = "") -> None:
    """Write a result where `-o` says. Raises `UsageError`; `hint` says how it can still be had."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}){hint}") from error


def note(text: str) -> None:
    """Tell the person something that is not the result; never fails."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def note_aside(text: str) -> None:
    """`note` from the event loop: a terminal that takes nothing must not hold up the run."""
    threading.Thread(target=note, args=(text,), name="note", daemon=True).start()


def settle_stdout() -> None:
    """After an error: print what is buffered; if that fails, the last flush leads nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
