"""A run without effects: drives `decide` and `evolve` as an engine would, under a virtual clock.

Attempts end as a random source says, in the order it says; planners hand in plans and patches of
every kind, sound and unsound, and people agree to them, or do not. The same source gives the same
run. `random.Random` makes thousands of runs in seconds; hypothesis' `randoms()` makes runs that
shrink.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import get_args

from orchestrator.core.checks import with_integration
from orchestrator.core.decide import Append, Finish, StartAttempt, decide
from orchestrator.core.drafts import Amendment, ProposedTaskDraft, Rewire
from orchestrator.core.events import (
    ApprovalGiven,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    FailureReason,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    StoredEvent,
)
from orchestrator.core.goals import goal_plan
from orchestrator.core.machine import evolve
from orchestrator.core.plan import Approval, Gate, Plan, PlanSettings, RunBudget, Task, When
from orchestrator.core.products import (
    Change,
    PlanPatch,
    PlanProposal,
    Product,
    Report,
    Verdict,
)
from orchestrator.core.roles import Ceiling, Limits, Role
from orchestrator.core.signature import signature
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.task_drafts import GateDraft, TaskDraft
from orchestrator.core.usage import Usage

ROLES: dict[str, Role] = {
    role.name: role
    for role in (
        Role(name="planner", tools=(), product="patch", prompt="Plan."),
        Role(name="explorer", tools=(), product="report", prompt="Explore."),
        Role(name="implementer", tools=(), product="change", writes=True, prompt="Implement."),
        Role(name="reviewer", tools=(), product="verdict", prompt="Review."),
    )
}
GATE = Gate(name="tests", run="make test")
BASE = "b" * 40
REASONS: tuple[FailureReason, ...] = get_args(FailureReason)
CEILINGS: tuple[Ceiling, ...] = get_args(Ceiling)
APPROVALS: tuple[tuple[Approval, ...], ...] = ((), (), ("replans",), ("plan", "replans"))

Watch = Callable[[StoredEvent, RunState], None]
"""Is shown each event and the state after it."""


def object_id(what: str) -> str:
    """A made-up object id: 40 hex digits, the same for the same `what`."""
    return hashlib.sha1(what.encode()).hexdigest()


@dataclass(frozen=True)
class Luck:
    """How often things go wrong, from 0 (never) to 1."""

    failure: float = 0.25
    lost: float = 0.05
    crash: float = 0.02
    """The whole process ends and a new one goes on."""
    provider: float = 0.02
    """The provider's hard limit pauses the run; it is resumed."""
    refusal: float = 0.2
    """A person does not agree to what waits for it; the run is resumed without, or left alone."""


class Stuck(AssertionError):
    """A run did not end within its bound."""


class Simulation:
    """One run. `events` is its journal, `state` the fold of it."""

    def __init__(
        self,
        plan: Plan,
        rng: Random,
        luck: Luck = Luck(),
        watch: Sequence[Watch] = (),
        *,
        plan_only: bool = False,
    ) -> None:
        """Start the run: the first two events are recorded."""
        self.rng, self.luck, self.watch = rng, luck, watch
        self.events: list[StoredEvent] = []
        self.state = RunState("run")
        self.now = 1_000_000.0
        self.append(
            RunStarted(
                repository="/repository/.git",
                base=BASE,
                base_branch="main",
                settings=plan.settings,
                roles=tuple(ROLES.values()),
                model="scripted:none",
                sandbox="none",
                workspace="none",
                plan_only=plan_only,
            )
        )
        self.append(PlanRevised(by=None, add=plan.tasks))

    @classmethod
    def resumed(cls, events: Sequence[StoredEvent], rng: Random, luck: Luck = Luck()) -> Simulation:
        """Go on, as a new process would, with a journal that may have been cut off anywhere."""
        simulation = cls.__new__(cls)
        simulation.rng, simulation.luck, simulation.watch = rng, luck, ()
        simulation.events, simulation.state = list(events), RunState("run")
        for event in events:
            evolve(simulation.state, event)
        simulation.now = events[-1].at
        if simulation.state.status in ("running", "paused"):
            simulation.crash()
        return simulation

    def append(self, event: Event, cause: int | None = None) -> None:
        """Record an event and fold it in."""
        self.now += self.rng.choice((0.0, 0.5, 30.0))
        stored = StoredEvent(
            seq=len(self.events) + 1, run="run", at=self.now, cause=cause, body=event
        )
        self.events.append(stored)
        evolve(self.state, stored)
        for watch in self.watch:
            watch(stored, self.state)

    def run(self, steps_max: int = 5_000) -> RunState:
        """Go on until the run has finished or stays paused. Raises `Stuck` with the story."""
        for _ in range(steps_max):
            if not self.step():
                return self.state
        raise Stuck(self.story())

    def step(self) -> bool:
        """Do one thing; False when there is nothing to do any more."""
        if self.state.status == "paused" and not self.state.running:
            if self.state.pause.startswith("budget"):
                return False
            refused = self.state.asked and self._happens(self.luck.refusal)
            if refused and self._happens(0.5):
                return False
            self.append(RunResumed())
            for asked in () if refused else tuple(self.state.asked):
                self.append(ApprovalGiven(task=asked))
        if self.state.running and self._happens(self.luck.crash):
            self.crash()
        if self.carry_out():
            return True
        if self.state.running:
            self.end(self.rng.choice(sorted(self.state.running)))
            return True
        return False

    def carry_out(self) -> bool:
        """Do what `decide` says now; False when it says to wait, or nothing."""
        commands = decide(self.state)
        for item in commands:
            match item:
                case Append():
                    self.append(item.event, item.cause)
                case StartAttempt(task, attempt, limits, cause):
                    self.append(AttemptStarted(task=task, attempt=attempt, limits=limits), cause)
                case Finish(status, commit, cause):
                    branch = "orchestrate/run" if commit else None
                    self.append(RunFinished(status=status, branch=branch, commit=commit), cause)
        return bool(commands)

    def crash(self) -> None:
        """The process ends; a new one finds running attempts and repeats them."""
        self.append(RunResumed())
        for key in sorted(self.state.running):
            self.append(
                AttemptLost(
                    task=key,
                    attempt=self.state.tasks[key].attempt,
                    why="interrupted",
                    interrupted=True,
                )
            )

    def end(self, key: str) -> None:
        """Let one running attempt end somehow."""
        held = self.state.tasks[key]
        usage = self._usage(held.limits)
        if self._happens(self.luck.provider):
            self.append(
                AttemptLost(
                    task=key, attempt=held.attempt, why="limit", interrupted=True, usage=usage
                )
            )
            if self.state.status == "running":
                self.append(RunPaused(reason="provider", detail="limit"))
        elif self._happens(self.luck.lost):
            self.append(AttemptLost(task=key, attempt=held.attempt, why="disk", usage=usage))
        elif self._happens(self.luck.failure):
            self._fail(held, usage)
        else:
            self.append(
                AttemptSucceeded(
                    task=key,
                    attempt=held.attempt,
                    commit=object_id(f"{key}.{held.attempt}"),
                    tree=object_id(key),
                    product=self._product(held),
                    usage=usage,
                )
            )

    def _fail(self, held: TaskState, usage: Usage) -> None:
        reason = self.rng.choice((*REASONS, "gate_red", "gate_red", "conflict"))
        evidence = f"it broke at {self.rng.randrange(2)}"  # few kinds, so that some come twice
        rejected = held.task.role == "reviewer" and reason == "rejected"
        self.append(
            AttemptFailed(
                task=held.id,
                attempt=held.attempt,
                reason=reason,
                evidence=evidence,
                signature=signature(reason, evidence),
                commit=object_id(f"{held.id}.{held.attempt}") if self._happens(0.5) else None,
                product=Verdict(approve=False) if rejected else None,
                usage=usage,
                ceiling=self.rng.choice((*CEILINGS, None)) if reason == "limit" else None,
            )
        )

    def _happens(self, chance: float) -> bool:
        return self.rng.random() > 1 - chance  # zeros, to which hypothesis shrinks, are good luck

    def _usage(self, limits: Limits) -> Usage:
        """At most the attempt's slice, often all of it."""
        part = self.rng.choice((0.0, 0.3, 1.0))
        tokens = int((limits.tokens if limits.tokens is not None else 100) * part)
        usd = (limits.usd if limits.usd is not None else 1.0) * part
        return Usage(input_tokens=tokens, usd=usd, calls=1)

    def _product(self, held: TaskState) -> Product | None:
        match held.task.role:
            case "planner" if self.state.only_plans:
                return random_proposal(self.rng)
            case "planner":
                return random_patch(self.state, held.id, self.rng)
            case "explorer":
                return Report(summary="seen")
            case "implementer":
                return Change(summary="done")
            case "reviewer":
                return Verdict(approve=True)
            case _:
                return None

    def story(self) -> str:
        """The run so far, one event a line."""
        lines = [f"#{item.seq} {item.body!r}"[:400] for item in self.events[-60:]]
        statuses = {key: held.status.value for key, held in self.state.tasks.items()}
        return "\n".join([f"{len(self.events)} events, the last of them:", *lines, str(statuses)])


def random_patch(state: RunState, planner: str, rng: Random) -> PlanPatch | None:
    """A patch as a planner might make it: sound, nearly sound, or none at all."""
    if rng.random() < 0.1:
        return None
    failed = next((item for item in state.tasks.values() if item.planner == planner), None)
    new = f"new-{len(state.tasks)}"
    patch = PlanPatch() if failed is None else _mending(state, failed, new, rng)
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        patch = _with_something_else(patch, list(state.tasks), f"{new}-{number}", rng)
    return patch


def _mending(state: RunState, failed: TaskState, new: str, rng: Random) -> PlanPatch:
    """What deals with the failed task."""
    done = tuple(need for need in failed.task.needs if state.tasks[need].done)
    waiting = tuple(key for key, task in state.living.items() if failed.id in task.upstream)
    fix = TaskDraft(id=new, role="implementer", prompt="Mend it.", needs=done)
    match rng.randrange(6):
        case 0 | 1:  # a fix, and the failed task again on top of it
            return PlanPatch(add=(fix,), rewire=(Rewire(id=failed.id, needs=(new,)),))
        case 2:
            return PlanPatch(amend=(Amendment(id=failed.id, prompt="Try it like this."),))
        case 3:  # the failed task and what waits for it go
            return PlanPatch(drop=(failed.id, *waiting))
        case 4:  # another takes the failed task's place
            again = tuple(Rewire(id=key, needs=(new,)) for key in waiting)
            return PlanPatch(add=(fix,), drop=(failed.id,), rewire=again)
        case _:  # a circle
            turn = TaskDraft(id=new, role="explorer", prompt="Look.", needs=(failed.id,))
            return PlanPatch(add=(turn,), rewire=(Rewire(id=failed.id, needs=(new,)),))


def _with_something_else(patch: PlanPatch, ids: list[str], new: str, rng: Random) -> PlanPatch:
    """The patch and one more operation on any task, known or not."""
    task = rng.choice((*ids, "nowhere"))
    needs = tuple({rng.choice(ids): None for _ in range(rng.randrange(3))})
    match rng.randrange(5):
        case 0:
            return patch.model_copy(update={"drop": tuple(dict.fromkeys((*patch.drop, task)))})
        case 1:
            again = (*patch.rewire, Rewire(id=task, needs=needs))
            return patch.model_copy(update={"rewire": again})
        case 2:
            name = rng.choice((new, new, task))
            draft = TaskDraft(id=name, role=rng.choice(tuple(ROLES)), prompt="Do it.", needs=needs)
            return patch.model_copy(update={"add": (*patch.add, draft)})
        case _:
            amended = (*patch.amend, Amendment(id=task, prompt="Other words."))
            return patch.model_copy(update={"amend": amended})


def random_goal(rng: Random) -> Plan:
    """What a run for a goal begins with."""
    budget = RunBudget(usd=rng.choice((None, 5.0, 50.0)), replans=rng.randrange(3))
    settings = PlanSettings(
        goal="Make it so.",
        workers=rng.randrange(1, 5),
        budget=budget,
        approve=rng.choice(APPROVALS),
    )
    return goal_plan(settings, ROLES)


def random_proposal(rng: Random) -> PlanProposal | None:
    """A plan as a planner might make it: mostly sound, but for what its desk would have refused."""
    kind = rng.randrange(12)
    if kind == 0:
        return None
    tasks: list[ProposedTaskDraft] = []
    for number in range(rng.randrange(1, 6)):
        above = tuple(task.id for task in tasks if rng.random() < 0.4)
        role = rng.choice(("explorer", "implementer", "implementer", "reviewer"))
        writes = (f"part{number}/",) if role == "implementer" else None
        tasks.append(
            ProposedTaskDraft(
                id=f"p{number}", role=role, prompt="Do it.", needs=above, writes=writes
            )
        )
    proposal = PlanProposal(name="a plan", gates=(GateDraft(run="make test"),), tasks=tuple(tasks))
    first = tasks[0]
    match kind:
        case 1:
            return proposal.model_copy(update={"gates": ()})
        case 2:
            again = first.model_copy(update={"needs": (tasks[-1].id,)})
            return proposal.model_copy(update={"tasks": (again, *tasks[1:])})
        case 3:
            again = first.model_copy(update={"role": "planner", "writes": None})
            return proposal.model_copy(update={"tasks": (again, *tasks[1:])})
        case _:
            return proposal


def random_plan(rng: Random, tasks_max: int) -> Plan:
    """Any plan: any edges without a circle, in any order, with every kind of task and budget."""
    count = rng.randrange(1, tasks_max + 1)
    ids = [f"t{number}" for number in range(count)]
    tasks = [_random_task(ids[:number], ids[number], rng) for number in range(count)]
    rng.shuffle(tasks)
    plan = Plan(
        workers=rng.randrange(1, 9),
        budget=RunBudget(
            usd=rng.choice((None, None, 1.0, 20.0)),
            tokens=rng.choice((None, None, 50, 100_000)),
            minutes=rng.choice((None, None, None, 10.0)),
            replans=rng.randrange(4),
        ),
        approve=rng.choice(APPROVALS),
        gates=(GATE,),
        tasks=tuple(tasks),
    )
    return with_integration(plan, ROLES)


def _random_task(above: list[str], key: str, rng: Random) -> Task:
    needs = tuple(item for item in above if rng.random() < 0.35)
    choices = (None, "explorer", "implementer", "implementer", "reviewer", "planner")
    role = (
        choices[min(rng.randrange(12), 11) // 2] if rng.random() < 0.3 else rng.choice(choices[:5])
    )
    require: tuple[str | int, ...] = ("all", "all", "any", *range(1, len(needs) + 1))
    when = None
    if above and rng.random() < 0.25:
        looked_at = rng.choice(above)
        if rng.random() < 0.5:
            when = When.model_validate(
                {"task": looked_at, "is": rng.choice(("succeeded", "failed", "skipped"))}
            )
        else:
            when = When(task=looked_at, field="approve", equals=rng.choice((True, False)))
    return Task.model_validate(
        {
            "id": key,
            "role": role,
            "prompt": "Do it." if role else "",
            "needs": needs,
            "gates": (GATE,) if role is None else (),
            "attempts": rng.randrange(1, 4),
            "on_failure": rng.choice(("replan", "replan", "retry", "fail")),
            "when": when,
            "require": rng.choice(require),
            "limits": rng.choice((Limits(), Limits(), Limits(usd=0.5, tokens=40, turns=3))),
        }
    )
