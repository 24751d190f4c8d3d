"""What agents hand in: reports, changes, verdicts, plans, patches. Checked values, never prose.

The models of the `Submit...` tools: their JSON schemas are what an agent sees, so each field says
what is wanted. A patch's tasks are drafts (`orchestrator.core.drafts`), as in a plan file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orchestrator.core.base import Record, TaskId
from orchestrator.core.drafts import PatchDraft, ProposalDraft

Text = Annotated[str, Field(max_length=20_000)]
ShortText = Annotated[str, Field(max_length=2_000)]
Line = Annotated[int, Field(ge=1, le=10_000_000)]


class Claim(Record):
    """A statement about the code that can be looked up: a place and what stands there."""

    path: Annotated[str, Field(max_length=1_000)]
    """Path relative to the repository's root."""
    line: Line
    """First line, counted from 1."""
    end_line: Line | None = None
    """Last line; None when it is one line."""
    quote: ShortText = ""
    """Text that stands there, exactly."""
    note: ShortText = ""
    """What follows from it."""


class Decision(Record):
    """A choice that later tasks must keep to."""

    what: ShortText
    why: ShortText = ""
    name: str | None = None
    """The name under which the plan's `decides` lists it, if it does."""


class Report(Record):
    """An explorer's product."""

    kind: Literal["report"] = "report"
    summary: Text
    """The answer, in a few sentences."""
    claims: Annotated[tuple[Claim, ...], Field(max_length=200)] = ()
    """The places that prove it."""
    items: Annotated[tuple[ShortText, ...], Field(max_length=1_000)] = ()
    """A list, when one was asked for."""
    discoveries: Annotated[tuple[ShortText, ...], Field(max_length=50)] = ()
    """What the plan did not know and should."""


class Change(Record):
    """An implementer's product: the words that go with its commit."""

    kind: Literal["change"] = "change"
    summary: Text
    """What was changed and why, as a commit message would say it."""
    decisions: Annotated[tuple[Decision, ...], Field(max_length=50)] = ()
    """Choices that later tasks must keep to."""
    discoveries: Annotated[tuple[ShortText, ...], Field(max_length=50)] = ()
    """What the plan did not know and should."""


class Finding(Record):
    """Something a reviewer found, at a place."""

    path: Annotated[str, Field(max_length=1_000)]
    line: Line
    severity: Literal["error", "warning", "note"]
    message: ShortText


class Verdict(Record):
    """A reviewer's product."""

    kind: Literal["verdict"] = "verdict"
    approve: bool
    """True only when the change may be integrated as it is."""
    findings: Annotated[tuple[Finding, ...], Field(max_length=100)] = ()
    """What must or should change; at least one when not approved."""


class PlanPatch(PatchDraft):
    """A planner's product: how the graph changes."""

    kind: Literal["patch"] = "patch"


class PlanProposal(ProposalDraft):
    """A planner's first product: the plan for a goal."""

    kind: Literal["plan"] = "plan"


Product = Annotated[
    Report | Change | Verdict | PlanPatch | PlanProposal, Field(discriminator="kind")
]
"""Any product, told apart by `kind`."""

__all__ = [
    "Change",
    "Claim",
    "Decision",
    "Finding",
    "PlanPatch",
    "PlanProposal",
    "Product",
    "Report",
    "TaskId",
    "Verdict",
]
