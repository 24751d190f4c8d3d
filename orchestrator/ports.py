"""The seams: what the inside asks of the outside, one method a seam wherever that suffices.

Read this file first. Each Protocol has a conformance suite in `tests/conformance/` that every
implementation passes, fakes included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from orchestrator.core.events import StoredEvent
from orchestrator.core.usage import Usage
from orchestrator.messages import Reply, Request, ToolSpec
from orchestrator.spec import AttemptOutcome, AttemptSpec

if TYPE_CHECKING:
    from orchestrator.core.state import RunState

NO_USAGE = Usage()


class ModelError(Exception):
    """A model could not answer.

    `reason` is a `FailureReason`, or `pause` for a hard limit that no task is to blame for. `usage`
    is what tries that came to nothing have cost. `until`: Unix seconds when asking again may help;
    None where nobody knows.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        usage: Usage = NO_USAGE,
        until: float | None = None,
    ) -> None:
        self.reason = reason
        self.usage = usage
        self.until = until
        super().__init__(message)


Spend = Callable[[Usage], Awaitable[None]]
"""Takes what a try that came to nothing has cost. Raises what ends the asking."""


class Model(Protocol):
    """Answers one request. Streams, retries and prices inside; keeps no conversation."""

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """Answer `request`; raise `ModelError` when there is no answer to be had.

        `spend` is told what each failed try has cost before the next one is made, so that a budget
        can end the asking: what it raises goes through. What it was told is in nobody's usage.
        """
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended."""

    argv: tuple[str, ...]
    exit_status: int | None
    """Exit status, `128 + n` for signal n, None when it was ended by the time limit."""
    output: bytes
    """Both streams in the order they came, head and tail, the middle dropped past the cap."""
    dropped_bytes: int
    """How much of the middle is missing."""
    seconds: float

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended it."""
        return self.exit_status is None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a workspace."""

    path: str
    """Relative to the root, `/` between parts."""
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """The tree of a workspace, as a commit of the hub."""

    commit: str
    tree: str
    changed: tuple[str, ...]
    """Paths that differ from the parent, sorted."""
    left_out: tuple[str, ...]
    """`path: reason` of what was not taken in: artefacts, huge files."""


@dataclass(frozen=True, slots=True)
class SealRefused:
    """The tree cannot be sealed as it is; the agent is told why and may mend it."""

    problems: tuple[str, ...]
    """One sentence each: the path, what is wrong, what to do."""


class FileAccessError(Exception):
    """A file operation that was refused or failed; the text tells an agent what to do instead."""


class Workspace(Protocol):
    """A private copy of a tree: commands run in it, files are read and written beneath its root.

    Paths are relative to the root with `/`; absolute ones are accepted when inside. Nothing leaves
    the tree: links are not followed out of it, `.git` in any spelling is refused.
    """

    @property
    def location(self) -> str:
        """The root as commands and agents see it, an absolute path."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        output_bytes_max: int,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command at the root: own session, stdin closed, nothing of it survives the call.

        Returns when the direct child has exited. A missing program gives exit status 127.
        """
        ...

    async def read(self, path: str, *, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of a regular file. Raises `FileAccessError`."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace or create a regular file, folders included; its mode stays.

        Raises `FileAccessError`.
        """
        ...

    async def files(self) -> tuple[FileEntry, ...]:
        """All files, tracked or new, without ignored ones, sorted by path."""
        ...

    async def seal(
        self,
        *,
        message: str,
        date: int,
        writes: Sequence[str] | None,
        protect: Sequence[str],
    ) -> Sealed | SealRefused:
        """Make a commit of the tree on top of the workspace's parent commit.

        `writes`: gitignore patterns that may change, None is everything but `protect`.
        `date`: Unix seconds for author and committer. Fails with `InfrastructureError` only.
        """
        ...


class Tool(Protocol):
    """Something an agent can call."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema: what the model is told."""
        ...

    async def __call__(self, args: Mapping[str, object], workspace: Workspace) -> str:
        """Carry out the call. Raises `ToolError` with a text that says what to do instead."""
        ...


class ToolError(Exception):
    """A tool call that failed; the text goes to the model as an error result."""


class Executor(Protocol):
    """Carries out attempts somewhere."""

    async def run(self, spec: AttemptSpec) -> AttemptOutcome:
        """Carry out one attempt. What goes wrong inside it is in the outcome, never raised."""
        ...


Observer = Callable[[StoredEvent, "RunState"], None]
"""Sees every event after it is durable, and the state with it. One that raises is dropped."""
