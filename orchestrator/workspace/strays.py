"""Ends what a command left behind in a session of its own, where no sandbox does it.

Every command carries a token in its environment, and so does all it starts; whoever still carries
it when the command is over is a stray. A process is signalled only while its environment holds the
token, so a recycled process id is never hit by what was written down earlier.

Best effort: a process that clears its environment gets away, and where there is no /proc nothing
is found. The sandbox's process namespace is the real answer.
"""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

VARIABLE = "ORCHESTRATE_COMMAND"
"""Name of the variable that marks a command's processes."""

_ROUNDS = 5
_NEEDLE = f"{VARIABLE}=".encode()


def new_token(workspace: str) -> str:
    """A value for `VARIABLE` that no other command has; it begins with the workspace's name."""
    return f"{workspace}.{secrets.token_hex(16)}"


def end_strays(token: str) -> int:
    """Kill every process whose token starts with `token`; how many there were.

    Blocks for milliseconds. Repeats until none is found, for a process may fork while others are
    being killed.
    """
    ended = 0
    for _ in range(_ROUNDS):
        found = [pid for pid, its in _tokens().items() if its.startswith(token)]
        for pid in found:
            _kill(pid)
        ended += len(found)
        if not found:
            break
    return ended


def workspaces() -> dict[int, str]:
    """Every process that a command started, by id, with the name of that command's workspace."""
    return {pid: token.rpartition(".")[0] for pid, token in _tokens().items()}


def _tokens() -> dict[int, str]:
    """The marked processes with their tokens."""
    found = {pid: _token(pid) for pid in _processes()}
    return {pid: token for pid, token in found.items() if token is not None}


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _token(pid: int) -> str | None:
    """The marker that a process was started with; a zombie's environment is empty."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(_NEEDLE):
            return os.fsdecode(variable[len(_NEEDLE) :])
    return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
