"""Planner tasks: the one that a goal begins with, and those that failures call for. Pure.

A run for a goal starts with a plan of one task, whose planner hands in the plan
(`orchestrator.core.proposals` applies it). What that planner is told besides its prompt is the
attempt's order; here is the task alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.core.base import TaskId
from orchestrator.core.plan import Plan, PlanSettings, Task
from orchestrator.core.roles import Role

PLAN_TASK = "plan"
"""Id of the task that makes the plan for a goal."""

FIRST_PROMPT = (
    "There is no plan yet. Look at the repository, then hand in the plan of tasks that reaches the"
    " goal."
)


def planner_role(roles: Mapping[str, Role]) -> Role | None:
    """The role that plans: the first one whose product is a patch; None where there is none."""
    return next((role for role in roles.values() if role.product == "patch"), None)


def planner_task(
    key: TaskId,
    prompt: str,
    settings: PlanSettings,
    roles: Mapping[str, Role],
    *,
    needs: Sequence[TaskId] = (),
) -> Task:
    """A task for the planner, tried once. Raises `ValueError` where no role plans."""
    role = planner_role(roles)
    if role is None:
        raise ValueError("no role hands in patches")
    return Task(
        id=key,
        role=role.name,
        prompt=prompt,
        needs=tuple(needs),
        context=settings.context,
        model=model_of(role, settings),
        limits=role.limits,
        attempts=1,
        on_failure="fail",
    )


def goal_plan(settings: PlanSettings, roles: Mapping[str, Role]) -> Plan:
    """The plan that a run for a goal begins with: one planner task, which makes the plan.

    `settings` are the user's: goal, budget, workers, base, prices, approvals. Raises `ValueError`
    where no role plans.
    """
    values = {name: getattr(settings, name) for name in PlanSettings.model_fields}
    task = planner_task(PLAN_TASK, FIRST_PROMPT, settings, roles)
    return Plan.model_validate({**values, "tasks": (task,)})


def model_of(role: Role, settings: PlanSettings) -> str | None:
    """The model of a task with this role that names none itself."""
    return settings.defaults.role_models.get(role.name) or settings.defaults.model or role.model
