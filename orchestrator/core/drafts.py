"""Plans and patches as people and models write them, and how they become complete values.

Drafts are lenient about form (other names for keys, one item for a list, `10m` for 600 seconds)
and strict about everything else. `resolve_task` and `resolve_plan` fill in what a draft leaves
out. Whether tasks fit together is `orchestrator.core.checks`.

The JSON schema of `PatchDraft` is what a planner sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from orchestrator.core.base import Count, Usd
from orchestrator.core.lenient import (
    CommandDraft,
    Draft,
    Duration,
    Environment,
    Id,
    Ids,
    Listed,
    Number,
    OneLine,
    Patterns,
    Text,
    Word,
    Words,
    at_most,
    predicate,
)
from orchestrator.core.plan import (
    PRICE_MAX,
    Approval,
    ModelPrice,
    Overlap,
    Plan,
    PlanSettings,
    RunBudget,
    Task,
    TaskDefaults,
    When,
)
from orchestrator.core.roles import Limits, Role
from orchestrator.core.task_drafts import (
    NEEDS_NAMES,
    PROMPT_NAMES,
    RETRIES,
    RETRIES_NAME,
    Attempts,
    GateDraft,
    GateDrafts,
    ProposedTaskDraft,
    ProposedTaskDrafts,
    TaskBudgetDraft,
    TaskDraft,
    TaskDrafts,
    resolve_gates,
    task_items,
)


def _revision(name: str) -> str:
    if name.startswith("-"):
        raise predicate("is no revision: it starts with a hyphen")
    return name


class RunBudgetDraft(Draft):
    """Ceilings of the whole run."""

    noun = "the plan's budget"

    usd: Annotated[Usd, Number] | None = None
    """Dollars."""
    tokens: Annotated[Count, Number] | None = None
    """Tokens of all kinds together."""
    minutes: Annotated[float, Field(gt=0, le=30 * 24 * 60), Number] | None = None
    """Wall-clock minutes."""
    replans: Annotated[int, Field(ge=0, le=100), Number] = 3
    """How often a failure may call the planner."""


class RoleDefaultsDraft(Draft):
    """What the plan says about one role."""

    noun = "a role's defaults"

    model: Word | None = None
    """Model of the tasks with this role."""


class DefaultsDraft(Draft):
    """What tasks inherit where they say nothing."""

    noun = "defaults"
    aliases = RETRIES_NAME
    conversions = RETRIES

    model: Word | None = None
    budget: TaskBudgetDraft | None = None
    """Ceilings of each attempt."""
    attempts: Attempts = 2
    timeout: Duration | None = None
    """Seconds that one command of an agent may take."""
    gates: GateDrafts = ()
    roles: Annotated[dict[Word, RoleDefaultsDraft], Field(max_length=100), at_most(100)] = {}
    """By name of role."""


Price = Annotated[float, Field(ge=0, le=PRICE_MAX), Number]


class ModelPriceDraft(Draft):
    """What a model costs, in US dollars per million tokens."""

    noun = "a model's price"

    input: Price
    output: Price
    cache_write: Price | None = None
    """Left out, as `input`."""
    cache_read: Price | None = None
    """Left out, as `input`."""


def _approval(value: object) -> object:
    if value == "landing":
        hint = "nothing is landed but by `orchestrate land`"
        raise predicate("is not supported yet: `landing`", hint)
    return value


Approvals = Annotated[
    tuple[Annotated[Approval, BeforeValidator(_approval)], ...],
    Field(max_length=10),
    at_most(10),
    Listed,
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]


class PlanDraft(Draft):
    """A whole plan as it is written."""

    noun = "a plan"
    aliases = {"max_parallel": "workers"}
    unsupported = frozenset({"setup", "setup_network", "network", "copy"})

    version: Annotated[Literal[1], Number] = 1
    name: Annotated[str, Field(min_length=1, max_length=200), OneLine] = "plan"
    goal: Text = ""
    """What the whole is for; every agent reads it."""
    base: Annotated[Word, AfterValidator(_revision)] = "HEAD"
    """Revision of the repository that work starts from."""
    workers: Annotated[int, Field(ge=1, le=256), Number] = 4
    """Tasks at a time."""
    budget: RunBudgetDraft = RunBudgetDraft()
    defaults: DefaultsDraft = DefaultsDraft()
    context: Words = ()
    """Files that every agent gets in its prompt."""
    env: Environment = {}
    """Variables for all commands."""
    protect: Patterns | None = None
    """Gitignore patterns that tasks change only when their `writes` says so."""
    gates: GateDrafts = ()
    """Commands that must succeed on the merged result."""
    overlap: Overlap = "allow"
    """What happens to parallel tasks whose `writes` overlap."""
    approve: Approvals = ()
    """What waits for a person."""
    prices: Annotated[dict[Word, ModelPriceDraft], Field(max_length=100), at_most(100)] = {}
    """By name of model."""
    tasks: TaskDrafts
    """The tasks; their order breaks ties."""


class Rewire(Draft):
    """New needs of a task that has not succeeded."""

    noun = "a rewiring"
    aliases = NEEDS_NAMES

    id: Id
    """The task."""
    needs: Ids
    """All its needs from now on; may be empty."""


class Amendment(Draft):
    """New texts of a task that has not succeeded. What is left out stays as it is."""

    noun = "an amendment"
    aliases = {**PROMPT_NAMES, **RETRIES_NAME}
    conversions = RETRIES

    id: Id
    """The task."""
    prompt: Text | None = None
    writes: Patterns | None = None
    """Gitignore patterns it may change."""
    gates: GateDrafts | None = None
    """Commands that must succeed on its result, in place of those it has."""
    model: Word | None = None
    attempts: Attempts | None = None
    """How often its agent may try, tries so far included."""
    check: CommandDraft | None = None
    """A cheap command that is run after each edit."""
    context: Words | None = None
    """Files of the repository that are put into its prompt."""

    def changes(self) -> dict[str, Any]:
        """The fields of a `Task` that it sets, with their values."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "id"}
        if self.gates is not None:
            values["gates"] = resolve_gates(self.gates)
        return {name: value for name, value in values.items() if value is not None}


class PatchDraft(Draft):
    """How the graph of tasks changes. Tasks that succeeded stay; what depends on them still can."""

    noun = "a patch"

    add: TaskDrafts = ()
    """New tasks."""
    drop: Ids = ()
    """Ids of tasks that shall not run; nothing may need them afterwards."""
    rewire: Annotated[tuple[Rewire, ...], Field(max_length=1_000), at_most(1_000), Listed] = ()
    """Tasks that get other needs; a failed one is tried again."""
    amend: Annotated[tuple[Amendment, ...], Field(max_length=1_000), at_most(1_000), Listed] = ()
    """Tasks that get other texts; a failed one is tried again."""
    why: Text = ""
    """What was learnt, and how this patch answers it."""


class ProposalDraft(Draft):
    """A plan for a goal. Budget, workers, base and protected paths are the user's to set."""

    noun = "a plan"

    goal: Text = ""
    """The goal in your own words, with what you took for granted."""
    name: Annotated[str, Field(min_length=1, max_length=60), OneLine] = "plan"
    """Two to five words."""
    context: Words = ()
    """Files that every agent gets in its prompt."""
    gates: GateDrafts = ()
    """Commands that must succeed on the merged result."""
    tasks: ProposedTaskDrafts
    """The tasks, as few as do the work; each names its `needs`, an empty list where it has none."""
    why: Text = ""
    """Why these tasks and edges, in two or three sentences."""


ALIASES: Mapping[str, str] = {**TaskDraft.aliases, **PlanDraft.aliases}
"""Every other name of a key in a plan file, with the key it stands for."""


def _limits(draft: TaskBudgetDraft | None) -> Limits:
    return Limits() if draft is None else Limits.model_validate(draft.model_dump())


def resolve_task(draft: TaskDraft, settings: PlanSettings, roles: Mapping[str, Role]) -> Task:
    """The complete task: what the draft leaves out comes from the plan, then from its role.

    A model: the task's, the plan's for its role, the plan's for all, the role's. Limits: the
    task's, the plan's, the role's, one by one. An unknown role gives nothing here; that it is
    unknown is for `checks` to say. Needs keep the draft's order, without repeats.
    """
    defaults = settings.defaults
    role = roles.get(draft.role) if draft.role is not None else None
    limits = _limits(draft.budget).over(defaults.limits)
    model = draft.model
    if draft.role is not None:
        of_role = role.model if role is not None else None
        model = model or defaults.role_models.get(draft.role) or defaults.model or of_role
    return Task(
        id=draft.id,
        role=draft.role,
        prompt=draft.prompt,
        needs=tuple(dict.fromkeys(draft.needs)),
        writes=draft.writes,
        context=tuple(dict.fromkeys((*settings.context, *draft.context))),
        gates=defaults.gates if draft.gates is None else resolve_gates(draft.gates),
        check=draft.check,
        model=model,
        limits=limits if role is None else limits.over(role.limits),
        timeout_s=defaults.timeout_s if draft.timeout is None else draft.timeout,
        env={**settings.env, **draft.env},
        attempts=defaults.attempts if draft.attempts is None else draft.attempts,
        on_failure=draft.on_failure,
        when=None if draft.when is None else When.model_validate(draft.when.model_dump()),
        require=draft.require,
        decides=draft.decides,
    )


def resolve_settings(draft: PlanDraft) -> PlanSettings:
    """Everything of the plan but its tasks."""
    said = draft.defaults
    models = {name: role.model for name, role in said.roles.items() if role.model is not None}
    settings = PlanSettings(
        version=draft.version,
        name=draft.name,
        goal=draft.goal,
        base=draft.base,
        workers=draft.workers,
        budget=RunBudget.model_validate(draft.budget.model_dump()),
        defaults=TaskDefaults(
            model=said.model,
            limits=_limits(said.budget),
            attempts=said.attempts,
            timeout_s=said.timeout,
            gates=resolve_gates(said.gates),
            role_models=models,
        ),
        context=draft.context,
        env=draft.env,
        gates=resolve_gates(draft.gates),
        overlap=draft.overlap,
        prices={
            name: ModelPrice.model_validate(price.model_dump())
            for name, price in draft.prices.items()
        },
        approve=draft.approve,
    )
    if draft.protect is None:
        return settings
    return settings.model_copy(update={"protect": draft.protect})


def resolve_plan(draft: PlanDraft, roles: Mapping[str, Role]) -> Plan:
    """The complete plan, its tasks in the draft's order and their needs in plan order."""
    settings = resolve_settings(draft)
    values = {name: getattr(settings, name) for name in PlanSettings.model_fields}
    return Plan.model_validate({**values, "tasks": resolve_tasks(draft.tasks, settings, roles)})


def resolve_tasks(
    drafts: Sequence[TaskDraft], settings: PlanSettings, roles: Mapping[str, Role]
) -> tuple[Task, ...]:
    """The complete tasks in their order, the needs of each in that order, too."""
    place = {draft.id: index for index, draft in enumerate(drafts)}
    tasks = []
    for draft in drafts:
        task = resolve_task(draft, settings, roles)
        needs = tuple(sorted(task.needs, key=lambda need: place.get(need, len(place))))
        tasks.append(task.model_copy(update={"needs": needs}))
    return tuple(tasks)


__all__ = [
    "ALIASES",
    "Amendment",
    "DefaultsDraft",
    "GateDraft",
    "PatchDraft",
    "PlanDraft",
    "ProposalDraft",
    "ProposedTaskDraft",
    "Rewire",
    "RoleDefaultsDraft",
    "RunBudgetDraft",
    "TaskBudgetDraft",
    "TaskDraft",
    "resolve_gates",
    "resolve_plan",
    "resolve_settings",
    "resolve_task",
    "resolve_tasks",
    "task_items",
]
