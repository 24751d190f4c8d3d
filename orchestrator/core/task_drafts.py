"""Tasks and gates as people and models write them, before defaults are filled in.

The JSON schema of `TaskDraft` is what a planner sees: each key under its first name only, with the
docstring below it. Other names for keys, single items and durations are read all the same.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from orchestrator.core.base import Count, Usd
from orchestrator.core.lenient import (
    PROBLEMS_MAX,
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
    Scalar,
    Text,
    Word,
    Words,
    at_most,
    predicate,
    problem_at,
    relocated,
    sentence,
)
from orchestrator.core.plan import Command, Gate, OnFailure
from orchestrator.core.wording import kind_of, shown

TASKS_MAX = 10_000
"""Most tasks of a plan."""
GATE_NAME_CHARS = 60
"""Longest name that is made of a command."""

REJECTED = "rejected"
"""Folder of a run's refs that no task may be called."""

_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)


def _attempts_of_retries(retries: object) -> int:
    if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries <= 19:
        raise predicate("must be a whole number from 0 to 19")
    return retries + 1


def _not_reserved(name: str) -> str:
    """Ids become file names, some of which Windows keeps for devices, and parts of refs."""
    if name == REJECTED:
        raise predicate("is reserved for the work of failed attempts", "choose another id")
    if name in _RESERVED:
        raise predicate(f"is reserved: `{name}` is a device on Windows", "choose another id")
    return name


def _own_names(gates: tuple[GateDraft, ...]) -> tuple[GateDraft, ...]:
    names = [gate.name for gate in gates if gate.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise predicate(f"has two gates with the name `{name}`")
    return gates


def _how_many(value: object) -> object:
    """Said once rather than once for each type."""
    count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not count and value not in ("all", "any"):
        raise predicate("must be `all`, `any` or a whole number from 1")
    return value


PROMPT_NAMES = {"description": "prompt", "instructions": "prompt"}
NEEDS_NAMES = {"depends_on": "needs", "dependencies": "needs", "deps": "needs"}
RETRIES_NAME = {"retries": "attempts"}
RETRIES: Mapping[str, Callable[[object], object]] = {"retries": _attempts_of_retries}
"""How `retries` becomes `attempts`."""

Attempts = Annotated[int, Field(ge=1, le=20), Number]
Minutes = Annotated[float, Field(gt=0, le=7 * 24 * 60), Number]
Require = Annotated[Literal["all", "any"] | int, BeforeValidator(_how_many)]


class GateDraft(Draft):
    """A real command that must succeed before anything builds on the work."""

    noun = "a gate"
    unsupported = frozenset({"min_tests", "red_then_green", "exclusive", "fix", "network"})
    shorthand = "run"

    run: CommandDraft
    """The command: text for bash, or a list for an argv."""
    name: Annotated[str, Field(min_length=1, max_length=80), OneLine] | None = None
    """How reports call it; left out, a short form of the command."""
    timeout: Duration | None = None
    """Seconds until it is ended and counts as failed; left out, 600."""
    env: Environment = {}
    """Variables for this command."""


GateDrafts = Annotated[
    tuple[GateDraft, ...], Field(max_length=100), at_most(100), Listed, AfterValidator(_own_names)
]


class TaskBudgetDraft(Draft):
    """Ceilings of each attempt of a task."""

    noun = "a task's budget"

    usd: Annotated[Usd, Number] | None = None
    """Dollars."""
    tokens: Annotated[Count, Number] | None = None
    """Tokens of all kinds together."""
    turns: Annotated[Count, Number] | None = None
    """Model replies."""
    minutes: Minutes | None = None
    """Wall-clock minutes."""


class WhenDraft(Draft):
    """A condition on another task; if it does not hold the task is skipped."""

    model_config = ConfigDict(serialize_by_alias=True)
    noun = "a condition"

    task: Id
    """The task looked at."""
    is_: Literal["succeeded", "failed", "skipped"] | None = Field(default=None, alias="is")
    """Holds when that task ended so."""
    field: Word | None = None
    """Or: name of a field of its product, such as `approve`."""
    equals: Annotated[str | int | float | bool, Scalar] | None = None
    """The value that the field must have."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        looks_at_field = self.field is not None and self.equals is not None
        half = (self.field is None) != (self.equals is None)
        if half or looks_at_field == (self.is_ is not None):
            raise predicate("must have either `is`, or `field` and `equals`")
        return self


class TaskDraft(Draft):
    """A new task."""

    noun = "a task"
    aliases = {**PROMPT_NAMES, **NEEDS_NAMES, **RETRIES_NAME}
    conversions = RETRIES
    unsupported = frozenset({"network", "for_each"})

    id: Annotated[Id, AfterValidator(_not_reserved)]
    """Its name, never used before: lower-case letters, digits and hyphens."""
    role: Word | None = None
    """Who does it: the name of a role. Left out, it only merges its needs and runs its gates."""
    prompt: Text = ""
    """What to do, complete in itself: the agent sees nothing else of this conversation."""
    needs: Ids = ()
    """Ids of the tasks whose results it builds on."""
    writes: Patterns | None = None
    """Gitignore patterns it may change; left out, everything but tests and their configuration."""
    context: Words = ()
    """Files of the repository that are put into its prompt."""
    gates: GateDrafts | None = None
    """Commands that must succeed on its result; left out, the plan's defaults."""
    check: CommandDraft | None = None
    """A cheap command that is run after each edit."""
    model: Word | None = None
    """Name of the model to use; left out, the role's or the plan's."""
    budget: TaskBudgetDraft | None = None
    """Ceilings of each attempt."""
    timeout: Duration | None = None
    """Seconds that one command of the agent may take."""
    env: Environment = {}
    """Variables for its commands."""
    attempts: Attempts | None = None
    """How often its agent may try; left out, 2."""
    on_failure: OnFailure = "replan"
    """What a failure that stays leads to."""
    when: WhenDraft | None = None
    """Skip it unless this holds."""
    require: Require = "all"
    """How many of its needs must succeed."""
    decides: Words = ()
    """Names of decisions that this task alone makes."""


def task_items(value: Mapping[str, object] | Iterable[object]) -> dict[str | int, object]:
    """Tasks as written, by their key or index; those of a mapping with their key as `id`."""
    if not isinstance(value, Mapping):
        return dict(enumerate(value))
    return {
        key: {**task, "id": key} if isinstance(task, Mapping) else task
        for key, task in value.items()
    }


class ProposedTaskDraft(TaskDraft):
    """A task of a planner's plan, which names its needs: edges are not left to chance."""

    needs: Ids
    """Ids of the tasks whose results it builds on; an empty list where there are none."""


D = TypeVar("D", bound=TaskDraft)


def _read_tasks(
    kind: type[D], value: object, handler: Callable[[object], tuple[D, ...]]
) -> tuple[D, ...]:
    """Tasks of a list, or of a mapping by id; problems stay at the author's keys."""
    if not isinstance(value, Mapping | list | tuple):
        raise predicate(f"must be a mapping of ids to tasks, or a list, not {kind_of(value)}")
    if len(value) > TASKS_MAX:
        raise predicate(f"has more than {TASKS_MAX} entries")
    problems = list(_other_ids(value) if isinstance(value, Mapping) else _repeated_ids(value))
    drafts = []
    for key, item in task_items(value).items():
        try:
            drafts.append(kind.model_validate(item))
        except ValidationError as error:
            problems += relocated(error, (key,))
        if len(problems) >= PROBLEMS_MAX:
            break
    if problems:
        raise ValidationError.from_exception_data("tasks", problems)
    return handler(drafts)


def _other_ids(tasks: Mapping[str, object]) -> Iterator[InitErrorDetails]:
    for key, task in tasks.items():
        if isinstance(task, Mapping) and task.get("id") not in (None, key):
            wrong = sentence(f"the task under `{shown(key)}` has another `id`", "leave `id` out")
            yield problem_at((key, "id"), wrong, task)


def _repeated_ids(tasks: Iterable[object]) -> Iterator[InitErrorDetails]:
    first: dict[str, int] = {}
    for index, task in enumerate(tasks):
        name = task.get("id") if isinstance(task, Mapping) else getattr(task, "id", None)
        if not isinstance(name, str):
            continue
        if name in first:
            wrong = sentence(f"task id `{shown(name)}` is used twice", other=(first[name], "id"))
            yield problem_at((index, "id"), wrong, name)
        first.setdefault(name, index)


ReadTasks = WrapValidator(functools.partial(_read_tasks, TaskDraft))
"""For tasks that may be a list, or a mapping by id."""
TaskDrafts = Annotated[tuple[TaskDraft, ...], Field(max_length=TASKS_MAX), ReadTasks]
"""Tasks as a list, or as a mapping by id."""
ProposedTaskDrafts = Annotated[
    tuple[ProposedTaskDraft, ...],
    Field(max_length=TASKS_MAX),
    WrapValidator(functools.partial(_read_tasks, ProposedTaskDraft)),
]
"""The same for tasks that name their needs."""


def resolve_gates(drafts: Iterable[GateDraft]) -> tuple[Gate, ...]:
    """Gates with all names given: those left out are short forms of commands, made unique."""
    drafts = tuple(drafts)
    taken = {draft.name for draft in drafts if draft.name is not None}
    gates = []
    for draft in drafts:
        name = draft.name
        if name is None:
            name = _free_name(_short_form(draft.run), taken)
            taken.add(name)
        gate = Gate(name=name, run=draft.run, env=draft.env)
        timeout = draft.timeout
        gates.append(gate if timeout is None else gate.model_copy(update={"timeout_s": timeout}))
    return tuple(gates)


def _short_form(command: Command) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "gate"
    if len(words) <= GATE_NAME_CHARS:
        return words
    return words[: GATE_NAME_CHARS - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _free_name(name: str, taken: set[str]) -> str:
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name} ({count})"
    return candidate
