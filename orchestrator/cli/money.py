"""What a run with a real model may cost, looked at before it costs anything.

A budget in dollars can only be kept for models whose price is known, so a run that sets one and
asks another model is refused. A run that sets none is told so: roles have ceilings of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.core.goals import PLAN_TASK, model_of, planner_role
from orchestrator.core.plan import Plan, Task
from orchestrator.core.roles import Role
from orchestrator.errors import UsageError
from orchestrator.models.prices import has_price

EXAMPLE = "{input: 2, output: 10}"


def check_models(plan: Plan, roles: Mapping[str, Role]) -> Iterator[str]:
    """Notes for the person who starts a run with a real model.

    Raises `UsageError` when a task has no model, or the budget cannot be kept for want of a price.
    """
    used = _models(plan, roles)
    unpriced = [model for model in used if not has_price(model, plan.prices)]
    if unpriced and (limit := _dollars_set(plan, roles)):
        raise UsageError(
            f"no price is known for {' and '.join(unpriced)}, so {limit} cannot be kept:"
            f" {_mend(plan, unpriced[0])}"
        )
    for model in unpriced:
        yield f"no price is known for {model}: its cost is not counted; the plan can say `prices`"
    if plan.budget.usd is None and len(unpriced) < len(used):
        yield "no budget: only the roles' own ceilings bound the cost; set --budget-usd to bound it"


def _mend(plan: Plan, model: str) -> str:
    """What to do about a price that is missing; a plan that is made for a goal has no file yet."""
    if [task.id for task in plan.tasks] == [PLAN_TASK]:
        return (
            "leave out --budget-usd, or write the plan first (`orchestrate plan`) and add `prices`"
        )
    return (
        f"add `prices: {{{model}: {EXAMPLE}}}` to the plan (dollars per million tokens; 0 for a"
        " model of your own), or set no dollars"
    )


def _models(plan: Plan, roles: Mapping[str, Role]) -> tuple[str, ...]:
    """Every model that may be asked, a later planner's included, each once."""
    models: dict[str, None] = {}
    for task in plan.tasks:
        if task.role is None:
            continue
        model = task.model or plan.defaults.model
        if model is None:
            raise UsageError(
                f"task `{task.id}` has no model: set --model, or `defaults: {{model: NAME}}`"
            )
        models[model] = None
    planner = planner_role(roles)
    if planner is not None and plan.budget.replans:
        said = model_of(planner, plan)
        models |= {said: None} if said is not None else {}
    return tuple(models)


def _dollars_set(plan: Plan, roles: Mapping[str, Role]) -> str:
    """The first ceiling in dollars that the plan itself or the command line sets; else empty."""
    if plan.budget.usd is not None:
        return f"the budget of ${plan.budget.usd:g}"
    task = next((task for task in plan.tasks if _own_dollars(task, roles)), None)
    return f"the budget of task `{task.id}`" if task is not None else ""


def _own_dollars(task: Task, roles: Mapping[str, Role]) -> bool:
    """Whether a task's ceiling is more than its role's default."""
    role = roles.get(task.role) if task.role is not None else None
    given = role.limits.usd if role is not None else None
    return task.limits.usd is not None and task.limits.usd != given
