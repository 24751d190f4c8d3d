"""`Bash`: one command of the agent, in its workspace.

Plain `bash -c`: neither errexit nor pipefail, as an agent expects of a shell. What may be reached
is the sandbox's business; here are the time limit, the caps, and the form of the answer. A command
that fails or runs out of time is an error result that holds its output all the same.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from orchestrator.core.base import Record
from orchestrator.ports import Completed, ToolError, Workspace
from orchestrator.tools.definition import Definition, ToolSession
from orchestrator.tools.text import RESULT_CHARS_MAX, cleaned, clipped

TIMEOUT_S = 120.0
"""How long a command may take that names no limit."""
TIMEOUT_S_MAX = 600.0
"""The most it may ask for where the task says nothing."""
OUTPUT_BYTES_MAX = 256 * 1024
"""What the workspace keeps of it, head and tail: more than is shown, whatever the encoding."""
OUTPUT_CHARS_MAX = RESULT_CHARS_MAX - 1_000


class BashArguments(Record):
    """Arguments of `Bash`."""

    command: Annotated[str, Field(min_length=1, max_length=100_000, pattern=r"^[^\x00]+$")]
    """The command, for `bash -c`, run in the working folder."""
    timeout: Annotated[int, Field(ge=1)] | None = None
    """Milliseconds after which it is ended."""
    description: Annotated[str, Field(max_length=1_000)] = ""
    """What it is for, in a few words."""


async def _bash(args: BashArguments, workspace: Workspace, session: ToolSession) -> str:
    most = session.timeout_s or TIMEOUT_S_MAX
    wanted = args.timeout / 1_000 if args.timeout is not None else session.timeout_s or TIMEOUT_S
    completed = await workspace.run(
        ["bash", "-c", args.command],
        timeout_s=min(wanted, most),
        output_bytes_max=OUTPUT_BYTES_MAX,
        env=session.env,
    )
    answer = _answer(completed, most, timeout_s=min(wanted, most))
    if completed.exit_status != 0:
        raise ToolError(answer)
    return answer


def _answer(completed: Completed, most: float, *, timeout_s: float) -> str:
    """The output, then how the command ended."""
    output = clipped(
        cleaned(completed.output),
        OUTPUT_CHARS_MAX,
        hint="run again with less output (head, tail, grep), or into a file and read that",
        missing_bytes=completed.dropped_bytes,
    )
    if output and not output.endswith("\n"):
        output += "\n"
    if completed.timed_out:
        limit = f"{most:g} s is the most here" if timeout_s >= most else "give a longer timeout"
        return (
            f"{output}[ended after {timeout_s:g} s, with all that it had started; {limit}. Files"
            " that it wrote until then are there.]"
        )
    empty = "" if output else "no output, "
    return f"{output}[{empty}exit status {completed.exit_status}]"


BASH = Definition(
    name="Bash",
    description=(
        "Run a command with bash in the working folder. The answer holds standard output and error"
        f" in the order they came (about {OUTPUT_CHARS_MAX:,} characters, head and tail) and the"
        f" exit status. It is ended after {TIMEOUT_S:g} s unless `timeout` says otherwise, and so"
        " is everything that it started: nothing runs on in the background. Standard input is"
        " closed. Each command starts in the working folder with a fresh shell."
    ),
    arguments=BashArguments,
    carry_out=_bash,
    read_only=False,
)
