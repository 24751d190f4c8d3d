"""Runs told by hand: short ways to write tasks and plans, and to say how attempts end."""

from __future__ import annotations

from random import Random

from orchestrator.core.checks import with_integration
from orchestrator.core.decide import StartAttempt, decide
from orchestrator.core.events import (
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptSucceeded,
    FailureReason,
    PlanRejected,
    PlanRevised,
    StoredEvent,
    TaskBlocked,
)
from orchestrator.core.plan import Plan, RunBudget, Task
from orchestrator.core.products import Change, PlanPatch, Product
from orchestrator.core.roles import Ceiling
from orchestrator.core.signature import signature
from orchestrator.core.usage import Usage
from tests.core.ledger import Ledger
from tests.support.simulator import GATE, ROLES, Luck, Simulation, object_id

CALM = Luck(failure=0, lost=0, crash=0, provider=0)


def task(key: str, needs: str = "", role: str | None = "implementer", **rest: object) -> Task:
    """A task; `needs` are ids parted by spaces. Without a role it has a gate."""
    given = {"prompt": "Do it."} if role else {"gates": (GATE,)}
    values = {"id": key, "role": role, "needs": tuple(needs.split()), **given, **rest}
    return Task.model_validate(values)


def plan(*tasks: Task, replans: int = 3, workers: int = 8, **rest: object) -> Plan:
    """A plan with a gate for its merges, and with `integrate` where it is called for."""
    values = {"gates": (GATE,), "budget": RunBudget(replans=replans), "workers": workers, **rest}
    return with_integration(Plan.model_validate({"tasks": tasks, **values}), ROLES)


class Story(Simulation):
    """A run whose attempts end as the test says. Everything that follows of itself is done."""

    def __init__(self, plan: Plan, *, plan_only: bool = False) -> None:
        super().__init__(plan, Random(0), CALM, watch=[Ledger()], plan_only=plan_only)
        self.go()

    @property
    def running(self) -> set[str]:
        """Ids of running tasks."""
        return set(self.state.running)

    @property
    def status(self) -> dict[str, str]:
        """Status by task."""
        return {key: held.status.value for key, held in self.state.tasks.items()}

    def go(self) -> None:
        """Carry out commands until there is nothing but to wait."""
        while self.carry_out():
            pass

    def next_starts(self) -> list[str]:
        """Ids of the tasks that would start now, in order."""
        return [item.task for item in decide(self.state) if isinstance(item, StartAttempt)]

    def succeed(
        self,
        *keys: str,
        product: Product | None = None,
        usd: float = 0,
        commit: str | None = None,
    ) -> None:
        """Let running attempts succeed, one after the other, without starting others between."""
        for key in keys:
            self.append(
                AttemptSucceeded(
                    task=key,
                    attempt=self._attempt(key),
                    commit=commit or object_id(key),
                    tree=object_id(f"tree of {key}"),
                    product=product or Change(summary=f"{key} done"),
                    usage=Usage(usd=usd),
                )
            )
        self.go()

    def fail(
        self,
        *keys: str,
        reason: FailureReason = "own_gate_red",
        evidence: str | None = None,
        product: Product | None = None,
        usd: float = 0,
        ceiling: Ceiling | None = None,
    ) -> None:
        """Let running attempts fail, as `succeed` does. Evidence differs by task if not given."""
        for key in keys:
            why = evidence if evidence is not None else f"{key} broke"
            self.append(
                AttemptFailed(
                    task=key,
                    attempt=self._attempt(key),
                    reason=reason,
                    evidence=why,
                    signature=signature(reason, why),
                    commit=object_id(f"work on {key}"),
                    product=product,
                    usage=Usage(usd=usd),
                    ceiling=ceiling,
                )
            )
        self.go()

    def lose(self, key: str, interrupted: bool = False) -> None:
        """Let infrastructure fail under a running attempt."""
        self.append(
            AttemptLost(task=key, attempt=self._attempt(key), why="disk", interrupted=interrupted)
        )
        self.go()

    def cancel(self, key: str) -> None:
        """End a running attempt by name."""
        self.append(AttemptCancelled(task=key, attempt=self._attempt(key), why="by name"))
        self.go()

    def patch(self, planner: str, patch: PlanPatch) -> None:
        """Let a running planner hand in `patch`."""
        self.succeed(planner, product=patch)

    def bodies(self, kind: type) -> list[object]:
        """Bodies of all events of a kind."""
        return [item.body for item in self.events if isinstance(item.body, kind)]

    @property
    def charges(self) -> list[str]:
        """Failed tasks for which a replan was charged, in order."""
        revisions = [item.body for item in self.events if isinstance(item.body, PlanRevised)]
        return [item.replans for item in revisions if item.replans is not None]

    @property
    def rejections(self) -> list[str]:
        """Problems of rejected patches."""
        rejected = [item.body for item in self.events if isinstance(item.body, PlanRejected)]
        return [problem for body in rejected for problem in body.problems]

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """(task, by) of all TaskBlocked events."""
        blocked = [item.body for item in self.events if isinstance(item.body, TaskBlocked)]
        return [(body.task, body.by) for body in blocked]

    def starts_of(self, key: str) -> int:
        """How often attempts of the task were started."""
        return sum(
            item.body.type == "AttemptStarted" and item.body.task == key for item in self.events
        )

    def last(self) -> StoredEvent:
        """The newest event."""
        return self.events[-1]

    def _attempt(self, key: str) -> int:
        return self.state.tasks[key].attempt
