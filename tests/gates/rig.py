"""A gate runner over a real repository, and workspaces in every sandbox this machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.events import GateRecord
from orchestrator.core.plan import Gate
from orchestrator.gates.runner import GateRunner
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox, Sandbox
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import Files, git, make_repository


def gate(run: str | tuple[str, ...], name: str = "g", timeout_s: float = 60.0, **env: str) -> Gate:
    return Gate(name=name, run=run, timeout_s=timeout_s, env=env)


@dataclass(slots=True)
class Rig:
    """Gates on one repository."""

    top: Path
    hub: Hub
    workspaces: Workspaces
    runner: GateRunner
    outputs: Path
    base: str

    @classmethod
    async def make(
        cls, tmp_path: Path, files: Files | None = None, sandbox: Sandbox | None = None
    ) -> Rig:
        top = make_repository(tmp_path / "target", files or {"a.py": "x = 1\n"})
        hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
        workspaces = Workspaces(
            hub,
            tmp_path / "state" / "trees",
            sandbox or NoSandbox(),
            env={},
            tool_path=tuple(os.environ["PATH"].split(os.pathsep)),
        )
        outputs = tmp_path / "state" / "outputs"
        outputs.mkdir()
        runner = GateRunner(workspaces, outputs, run="r1")
        return cls(top, hub, workspaces, runner, outputs, git(top, "rev-parse", "HEAD"))

    async def verify(
        self, *gates: Gate, commit: str = "", env: Mapping[str, str] | None = None
    ) -> tuple[GateRecord, ...]:
        """Run gates on `commit`, the base unless it is given."""
        commit = commit or self.base
        return await self.runner.verify(
            gates,
            commit=commit,
            tree=self.tree(commit),
            base=(self.base, self.tree(self.base)),
            env=env or {},
        )

    async def one(self, gate: Gate, commit: str = "") -> GateRecord:
        (record,) = await self.verify(gate, commit=commit)
        return record

    def tree(self, commit: str) -> str:
        return git(self.hub.path, "rev-parse", f"{commit}^{{tree}}")
