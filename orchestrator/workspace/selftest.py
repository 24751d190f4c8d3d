"""Whether a sandbox holds: tries to break out of it, with this machine's kernel and settings.

A program that starts is no proof. The test plants a secret, a listening socket and a file to
overwrite outside, runs a script in the sandbox that goes for all of them and leaves a process
behind, and then looks from outside.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from anyio import to_thread

from orchestrator.workspace.environment import TREE
from orchestrator.workspace.process import run_process

_TIMEOUT_S = 20.0
_OUTPUT_BYTES_MAX = 20_000

# Prints what worked and should not have, as a JSON list. sys.argv: folder outside, port.
_SCRIPT = """
import json, os, socket, subprocess, sys
outside, port = sys.argv[1], int(sys.argv[2])
broken = []
def forbid(what, attempt):
    try:
        attempt()
    except OSError:
        return
    broken.append(what)
def connect():
    socket.create_connection(("127.0.0.1", port), 2).close()
def write(path):
    os.close(os.open(path, os.O_WRONLY))
def enter(folder):  # asks only: where nothing holds, nothing must be made
    if not os.access(folder, os.W_OK):
        raise PermissionError
forbid("reads files of the host", lambda: open(outside + "/secret").read())
forbid("writes files of the host", lambda: write(outside + "/secret"))
forbid("makes files of the host", lambda: open(outside + "/made", "w").close())
forbid("writes system folders", lambda: enter("/usr"))
forbid("writes /etc", lambda: enter("/etc"))
forbid("reaches the network", connect)
forbid("writes kernel settings", lambda: write("/proc/sys/kernel/core_pattern"))
forbid("writes .git", lambda: open(".git", "w").close())
open("written", "w").close()
daemon = (
    "import fcntl, os, time\\nf = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)\\n"
    "print(flush=True)\\nwhile os.path.exists('lock'): time.sleep(0.1)"  # gone with the test
)
command = [sys.executable, "-I", "-S", "-c", daemon]
child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(json.dumps(broken))
"""


class Wrapper(Protocol):
    """The part of a sandbox that is tested."""

    def prepare(self, place: Path) -> dict[str, str]:
        """Make what commands need beside the tree."""
        ...

    def wrap(
        self, argv: Sequence[str], *, place: Path, env: Mapping[str, str], tool_path: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """The command to run instead."""
        ...


async def problems_of(sandbox: Wrapper) -> list[str]:
    """What a sandbox lets through on this machine; empty when it holds."""
    with (
        tempfile.TemporaryDirectory(prefix="orchestrate-selftest-") as outside,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        return await _attack(sandbox, Path(outside), server.getsockname()[1])


async def _attack(sandbox: Wrapper, outside: Path, port: int) -> list[str]:
    place = outside / secrets.token_hex(8)
    tree = place / TREE
    await to_thread.run_sync(_plant, outside, tree)
    argv, env = sandbox.wrap(
        [sys.executable, "-I", "-S", "-c", _SCRIPT, str(outside), str(port)],
        place=place,
        env=sandbox.prepare(place),
        tool_path=(),
    )
    done = await run_process(
        argv, cwd=tree, env=env, timeout_s=_TIMEOUT_S, output_bytes_max=_OUTPUT_BYTES_MAX
    )
    words = done.output.decode(errors="replace").strip()
    if done.exit_status != 0:
        return [f"it does not start: {words.splitlines()[-1] if words else 'no message'}"]
    problems = [str(item) for item in json.loads(words.splitlines()[-1])]
    return problems + await to_thread.run_sync(_look, outside, tree)


def _plant(outside: Path, tree: Path) -> None:
    tree.mkdir(parents=True)
    (tree / ".git").touch()
    (outside / "secret").write_text("secret", encoding="ascii")


def _look(outside: Path, tree: Path) -> list[str]:
    """What can be seen from outside after the script has ended."""
    problems = []
    if (outside / "made").exists() or not (tree / "written").exists():
        problems.append("the workspace is not where it should be")
    descriptor = os.open(tree / "lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problems.append("processes outlive their command")
    finally:
        os.close(descriptor)
    return problems
