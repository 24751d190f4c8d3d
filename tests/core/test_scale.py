"""Work grows with the plan, not with its square: four times the tasks cost about four times.

Processor time of two sizes is compared, so the machine's speed does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest

from orchestrator.core.checks import check_plan
from orchestrator.core.machine import fold
from orchestrator.core.plan import Plan, RunBudget, Task
from tests.core.story import CALM, plan, task
from tests.support.simulator import ROLES, Simulation

SIZES = [
    pytest.param(600, id="to 2,400"),
    pytest.param(2_500, id="to 10,000", marks=pytest.mark.slow),
]
RATIO_MAX = 8
"""Four is linear, sixteen quadratic."""


def chain(size: int) -> list[Task]:
    return [task(f"t{n}", f"t{n - 1}" if n else "") for n in range(size)]


def backward_chain(size: int) -> list[Task]:
    return chain(size)[::-1]


def fan_out(size: int) -> list[Task]:
    legs = [task(f"t{n}", "root", role="explorer") for n in range(size - 2)]
    names = " ".join(leg.id for leg in legs)
    return [task("root", role="explorer"), *legs, task("all", names, role="explorer")]


def writers(size: int) -> list[Task]:
    return [task(f"t{n}", writes=(f"src/m{n}/", "docs/")) for n in range(size - 1)]


SHAPES = (chain, backward_chain, fan_out, writers)


def run(whole: Plan) -> None:
    simulation = Simulation(whole, Random(0), CALM)
    assert simulation.run(10 * len(whole.tasks)).status == "succeeded"
    assert {held.status.value for held in simulation.state.tasks.values()} == {"succeeded"}
    assert fold("run", simulation.events) == simulation.state


def seconds(work: Callable[[Plan], object], whole: Plan) -> float:
    """Processor seconds, the better of two."""
    spans = []
    for _ in range(2):
        before = time.process_time()
        work(whole)
        spans.append(time.process_time() - before)
    return min(spans)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_runs_take_no_quadratic_time(shape: Callable[[int], list[Task]], size: int) -> None:
    budget = RunBudget(usd=1_000_000)
    small, large = (plan(*shape(count), budget=budget) for count in (size, 4 * size))
    assert seconds(run, large) <= RATIO_MAX * seconds(run, small)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("overlap", ["allow", "serialise"])
@pytest.mark.parametrize("shape", SHAPES)
def test_checks_take_no_quadratic_time(
    shape: Callable[[int], list[Task]], overlap: str, size: int
) -> None:
    def check(whole: Plan) -> None:
        problems = check_plan(whole, ROLES)
        assert [str(item) for item in problems if item.severity == "error"] == []

    small, large = (
        Plan.model_validate({"gates": plan().gates, "overlap": overlap, "tasks": shape(count)})
        for count in (size, 4 * size)
    )
    assert seconds(check, large) <= RATIO_MAX * seconds(check, small)
