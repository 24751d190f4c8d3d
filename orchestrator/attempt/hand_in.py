"""The desk where an agent hands in: seal, verify, and an answer it can act on.

What fails comes back as the Submit tool's result and the agent goes on; nothing an agent says is
believed here that a tree or a command does not bear out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from orchestrator.agent.loop import Accepted, Returned
from orchestrator.attempt import commits
from orchestrator.attempt.products import Read, report_problems, verdict_problems
from orchestrator.core.events import GateRecord, PlanRevised
from orchestrator.core.patches import apply_patch
from orchestrator.core.plan import PlanSettings
from orchestrator.core.products import (
    Change,
    PlanPatch,
    PlanProposal,
    Product,
    Report,
    Verdict,
)
from orchestrator.core.proposals import apply_plan
from orchestrator.gates.evidence import describe_red
from orchestrator.models.prices import has_price
from orchestrator.ports import SealRefused, Workspace
from orchestrator.spec import AttemptSpec

PROBLEMS_SHOWN_MAX = 50
"""Problems of a plan or patch that are told at a time."""

Verify = Callable[[str, str], Awaitable[tuple[GateRecord, ...]]]
"""Runs the task's gates on (commit, tree)."""


@dataclass(frozen=True, slots=True)
class HandedIn:
    """An accepted product, and the tree it stands for (empty for roles that do not write)."""

    product: Product
    commit: str = ""
    tree: str = ""
    gates: tuple[GateRecord, ...] = ()
    left_out: tuple[str, ...] = ()


class HandInDesk:
    """Judges what one attempt's agent hands in."""

    def __init__(self, spec: AttemptSpec, workspace: Workspace, verify: Verify, read: Read) -> None:
        """`read`: files of the tree that reports and verdicts are about."""
        self._spec, self._workspace = spec, workspace
        self._verify, self._read = verify, read
        self.accepted: HandedIn | None = None
        """The product that ended the attempt."""
        self.records: tuple[GateRecord, ...] = ()
        """Gates of the last change that was handed in."""
        self.last_refusal = ""
        """Why the last product went back."""

    async def hand_in(self, product: Product) -> Accepted | Returned:
        """Accept `product`, or say what is wrong with it."""
        handed_in = await self._judge(product)
        if isinstance(handed_in, str):
            self.last_refusal = handed_in
            return Returned(handed_in)
        self.accepted = handed_in
        return Accepted()

    async def _judge(self, product: Product) -> HandedIn | str:
        """The product with its tree, or what is wrong with it."""
        match product:
            case Change():
                return await self._change(product)
            case Report():
                return _or_problems(product, await report_problems(product, self._read))
            case Verdict():
                return _or_problems(product, await verdict_problems(product, self._read))
            case PlanPatch() | PlanProposal():
                return self._planned(product)

    async def _change(self, change: Change) -> HandedIn | str:
        spec = self._spec
        sealed = await self._workspace.seal(
            message=commits.change_message(spec, change),
            date=spec.started_at,
            writes=spec.task.writes,
            protect=spec.protect,
        )
        if isinstance(sealed, SealRefused):
            return "your changes cannot be taken as they are:\n" + _listed(sealed.problems)
        if not sealed.changed:
            return (
                "nothing differs from what you were given, so there is nothing to hand in:"
                " make the change, or say in a reply why it is not needed"
            )
        self.records = await self._verify(sealed.commit, sealed.tree)
        red = describe_red(self.records)
        if red:
            return f"your change does not pass:\n{red}\nMend it and hand in again."
        return HandedIn(change, sealed.commit, sealed.tree, self.records, sealed.left_out)

    def _planned(self, product: PlanPatch | PlanProposal) -> HandedIn | str:
        """A plan or patch, checked against the graph as it was when the attempt began."""
        graph, by = self._spec.graph, self._spec.task.id
        if graph is None:
            return "there is no graph to patch here"
        if isinstance(product, PlanPatch):
            revised = apply_patch(graph, product, by)
            what = "the patch does not fit the graph"
        else:
            revised = apply_plan(graph, product, by)
            what = "the plan cannot be run"
        if isinstance(revised, PlanRevised):
            unpriced = _unpriced(revised, graph.settings)
            return f"{what}:\n" + _listed(unpriced) if unpriced else HandedIn(product)
        shown = [str(problem) for problem in revised[:PROBLEMS_SHOWN_MAX]]
        if len(revised) > len(shown):
            shown.append(f"and {len(revised) - len(shown)} more")
        return f"{what}:\n" + _listed(tuple(shown))


def _unpriced(revised: PlanRevised, settings: PlanSettings) -> tuple[str, ...]:
    """Models that a budget in dollars could not be kept with, a sentence each."""
    if settings.budget.usd is None:
        return ()
    tasks = (task for task in (*revised.add, *revised.replace) if task.role is not None)
    models = dict.fromkeys(task.model or settings.defaults.model for task in tasks)
    return tuple(
        f"no price is known for the model {model}, and the run has a budget: leave `model` out"
        for model in models
        if model is not None and not has_price(model, settings.prices)
    )


def _or_problems(product: Product, problems: list[str]) -> HandedIn | str:
    if problems:
        return "this cannot be accepted:\n" + _listed(tuple(problems))
    return HandedIn(product)


def _listed(problems: tuple[str, ...]) -> str:
    return "\n".join(f"- {problem}" for problem in problems)
