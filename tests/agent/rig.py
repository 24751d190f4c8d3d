"""Runs an agent on a real workspace with a model that follows a list."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.agent.loop import AgentResult, HandIn, run_agent
from orchestrator.agent.parts import PromptParts
from orchestrator.agent.transcript import Transcript, TranscriptContent, read_transcript
from orchestrator.core.plan import ModelPrice, Task
from orchestrator.core.roles import Limits, Role
from orchestrator.messages import Message, ToolResult
from orchestrator.ports import Model, Workspace
from tests.agent.examples import Desk, order, role
from tests.support.repositories import Files
from tests.tools.trees import workspace_of

IMPLEMENTER = role("Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write")


@dataclass(slots=True)
class Rig:
    """One attempt that is to be run."""

    workspace: Workspace
    transcript_path: Path
    desk: Desk = field(default_factory=Desk)

    async def run(
        self,
        model: Model,
        *,
        acting: Role = IMPLEMENTER,
        task: Task | None = None,
        limits: Limits | None = None,
        hand_in: HandIn | None = None,
        clock: Callable[[], float] = time.monotonic,
        prices: Mapping[str, ModelPrice] | None = None,
    ) -> AgentResult:
        transcript = await Transcript.create(self.transcript_path)
        try:
            return await run_agent(
                spec=order(acting, task, limits=limits, prices=prices),
                model=model,
                workspace=self.workspace,
                parts=PromptParts(),
                transcript=transcript,
                hand_in=hand_in or self.desk,
                clock=clock,
            )
        finally:
            await transcript.close()

    def written(self) -> TranscriptContent:
        """What the transcript holds."""
        return read_transcript(self.transcript_path)

    async def content(self, path: str) -> str:
        return (await self.workspace.read(path, bytes_max=1_000_000)).decode()

    def exists(self, path: str) -> bool:
        return (Path(self.workspace.location) / path).exists()


@asynccontextmanager
async def rig(
    tmp_path: Path, files: Files | None = None, desk: Desk | None = None
) -> AsyncIterator[Rig]:
    """A rig on a repository of `files`."""
    async with workspace_of(tmp_path, files or {"a.txt": "one\ntwo\n"}) as workspace:
        yield Rig(workspace, tmp_path / "transcript.jsonl", desk or Desk())


def results(message: Message) -> list[ToolResult]:
    """The tool results of a user message."""
    return [block for block in message.blocks if isinstance(block, ToolResult)]
