"""The checked plan: what the run does, with every default already filled in.

A `Task` is complete by itself, so the machine, an attempt and a worker on another machine read
nothing else. What people and models write (aliases, scalars for lists, durations) is
`orchestrator.core.drafts`; whether the tasks fit together is `orchestrator.core.checks`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from orchestrator.core.base import Count, Record, Seconds, TaskId, Usd
from orchestrator.core.roles import Limits

Command = str | tuple[str, ...]
"""A command: text is bash with errexit and pipefail, a list is an argv."""

BASH = ("bash", "-e", "-o", "pipefail", "-c")
"""What runs a command that is text."""


def argv_of(command: Command) -> tuple[str, ...]:
    """The argv of a plan's command."""
    return command if isinstance(command, tuple) else (*BASH, command)


PRICE_MAX = 100_000

Price = Annotated[float, Field(ge=0, le=PRICE_MAX)]
"""Dollars per million tokens."""

OnFailure = Literal["replan", "retry", "fail"]
Overlap = Literal["refuse", "serialise", "allow"]

PROTECTED_DEFAULT: tuple[str, ...] = (
    "tests/",
    "test/",
    "__tests__/",
    "test_*.py",
    "*_test.py",
    "*_test.go",
    "*.test.js",
    "*.test.ts",
    "*.spec.js",
    "*.spec.ts",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "setup.cfg",
    "pyproject.toml",
    "package.json",
    "Makefile",
    ".github/",
    ".gitlab-ci.yml",
    ".gitattributes",
    ".pre-commit-config.yaml",
)
"""Paths that judge the work (gitignore patterns): only `writes` lets a task change them."""


class Gate(Record):
    """A real command that must succeed on a tree before anything builds on it."""

    name: str = Field(min_length=1, max_length=80)
    """How reports call it; unique within a task."""
    run: Command
    """Text is bash with errexit and pipefail, a list is an argv; run in a fresh checkout."""
    timeout_s: Seconds = 600.0
    """Wall-clock seconds; past them the process tree is ended and the gate is red."""
    env: dict[str, str] = {}
    """Variables for this command, over the plan's and the task's."""


class When(Record):
    """A condition on another task; if it does not hold the task is skipped."""

    model_config = ConfigDict(serialize_by_alias=True)

    task: TaskId
    """The task looked at. It must have ended, and counts as an edge of the graph."""
    is_: Literal["succeeded", "failed", "skipped"] | None = Field(default=None, alias="is")
    """Holds when that task ended so."""
    field: str | None = None
    """Or: name of a field of its product, such as `approve`."""
    equals: str | int | float | bool | None = None
    """The value that the field must have."""


class Task(Record):
    """One node of the graph: merge its needs, act, seal, verify, publish."""

    id: TaskId
    role: str | None = None
    """Who acts; None for a pure merge or gate node."""
    prompt: str = ""
    """What to do, for the agent."""
    needs: tuple[TaskId, ...] = ()
    """Tasks whose commits and products it builds on, in plan order, without repeats."""
    writes: tuple[str, ...] | None = None
    """Gitignore patterns it may change, enforced at seal; None is all but protected paths."""
    context: tuple[str, ...] = ()
    """Files put into its prompt, the plan's first."""
    gates: tuple[Gate, ...] = ()
    """Checked on its commit."""
    check: Command | None = None
    """The cheap check after each edit."""
    model: str | None = None
    limits: Limits = Limits()
    """Ceilings for each attempt."""
    timeout_s: Seconds | None = None
    """Wall-clock seconds of one command of the agent; None is the tool's own."""
    env: dict[str, str] = {}
    """Variables for its commands, the plan's included."""
    attempts: int = Field(default=2, ge=1, le=20)
    """How often an agent may try; conflicts, replans and lost workers do not count."""
    on_failure: OnFailure = "replan"
    """What a failure that stays leads to."""
    when: When | None = None
    require: Literal["all", "any"] | int = "all"
    """How many of its needs must succeed."""
    decides: tuple[str, ...] = ()
    """Names of decisions that this task owns."""

    @property
    def upstream(self) -> tuple[TaskId, ...]:
        """Everything it waits for: its needs and the task its condition looks at."""
        if self.when is None or self.when.task in self.needs:
            return self.needs
        return (*self.needs, self.when.task)


class RunBudget(Record):
    """Ceilings of the whole run. None is no limit."""

    usd: Usd | None = None
    tokens: Count | None = None
    minutes: float | None = Field(default=None, gt=0, le=30 * 24 * 60)
    replans: int = Field(default=3, ge=0, le=100)
    """How many times a failure may call the planner; charged before the call."""


class TaskDefaults(Record):
    """What a task gets where it says nothing; kept so that tasks added later inherit it too."""

    model: str | None = None
    limits: Limits = Limits()
    attempts: int = Field(default=2, ge=1, le=20)
    timeout_s: Seconds | None = None
    gates: tuple[Gate, ...] = ()
    role_models: dict[str, str] = {}
    """Model by role name."""


class ModelPrice(Record):
    """What a model costs, in US dollars per million tokens; nothing is a price, too."""

    input: Price
    output: Price
    cache_write: Price | None = None
    """None: as `input`."""
    cache_read: Price | None = None
    """None: as `input`."""


Approval = Literal["plan", "replans"]
"""What may wait for a person: the planner's first plan, its later patches."""


class PlanSettings(Record):
    """Everything in a plan but its tasks."""

    version: Literal[1] = 1
    name: str = "plan"
    goal: str = ""
    base: str = "HEAD"
    """Revision of the target repository, resolved once when the run starts."""
    workers: int = Field(default=4, ge=1, le=256)
    """Attempts at a time."""
    budget: RunBudget = RunBudget()
    defaults: TaskDefaults = TaskDefaults()
    context: tuple[str, ...] = ()
    """Files that every agent gets in its prompt."""
    env: dict[str, str] = {}
    protect: tuple[str, ...] = PROTECTED_DEFAULT
    gates: tuple[Gate, ...] = ()
    """Gates of every merge node that has none of its own, `integrate` first of all."""
    overlap: Overlap = "allow"
    """What happens to parallel tasks whose `writes` overlap."""
    prices: dict[str, ModelPrice] = {}
    """By model name, for models that the price table does not have or has otherwise."""
    approve: tuple[Approval, ...] = ()
    """What waits for a person."""


class Plan(PlanSettings):
    """A whole plan. Tasks stand in plan order, which breaks all ties."""

    tasks: tuple[Task, ...] = ()

    @property
    def settings(self) -> PlanSettings:
        """The plan without its tasks."""
        return PlanSettings.model_validate(
            {name: getattr(self, name) for name in PlanSettings.model_fields}
        )
