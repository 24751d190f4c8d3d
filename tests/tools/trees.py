"""A real workspace over a real repository, and the tools of one attempt on it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.ports import Tool, ToolError, Workspace
from orchestrator.tools.registry import TOOLS, build_tools
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import Files, git, make_repository


@dataclass(frozen=True, slots=True)
class Bench:
    """A workspace and tools to try on it."""

    workspace: Workspace
    tools: Mapping[str, Tool]

    async def use(self, name: str, /, **args: object) -> str:
        """The tool's answer."""
        return await self.tools[name]({key: args[key] for key in args}, self.workspace)

    async def grep(self, **args: object) -> str:
        """`Grep`, with `i` and `n` for the options that are no Python names."""
        named = {f"-{key}" if key in ("i", "n") else key: value for key, value in args.items()}
        return await self.tools["Grep"](named, self.workspace)

    async def error(self, name: str, /, **args: object) -> str:
        """The text of the error that the tool must give."""
        with pytest.raises(ToolError) as caught:
            await self.use(name, **args)
        return str(caught.value)

    async def content(self, path: str) -> bytes:
        """A file's bytes."""
        return await self.workspace.read(path, bytes_max=100_000_000)


@asynccontextmanager
async def workspace_of(tmp_path: Path, files: Files) -> AsyncIterator[Workspace]:
    """A workspace on a commit of `files`, without a sandbox."""
    top = make_repository(tmp_path / "target", files)
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    workspaces = Workspaces(
        hub,
        tmp_path / "state" / "workspaces",
        NoSandbox(),
        env={},
        tool_path=tuple(os.environ["PATH"].split(os.pathsep)),
    )
    async with workspaces.open("tried", git(top, "rev-parse", "HEAD")) as workspace:
        yield workspace


@asynccontextmanager
async def bench_of(
    tmp_path: Path,
    files: Files,
    *,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Bench]:
    """Every tool, on a workspace of `files`."""
    tools = build_tools(list(TOOLS), timeout_s=timeout_s, env=env)
    async with workspace_of(tmp_path, files) as workspace:
        yield Bench(workspace, {tool.spec.name: tool for tool in tools})
