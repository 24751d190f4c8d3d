"""Carries out one attempt: merge -> act -> seal -> verify -> publish.

Always these five steps; a task without a role acts by doing nothing, a role that does not write
hands on the merge of its needs unchanged. Its tree is then final before anybody acts, so its
gates run first: nobody is paid to look at a broken tree.

Guarantees: only the harness makes commits; every result is under a ref of the hub before it is
reported; what a failed attempt wrote is kept; conflicts, red gates, refusals and the machine's own
faults are outcomes, never exceptions, and tell what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from orchestrator.agent.loop import AgentResult, run_agent
from orchestrator.agent.parts import PromptParts
from orchestrator.agent.transcript import Transcript
from orchestrator.attempt import commits
from orchestrator.attempt.briefing import read_parts
from orchestrator.attempt.conflicts import describe_conflict
from orchestrator.attempt.hand_in import HandedIn, HandInDesk
from orchestrator.attempt.products import FILE_BYTES_MAX, Read
from orchestrator.core.events import FailureReason, GateRecord
from orchestrator.core.products import Product, Verdict
from orchestrator.core.roles import Role
from orchestrator.core.usage import Usage
from orchestrator.errors import DiskFullError, OrchestratorError, is_disk_full
from orchestrator.gates.evidence import describe_red
from orchestrator.gates.runner import GateRunner
from orchestrator.ports import Model, ModelError, Sealed, Workspace
from orchestrator.spec import AttemptOutcome, AttemptSpec
from orchestrator.tools.text import visible
from orchestrator.workspace.hub import Conflict, Hub, Merged
from orchestrator.workspace.trees import Workspaces

EVIDENCE_CHARS = 12_000
"""Characters of evidence that an outcome carries."""
DIFF_BYTES_MAX = 240_000
"""Bytes of the diff that a reviewer is given; the prompt cuts it to its own measure."""


@dataclass(frozen=True, slots=True)
class Site:
    """The adapters that attempts on this machine work with."""

    hub: Hub
    workspaces: Workspaces
    gates: GateRunner
    model: Model
    transcripts: Path
    """Folder of transcripts, `<task>.<attempt>.jsonl` each."""
    clock: Callable[[], float]
    """Monotonic seconds."""


async def perform(spec: AttemptSpec, site: Site) -> AttemptOutcome:
    """Carry out `spec`. Raises `DiskFullError`; other faults of the machine lose the attempt."""
    began = site.clock()
    attempt = _Attempt(spec, site)
    try:
        outcome = await attempt.run()
    except DiskFullError:
        raise
    except (OrchestratorError, OSError) as error:
        if is_disk_full(error):
            raise DiskFullError(f"{error}; free some room, then resume") from error
        outcome = AttemptOutcome(status="lost", evidence=_evidence(str(error)))
    usage = attempt.usage.model_copy(update={"seconds": site.clock() - began})
    return outcome.model_copy(update={"usage": usage})


class _Attempt:
    """One attempt while it is carried out."""

    def __init__(self, spec: AttemptSpec, site: Site) -> None:
        self.spec, self.site = spec, site
        self.usage = Usage()
        """What its agent has cost."""

    async def run(self) -> AttemptOutcome:
        spec, hub = self.spec, self.site.hub
        merged = await hub.merge(
            spec.base,
            [item.commit for item in spec.inputs],
            message=commits.merge_message(spec),
            date=spec.started_at,
        )
        if isinstance(merged, Conflict):
            return _failed("conflict", await describe_conflict(merged, spec, hub))
        if spec.role is None or not spec.role.writes:
            records = await self.verify(merged.commit, merged.tree)
            if describe_red(records):
                return await self._red(merged, records)
            if spec.role is None:
                return await self._succeeded(merged.commit, merged.tree, gates=records)
            return await self._act(spec.role, merged, records)
        return await self._act(spec.role, merged, ())

    async def verify(self, commit: str, tree: str) -> tuple[GateRecord, ...]:
        """Run the task's gates on a commit."""
        spec = self.spec
        base = (spec.base, await self.site.hub.tree_of(spec.base))
        return await self.site.gates.verify(
            spec.gates, commit=commit, tree=tree, base=base, env=spec.task.env
        )

    async def _act(
        self, role: Role, merged: Merged, records: tuple[GateRecord, ...]
    ) -> AttemptOutcome:
        spec, site = self.spec, self.site
        name = f"{spec.run}.{spec.task.id}.{spec.attempt}"
        path = site.transcripts / f"{spec.task.id}.{spec.attempt}.jsonl"
        async with site.workspaces.open(
            name, merged.commit, tree_from=spec.start_from
        ) as workspace:
            desk = HandInDesk(spec, workspace, self.verify, self._reader(merged.commit))
            start = spec.start_from or merged.commit
            parts = await read_parts(site.hub.reader, spec, role, start=start)
            if role.product == "verdict":
                diff = await site.hub.diff(spec.base, merged.commit, bytes_max=DIFF_BYTES_MAX)
                parts = replace(parts, diff=diff)
            result = await self._converse(workspace, desk, parts, path)
            if isinstance(result, AttemptOutcome):
                return result
            if desk.accepted is None:
                return await self._gave_up(role, result, desk, workspace)
        handed_in = desk.accepted
        if not role.writes:
            handed_in = replace(handed_in, commit=merged.commit, tree=merged.tree, gates=records)
        if isinstance(handed_in.product, Verdict) and not handed_in.product.approve:
            return _rejected(handed_in, handed_in.product)
        return await self._succeeded(
            handed_in.commit,
            handed_in.tree,
            product=handed_in.product,
            gates=handed_in.gates,
            left_out=handed_in.left_out,
        )

    async def _converse(
        self, workspace: Workspace, desk: HandInDesk, parts: PromptParts, path: Path
    ) -> AgentResult | AttemptOutcome:
        """Let the agent act; an outcome when its model has to wait."""
        spec, site = self.spec, self.site
        transcript = await Transcript.create(path)
        try:
            return await run_agent(
                spec=spec,
                model=site.model,
                workspace=workspace,
                parts=parts,
                transcript=transcript,
                hand_in=desk.hand_in,
                clock=site.clock,
            )
        except ModelError as error:
            evidence = _evidence(str(error))
            return AttemptOutcome(status="paused", evidence=evidence, until=error.until)
        finally:
            self.usage = transcript.usage
            with anyio.CancelScope(shield=True):
                await transcript.close()

    def _reader(self, commit: str) -> Read:
        """Reads files of a commit: an agent may have changed the ones in its workspace."""

        async def read(path: str) -> bytes | None:
            return await self.site.hub.read_file(commit, path, FILE_BYTES_MAX)

        return read

    async def _succeeded(
        self,
        commit: str,
        tree: str,
        *,
        product: Product | None = None,
        gates: tuple[GateRecord, ...] = (),
        left_out: tuple[str, ...] = (),
    ) -> AttemptOutcome:
        spec = self.spec
        await self.site.hub.keep(spec.run, spec.task.id, spec.attempt, commit)
        return AttemptOutcome(
            status="succeeded",
            commit=commit,
            tree=tree,
            product=product,
            gates=gates,
            left_out=tuple(map(visible, left_out)),
        )

    async def _red(self, merged: Merged, records: tuple[GateRecord, ...]) -> AttemptOutcome:
        """The inputs merge but a gate says no: the merge is kept for who looks into it."""
        spec = self.spec
        await self.site.hub.keep(spec.run, spec.task.id, spec.attempt, merged.commit, rejected=True)
        return _failed("gate_red", describe_red(records), gates=records)

    async def _gave_up(
        self, role: Role, result: AgentResult, desk: HandInDesk, workspace: Workspace
    ) -> AttemptOutcome:
        """The agent ended without an accepted product: keep its work, say why."""
        reason: FailureReason = result.reason or "nothing_handed_in"
        if reason == "nothing_handed_in" and describe_red(desk.records):
            reason = "own_gate_red"
        kept = await self._keep_work(workspace) if role.writes else None
        red = "" if describe_red(desk.records) in desk.last_refusal else describe_red(desk.records)
        return _failed(
            reason,
            result.evidence,
            red,
            "" if desk.last_refusal in result.evidence else desk.last_refusal,
            commit=kept.commit if kept else None,
            tree=kept.tree if kept else None,
            gates=desk.records,
        ).model_copy(update={"ceiling": result.ceiling})

    async def _keep_work(self, workspace: Workspace) -> Sealed | None:
        """Seal whatever there is, protected paths too: it is kept, not integrated."""
        spec = self.spec
        message = f"{spec.task.id}: unfinished work\n\n{commits.trailers(spec)}"
        sealed = await workspace.seal(
            message=message, date=spec.started_at, writes=None, protect=()
        )
        if not isinstance(sealed, Sealed) or not sealed.changed:
            return None
        await self.site.hub.keep(spec.run, spec.task.id, spec.attempt, sealed.commit, rejected=True)
        return sealed


def _failed(
    reason: FailureReason,
    *evidence: str,
    commit: str | None = None,
    tree: str | None = None,
    product: Product | None = None,
    gates: tuple[GateRecord, ...] = (),
) -> AttemptOutcome:
    return AttemptOutcome(
        status="failed",
        reason=reason,
        evidence=_evidence(*evidence),
        commit=commit,
        tree=tree,
        product=product,
        gates=gates,
    )


def _rejected(handed_in: HandedIn, verdict: Verdict) -> AttemptOutcome:
    lines = [
        f"{finding.path}:{finding.line}: {finding.severity}: {finding.message}"
        for finding in verdict.findings
    ]
    return _failed(
        "rejected",
        "the reviewer did not approve:\n" + "\n".join(lines),
        product=verdict,
        gates=handed_in.gates,
    )


def _evidence(*parts: str) -> str:
    """Parts as one text that is safe to store and show: no control characters, capped."""
    return visible("\n\n".join(part for part in dict.fromkeys(parts) if part))[:EVIDENCE_CHARS]
