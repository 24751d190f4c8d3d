"""Where every command ends: errors become one line on stderr and an exit code.

    expected (`OrchestratorError`, a wrong command line)    its text, its code
    stdout closed by its reader                             nothing, 141, like any Unix tool
    Ctrl-C                                                  130
    anything else                                           a report file, its path, 70

A report file holds the traceback without values of variables, versions and the command's name: no
environment, no arguments; what looks like a key is blotted out of messages.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from orchestrator import __version__
from orchestrator.cli.terminal import note, settle_stdout
from orchestrator.errors import ExitCode, OrchestratorError, is_disk_full
from orchestrator.observers.text import clean
from orchestrator.state_folder import state_home

BROKEN_PIPE = 141
"""128 + SIGPIPE: what a shell reports for a program that its reader left."""

SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
SECRET_CHARS_MIN = 8
SECRET_TEXT = re.compile(r"sk-[A-Za-z0-9_-]{8,}|(?<=://)[^/\s@]+@|(?i:bearer)\s+\S+")


def guarded(command: Callable[[], object]) -> int:
    """Run `command`, which returns an exit code or None, and give the code to leave with."""
    try:
        result = command()
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - nothing may leave as a traceback
        code = _code_of(error)
        settle_stdout()
        return code
    return result if isinstance(result, int) else ExitCode.OK


def _code_of(error: BaseException) -> int:
    """Say what went wrong and give its exit code."""
    leaves = list(_leaves(error))
    if any(isinstance(leaf, KeyboardInterrupt | click.Abort) for leaf in leaves):
        note("interrupted")
        return ExitCode.SIGINT
    unexpected = [leaf for leaf in leaves if not _expected(leaf)]
    if unexpected:
        return _bug(unexpected[0])
    first = leaves[0]
    for leaf in leaves:
        _tell(leaf)
    match first:
        case OrchestratorError():
            return first.exit_code
        case click.ClickException():
            return first.exit_code
        case BrokenPipeError():
            return BROKEN_PIPE
        case _:
            return ExitCode.DISK_FULL


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group of errors, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _expected(error: BaseException) -> bool:
    known = isinstance(error, OrchestratorError | click.ClickException | BrokenPipeError)
    return known or is_disk_full(error)


def _tell(error: BaseException) -> None:
    """The error's text on stderr; nothing for a reader that has left."""
    match error:
        case click.UsageError(ctx=click.Context() as ctx):
            note(clean(f"{ctx.command_path}: {error.format_message()}"))
            if error.ctx is not None:
                note(f"see `{ctx.command_path} --help`")
        case click.ClickException():
            note(clean(error.format_message()))
        case BrokenPipeError():
            pass
        case OSError():
            note("the disk is full: free some room, then `orchestrate resume`")
        case _:
            note(clean(str(error)))


def _bug(error: BaseException) -> int:
    """Write a report file and say where it is."""
    what = clean(redacted(f"{type(error).__name__}: {error}")).partition("\n")[0]
    try:
        path = _write_report(error)
    except (OSError, OrchestratorError) as failed:
        note(f"a bug in orchestrate: {what} (no report could be written: {clean(str(failed))})")
        note(clean(redacted("".join(traceback.format_exception(error)))))
    else:
        note(f"a bug in orchestrate: {what}; please report it with {path}")
    return ExitCode.BUG


def _write_report(error: BaseException) -> Path:
    """The report file, readable by its owner alone."""
    folder = state_home() / "reports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = folder / f"bug-{stamp}-{os.getpid()}.txt"
    lines = (
        f"orchestrate {__version__}",
        f"python {platform.python_version()} on {platform.platform()}",
        f"command {next((word for word in sys.argv[1:2] if word.isalpha()), '')}",
        "",
        redacted("".join(traceback.format_exception(error))),
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("\n".join(lines))
    return path


def redacted(text: str) -> str:
    """`text` without the values of secret-looking variables and without what looks like a key."""
    secrets = (value for name, value in os.environ.items() if SECRET_VARIABLE.search(name))
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARS_MIN:
            text = text.replace(secret, "[redacted]")
    return SECRET_TEXT.sub("[redacted]", text)
