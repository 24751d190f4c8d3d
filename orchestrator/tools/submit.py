"""The `Submit...` tools: how an agent hands in its product.

They are no `Tool`: handing in seals the tree, runs gates and ends the attempt, which is the loop's
caller's business. Here is only what the model is told, and how its arguments become a product.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.products import (
    Change,
    PlanPatch,
    PlanProposal,
    Product,
    Report,
    Verdict,
)
from orchestrator.core.roles import SUBMIT_TOOLS, ProductKind
from orchestrator.messages import ToolSpec
from orchestrator.tools.definition import checked_arguments, schema_of

_PRODUCTS: dict[
    ProductKind,
    type[Report] | type[Change] | type[Verdict] | type[PlanPatch] | type[PlanProposal],
] = {
    "report": Report,
    "change": Change,
    "verdict": Verdict,
    "patch": PlanPatch,
    "plan": PlanProposal,
}

_PURPOSE: dict[ProductKind, str] = {
    "report": "your report. Each claim names a path and a line, and quotes what stands there",
    "change": (
        "your change: the files as they are now. They are sealed into a commit and the task's"
        " gates are run on it"
    ),
    "verdict": "your verdict on the change. Each finding names a path and a line",
    "patch": "your change of the task graph. It is checked against the graph as it stands",
    "plan": "the plan of tasks that reaches the goal. It is checked before anything of it runs",
}


def submit_spec(kind: ProductKind) -> ToolSpec:
    """The tool that hands in products of `kind`."""
    return ToolSpec(
        name=SUBMIT_TOOLS[kind],
        description=(
            f"Hand in {_PURPOSE[kind]}. This ends your task when it is accepted; otherwise the"
            " answer says what to mend, and you go on. A task that does not hand in has failed."
        ),
        input_schema=schema_of(_PRODUCTS[kind], without="kind"),
        read_only=False,
    )


def parse_product(kind: ProductKind, arguments: Mapping[str, object]) -> Product:
    """The product that a Submit call holds. Raises `ToolError` that names what is wrong."""
    return checked_arguments(_PRODUCTS[kind], arguments, without="kind")
