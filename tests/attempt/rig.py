"""Attempts on real repositories with a scripted model: what the tests of this folder stand on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from orchestrator.attempt.perform import Site, perform
from orchestrator.core.graph import GraphView
from orchestrator.core.plan import Gate, Task
from orchestrator.core.roles import Limits, ProductKind, Role
from orchestrator.gates.runner import GateRunner
from orchestrator.messages import Reply, Request, ToolResult
from orchestrator.models.scripted import ScriptedModel, load_script
from orchestrator.ports import Model, Spend
from orchestrator.spec import AttemptOutcome, AttemptSpec, Input
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox, Sandbox
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import Files, git, make_repository

RUN = "r1"
DATE = 1_700_000_777
TRAILERS = f"Orchestrate-Run: {RUN}\nOrchestrate-Task: work\nOrchestrate-Attempt: 1\n"
START: Files = {"a.py": "x = 1\n", "docs/n.md": "one\ntwo\nthree\n", "tests/test_a.py": "ok\n"}

Turn = Mapping[str, JsonValue]


def acting(name: str, product: ProductKind, *, writes: bool = False) -> Role:
    tools = ("Bash", "Edit", "Read", "Write") if writes else ("Bash", "Read")
    return Role(name=name, tools=tools, product=product, writes=writes, prompt=f"You {name}.")


IMPLEMENTER = acting("implement", "change", writes=True)
EXPLORER = acting("explore", "report")
REVIEWER = acting("review", "verdict")
PLANNER = acting("plan", "patch")


def call(name: str, /, **arguments: JsonValue) -> dict[str, JsonValue]:
    """One call of a turn."""
    return {name: arguments}


def turn(*calls: dict[str, JsonValue], **rest: JsonValue) -> Turn:
    """One turn of the script: calls, and `say`, `expect`, `stop_reason`, `usage`."""
    return {"calls": list(calls), **rest}


def bash(command: str) -> dict[str, JsonValue]:
    return call("Bash", command=command)


def submit(summary: str = "done") -> dict[str, JsonValue]:
    return call("SubmitChange", summary=summary)


def gate(run: str | tuple[str, ...], name: str = "tests", **rest: object) -> Gate:
    return Gate.model_validate({"name": name, "run": run, **rest})


@dataclass(slots=True)
class Watched:
    """A model that remembers what it was asked."""

    inner: Model
    requests: list[Request] = field(default_factory=list)

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        self.requests.append(request)
        return await self.inner.complete(request, spend)

    def results(self) -> list[str]:
        """Texts of all tool results that the last request holds, in order."""
        return [
            block.content
            for message in self.requests[-1].messages
            for block in message.blocks
            if isinstance(block, ToolResult)
        ]


@dataclass(slots=True)
class Rig:
    """One target repository with its hub, and what attempts on it need."""

    top: Path
    state: Path
    base: str
    hub: Hub
    workspaces: Workspaces
    gates: GateRunner
    model: Watched

    @classmethod
    async def make(
        cls, tmp_path: Path, files: Files = START, *, sandbox: Sandbox | None = None
    ) -> Rig:
        top = make_repository(tmp_path / "target", files)
        state = tmp_path / "state"
        hub = await Hub.open(state / "hub.git", await Repository.open(top))
        workspaces = Workspaces(
            hub,
            state / "trees",
            sandbox or NoSandbox(),
            env={},
            tool_path=tuple(os.environ["PATH"].split(os.pathsep)),
        )
        (state / "outputs").mkdir()
        gates = GateRunner(workspaces, state / "outputs", run=RUN)
        base = git(top, "rev-parse", "HEAD")
        return cls(top, state, base, hub, workspaces, gates, Watched(_scripted(state, [])))

    def script(self, *turns: Turn) -> None:
        """What the model says from now on, whatever the task."""
        self.model = Watched(_scripted(self.state, turns))

    async def run(self, spec: AttemptSpec) -> AttemptOutcome:
        """Carry it out; whatever comes of it can be stored."""
        site = Site(
            hub=self.hub,
            workspaces=self.workspaces,
            gates=self.gates,
            model=self.model,
            transcripts=self.state / "transcripts",
            clock=lambda: 0.0,
        )
        outcome = await perform(spec, site)
        assert AttemptOutcome.model_validate_json(outcome.model_dump_json()) == outcome
        return outcome

    def spec(
        self,
        role: Role | None = None,
        *gates: Gate,
        inputs: Mapping[str, str] | None = None,
        prompt: str = "Do it.",
        writes: tuple[str, ...] | None = None,
        attempt: int = 1,
        limits: Limits | None = None,
        start_from: str | None = None,
        graph: GraphView | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AttemptSpec:
        """An order for task `work`; `inputs`: commits by task."""
        name = role.name if role else None
        task = Task(id="work", role=name, prompt=prompt, writes=writes, env=dict(env or {}))
        return AttemptSpec(
            run=RUN,
            task=task,
            attempt=attempt,
            goal="",
            role=role,
            model="none",
            limits=limits or Limits(),
            base=self.base,
            started_at=DATE,
            inputs=tuple(Input(task=key, commit=value) for key, value in (inputs or {}).items()),
            start_from=start_from,
            gates=gates,
            protect=("tests/",),
            graph=graph,
        )

    def refs(self) -> dict[str, str]:
        """The hub's refs of this run, without their common beginning."""
        lines = git(self.hub.path, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        pairs = (line.split(" ") for line in lines)
        return {name.removeprefix(f"refs/orchestrate/{RUN}/"): commit for name, commit in pairs}

    def shown(self, commit: str, path: str) -> str:
        """A file of a commit, without its last newline."""
        return git(self.hub.path, "show", f"{commit}:{path}")


def _scripted(folder: Path, turns: Sequence[Turn]) -> ScriptedModel:
    path = folder / "script.yaml"
    path.write_text(json.dumps({"tasks": {"*": list(turns)}}), encoding="utf-8")
    return ScriptedModel(load_script(path))
