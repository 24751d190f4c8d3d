"""Runs gates: a plan's command on a fresh checkout of one commit.

Not where a gate's meaning is decided (the plan's command is), nor what a red one leads to
(`core.machine`). Guarantees: the agent's own workspace is never used; each gate sees a tree that
nothing has run in; the same gate on the same tree is run once, also when several attempts ask at
once; text is bash with errexit and pipefail, so `tests | tail` cannot hide a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from orchestrator.core.events import GateOutcome, GateRecord
from orchestrator.core.plan import Gate, argv_of
from orchestrator.gates.evidence import tail_of
from orchestrator.ports import Completed
from orchestrator.workspace.trees import Workspaces

OUTPUT_BYTES_MAX = 1_000_000
"""Bytes of a gate's output that are kept, head and tail."""

NOT_RUNNABLE = frozenset({126, 127})
"""Exit statuses by which a shell says that the tool cannot run or is missing."""

_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...], float, str]


class GateRunner:
    """Runs gates in workspaces of one hub and remembers what came out, by gate and tree."""

    def __init__(self, workspaces: Workspaces, outputs: Path, *, run: str) -> None:
        """`outputs`: folder for whole outputs, `<digest>.txt` each. `run` names the workspaces."""
        self._run_id = run
        self._workspaces = workspaces
        self._outputs = outputs
        self._records: dict[_Key, GateRecord] = {}
        self._locks: dict[_Key, anyio.Lock] = {}

    async def verify(
        self,
        gates: Sequence[Gate],
        *,
        commit: str,
        tree: str,
        base: tuple[str, str],
        env: Mapping[str, str],
    ) -> tuple[GateRecord, ...]:
        """Run `gates` in order on `commit`, stopping after the first red one.

        `tree` is the commit's tree, `base` the run's base commit and its tree: a red gate is run
        there too, for comparison.
        """
        records: list[GateRecord] = []
        for gate in gates:
            record = await self._once(gate, commit, tree, env)
            if not record.passed and tree != base[1]:
                before = await self._once(gate, *base, env)
                record = record.model_copy(update={"base": before.outcome})
            records.append(record)
            if not record.passed:
                break
        return tuple(records)

    async def _once(self, gate: Gate, commit: str, tree: str, env: Mapping[str, str]) -> GateRecord:
        merged = {**env, **gate.env}
        argv = argv_of(gate.run)
        key: _Key = (argv, tuple(sorted(merged.items())), gate.timeout_s, tree)
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._records:
                self._records[key] = await self._run(gate, key, commit)
        return self._records[key].model_copy(update={"name": gate.name})

    async def _run(self, gate: Gate, key: _Key, commit: str) -> GateRecord:
        argv, env, timeout_s, tree = key
        label = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        async with self._workspaces.open(f"{self._run_id}.gate-{label}", commit) as workspace:
            done = await workspace.run(
                argv, timeout_s=timeout_s, output_bytes_max=OUTPUT_BYTES_MAX, env=dict(env)
            )
        digest = hashlib.sha256(done.output).hexdigest()
        await anyio.Path(self._outputs / f"{digest}.txt").write_bytes(done.output)
        return GateRecord(
            name=gate.name,
            argv=argv,
            tree=tree,
            outcome=_outcome(done),
            exit_status=done.exit_status,
            seconds=done.seconds,
            output=digest,
            tail=tail_of(done.output),
        )


def _outcome(done: Completed) -> GateOutcome:
    if done.timed_out:
        return "timeout"
    if done.exit_status in NOT_RUNNABLE:
        return "environment"
    return "passed" if done.exit_status == 0 else "failed"
