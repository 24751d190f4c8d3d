"""The cheap check of a task (`check` in the plan): run after a turn that edited files.

Not a gate: it tells the agent early what a gate would tell it late, and decides nothing. Its result
is appended to that of the turn's last edit, where it is read next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from orchestrator.core.plan import Command, argv_of
from orchestrator.ports import Workspace
from orchestrator.tools.text import cleaned, clipped

EDITING_TOOLS = frozenset({"Edit", "Write"})
"""Calls after which the check is worth its time; commands may do anything and check themselves."""

TIMEOUT_S = 60.0
"""A check that takes longer is no cheap one."""
OUTPUT_BYTES_MAX = 64 * 1024
OUTPUT_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class EditCheck:
    """Runs one command in the agent's workspace."""

    command: Command
    env: Mapping[str, str]

    async def run(self, workspace: Workspace, seconds_max: float) -> str:
        """What it says about the tree as it is now: one line when it passes, else its output."""
        timeout_s = min(TIMEOUT_S, max(seconds_max, 1.0))
        done = None
        with anyio.move_on_after(timeout_s + 5):
            done = await workspace.run(
                argv_of(self.command),
                timeout_s=timeout_s,
                output_bytes_max=OUTPUT_BYTES_MAX,
                env=self.env,
            )
        if done is None or done.timed_out:
            return f"[check: not done within {timeout_s:.0f} s]"
        if done.exit_status == 0:
            return "[check: passed]"
        output = clipped(cleaned(done.output).strip(), OUTPUT_CHARS, hint="run it yourself")
        return f"[check: failed with exit status {done.exit_status}]\n{output}"
