"""A second opinion on a run: what must hold of its events, reckoned without the machine.

It reads events only (and the state just to compare statuses at the end), so a rule that the
machine gets wrong is not got wrong here in the same way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from orchestrator.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    PlanRejected,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    StoredEvent,
    TaskBlocked,
    TaskSkipped,
)
from orchestrator.core.plan import PlanSettings, Task
from orchestrator.core.products import PlanProposal, Product
from orchestrator.core.roles import Limits
from orchestrator.core.state import RunState

ENDS = frozenset({"succeeded", "failed", "blocked", "skipped", "cancelled"})


@dataclass
class Ledger:
    """Is shown each event; raises `AssertionError` at the first that breaks a rule."""

    settings: PlanSettings = field(default_factory=PlanSettings)
    planners: set[str] = field(default_factory=set)
    """Names of roles that hand in patches."""
    tasks: dict[str, Task] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    """How each task's newest attempt, or the task itself, ended."""
    running: dict[str, Limits] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)
    """Failures of each task since it was last changed by a patch."""
    relied_on: set[str] = field(default_factory=set)
    """Failed tasks that others started on: they may not come back by themselves."""
    blocked: set[str] = field(default_factory=set)
    charged: dict[str, str] = field(default_factory=dict)
    """Failed task by the planner task that was charged for it."""
    signatures: dict[str, str] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)
    spent_usd: float = 0.0
    spent_tokens: int = 0
    paused: bool = False
    mends: dict[str, str] = field(default_factory=dict)
    """Failed task by the planner task that is there for it."""
    finished: bool = False
    plan_only: bool = False
    products: dict[str, Product | None] = field(default_factory=dict)
    """What planners have handed in, as long as it is neither applied nor rejected."""
    asked: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)

    def __call__(self, stored: StoredEvent, state: RunState) -> None:
        """Check the event against all before it."""
        assert not self.finished, "an event after the end"
        body = stored.body
        match body:
            case RunStarted():
                self.settings, self.plan_only = body.settings, body.plan_only
                self.planners = {role.name for role in body.roles if role.product == "patch"}
            case PlanRevised():
                self._revised(body)
            case AttemptStarted():
                self._started(body)
            case AttemptSucceeded() | AttemptFailed() | AttemptLost() | AttemptCancelled():
                self._ended(body)
            case TaskSkipped():
                assert body.task not in self.ended, "only what has never run is skipped"
                self.ended[body.task] = "skipped"
            case TaskBlocked():
                self._blocked(body)
            case RunFinished():
                self._finished(body, state)
            case ApprovalAsked():
                assert body.task in self.products, "nothing of it waits"
                assert body.task not in self.asked, "asked twice"
                assert body.what == self._approval(body.task)
                self.asked.add(body.task)
            case ApprovalGiven():
                assert body.task in self.asked
                self.approved.add(body.task)
            case RunPaused() | RunResumed():
                if isinstance(body, RunPaused) and body.reason == "approval":
                    assert not self.running, "others could go on"
                    assert self.asked - self.approved, "nothing waits for a person"
                self.paused = isinstance(body, RunPaused)
                if isinstance(body, RunResumed) and body.budget is not None:
                    self.settings = self.settings.model_copy(update={"budget": body.budget})
            case PlanRejected():
                self._answered(body.by)

    def _approval(self, planner: str) -> str:
        first = isinstance(self.products[planner], PlanProposal)
        return "plan" if first else "replans"

    def _answered(self, planner: str) -> None:
        """What the planner handed in takes effect, or is refused for good."""
        assert not self.plan_only, "the plan was all that was wanted"
        assert planner in self.products, "answered twice, or never handed in"
        if self._approval(planner) in self.settings.approve:
            assert planner in self.approved, "nobody agreed"
        del self.products[planner]

    def _revised(self, body: PlanRevised) -> None:
        if body.by is not None:
            self._answered(body.by)
        if body.settings is not None:
            assert {task.role for task in self.tasks.values()} <= self.planners, "a second plan"
            brought = {name: getattr(body.settings, name) for name in ("name", "context", "gates")}
            assert self.settings.model_copy(update=brought) == body.settings, "the user's word"
            self.settings = body.settings
        if body.replans is not None:
            assert len(self.charged) < self.settings.budget.replans, "replans over budget"
            for planner, mended in self.mends.items():
                if mended == body.replans and self.ended.get(planner) == "failed":
                    self.ended[planner] = "cancelled"  # another one has taken over
            self.mends[body.add[0].id] = body.replans
            assert self.signatures[body.replans] not in self.mended, "the same failure again"
            assert self.ended[body.replans] == "failed"
            self.charged[body.add[0].id] = body.replans
        for task in body.add:
            assert task.id not in self.tasks, "an id was used again"
            first = not self.tasks or body.replans is not None or body.by is None
            assert first or task.role not in self.planners, "a patch added a planner"
            self.tasks[task.id] = task
        for key in (*body.drop, *(task.id for task in body.replace)):
            assert self.ended.get(key) not in ("succeeded", "skipped", "cancelled")
            assert key not in self.running, "a patch touched what runs"
            self._forget(key)
        self.ended.update((key, "cancelled") for key in body.drop)
        self.tasks.update((task.id, task) for task in body.replace)
        self._unblock({task.id for task in body.replace})
        if body.by in self.charged:
            self.mended.add(self.signatures[self.charged[body.by]])

    def _unblock(self, renewed: set[str]) -> None:
        """What was blocked behind a renewed task may be blocked, or start, once more."""
        todo = list(renewed)
        while todo:
            above = todo.pop()
            for key in [key for key in self.blocked if above in self.tasks[key].upstream]:
                self._forget(key)
                todo.append(key)

    def _forget(self, key: str) -> None:
        self.ended.pop(key, None)
        self.blocked.discard(key)
        self.relied_on.discard(key)
        self.counted[key] = 0

    def _started(self, body: AttemptStarted) -> None:
        task = self.tasks[body.task]
        assert not self.paused, "nothing is started in a paused run"
        assert task.id not in self.running
        assert self.ended.get(task.id) in (None, "failed", "lost"), "it had ended for good"
        assert task.id not in self.relied_on, "others have built on its failure"
        assert self.counted[task.id] < task.attempts, "one attempt too many"
        before = self.number.get(task.id, 0)
        assert body.attempt == (before if task.id in self.lost else before + 1)
        if task.role in self.planners:
            assert not any(self.tasks[key].role in self.planners for key in self.running)
            assert not task.id.startswith("replan-") or task.id in self.charged, "not charged"
        self._check_inputs(task)
        self.running[task.id] = body.limits
        assert len(self.running) <= self.settings.workers
        self.number[task.id] = body.attempt
        self.lost.discard(task.id)
        self._check_budget()

    def _check_inputs(self, task: Task) -> None:
        for up in task.upstream:
            assert up not in self.running, f"`{up}` runs, on which `{task.id}` builds"
            assert self.ended.get(up) in ENDS, f"`{up}` has not ended, before `{task.id}`"
            if self.ended[up] == "failed":
                self.relied_on.add(up)
        done = sum(self.ended[need] in ("succeeded", "skipped") for need in task.needs)
        least = {"all": len(task.needs), "any": min(1, len(task.needs))}
        wanted = task.require if isinstance(task.require, int) else least[task.require]
        assert done >= wanted, "it starts on a failed input"

    def _check_budget(self) -> None:
        budget = self.settings.budget
        if budget.usd is not None:
            held_usd = sum(item.usd or 0 for item in self.running.values())
            assert self.spent_usd + held_usd <= budget.usd * (1 + 1e-9)
        if budget.tokens is not None:
            held_tokens = sum(item.tokens or 0 for item in self.running.values())
            assert self.spent_tokens + held_tokens <= budget.tokens

    def _ended(
        self, body: AttemptSucceeded | AttemptFailed | AttemptLost | AttemptCancelled
    ) -> None:
        limits = self.running.pop(body.task)
        assert limits.usd is None or body.usage.usd <= limits.usd, "a bug of the simulator"
        if self.tasks[body.task].role is not None:
            self.spent_usd += body.usage.usd
            self.spent_tokens += body.usage.tokens
        match body:
            case AttemptSucceeded():
                self.ended[body.task] = "succeeded"
                if self.tasks[body.task].role in self.planners:
                    self.products[body.task] = body.product
            case AttemptFailed():
                self.ended[body.task] = "failed"
                self.counted[body.task] += not self._was_short(body, limits)
                self.signatures[body.task] = body.signature
            case AttemptLost():
                self.ended[body.task] = "failed"
                self.lost.add(body.task)
            case AttemptCancelled():
                self.ended[body.task] = "cancelled"

    def _was_short(self, body: AttemptFailed, given: Limits) -> bool:
        """Whether it reached a ceiling that is not the task's own: nobody is charged for that."""
        own = self.tasks[body.task].limits
        short = {
            name
            for name, got, own_limit in (
                ("usd", given.usd, own.usd),
                ("tokens", given.tokens, own.tokens),
                ("minutes", given.minutes, own.minutes),
            )
            if got is not None and (own_limit is None or got < own_limit)
        }
        return body.reason == "limit" and body.ceiling in short

    def _blocked(self, body: TaskBlocked) -> None:
        assert body.task not in self.blocked, "blocked twice"
        assert self.ended.get(body.task) is None, "only what has never run is blocked"
        assert self.ended[body.by] in ("failed", "cancelled"), "not blocked by a failure"
        assert body.by not in self.running
        self.relied_on.add(body.by)
        self.blocked.add(body.task)
        self.ended[body.task] = "blocked"

    def _finished(self, body: RunFinished, state: RunState) -> None:
        self.finished = True
        assert not self.running
        statuses = {key: held.status.value for key, held in state.tasks.items()}
        assert {key: self.ended.get(key) for key in self.tasks} == statuses, "a task was left over"
        living = [end for key, end in statuses.items() if not state.tasks[key].dropped]
        assert self.plan_only or not self.products, "something handed in was left over"
        good = all(end in ("succeeded", "skipped") for end in living)
        if self.plan_only:
            good = good and any(isinstance(item, PlanProposal) for item in self.products.values())
        else:
            left = [task for key, task in self.tasks.items() if not state.tasks[key].dropped]
            good = good and any(task.role not in self.planners for task in left)
        assert body.status == ("succeeded" if good else "failed")
