"""One role file: Markdown with YAML front matter, as Claude Code's subagents have it.

    ---
    name: reviewer
    description: Judges a change
    tools: Read, Grep, Glob          # or a list
    model: claude-sonnet-5-5         # optional, as all below
    maxTurns: 30
    orchestrate: {product: verdict, writes: false, budget: {usd: 1}}
    ---
    The prompt.

Only what one file says by itself; what it inherits and whether it may say so is
`orchestrator.roles.lookup`. A file is read whole: all its faults come back at once, each with its
line, and unknown keys are faults, since a key that is not obeyed is a promise that is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)

from orchestrator.core.base import Count
from orchestrator.core.drafts import TaskBudgetDraft
from orchestrator.core.lenient import Draft, Number, predicate, sentence
from orchestrator.core.roles import SUBMIT_TOOLS, Limits, ProductKind
from orchestrator.core.wording import suggestion
from orchestrator.documents import Document, Path, faults_of, load_document
from orchestrator.errors import Fault, PlanError

TOOLS = ("Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write")
"""Tools that a role may name."""
PROMPT_CHARS_MAX = 30_000
"""Longest prompt: every agent of the role carries it in every request."""

_PLANNED_TOOLS = ("RunGate",)
_PLANNED_PRODUCTS = ("plan",)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")
_MODEL_ALIASES: Mapping[str, str | None] = {
    "inherit": None,
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}
"""Claude Code's short names; `inherit` leaves the choice to the plan or the command line."""
_FENCE = "---"


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise predicate(f"is no role name: `{name[:80]}`", "lower-case letters, digits, hyphens")
    return name


def _model(name: str) -> str | None:
    if name in _MODEL_ALIASES:
        return _MODEL_ALIASES[name]
    if not _MODEL.fullmatch(name):
        raise predicate(f"is no name of a model: `{name[:80]}`")
    return name


def _names(value: object) -> object:
    """A comma string as a list."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if value in ([], ()):
        raise predicate("names no tool", "write tools: Read, Grep, Glob")
    return value


def _tool(name: str) -> str:
    if name in _PLANNED_TOOLS:
        raise predicate(f"names `{name}`, which is not supported yet")
    if name in SUBMIT_TOOLS.values():
        raise predicate(f"names `{name}`, which comes with the product", "leave it out")
    if name not in TOOLS:
        raise predicate(f"is no tool: `{name[:80]}`", suggestion(name, TOOLS))
    return name


def _product(kind: ProductKind) -> ProductKind:
    if kind in _PLANNED_PRODUCTS:
        raise predicate(f"is `{kind}`, which is not supported yet")
    return kind


def _not_yet(flag: bool) -> bool:
    if flag:
        raise predicate("is true, which is not supported yet")
    return flag


class RoleBudget(TaskBudgetDraft):
    """Ceilings of each attempt of the role."""

    noun = "a role's budget"


class OwnKeys(Draft):
    """The key that is ours."""

    noun = "`orchestrate`"

    product: Annotated[ProductKind, AfterValidator(_product)] | None = None
    writes: StrictBool | None = None
    resolves: Annotated[StrictBool, AfterValidator(_not_yet)] = False
    budget: RoleBudget = RoleBudget()

    @model_validator(mode="after")
    def _writes_what_it_hands_in(self) -> Self:
        if self.product is not None and self.writes not in (None, self.product == "change"):
            raise sentence(
                f"product `{self.product}` does not go with `writes: {str(self.writes).lower()}`",
                "a role writes exactly when it hands in a change",
            )
        return self


class FrontMatter(Draft):
    """What stands above the prompt."""

    noun = "a role file"

    name: Annotated[str, AfterValidator(_name)]
    description: Annotated[str, Field(max_length=2_000)] = ""
    tools: Annotated[tuple[Annotated[str, AfterValidator(_tool)], ...], BeforeValidator(_names)]
    model: Annotated[str, AfterValidator(_model)] | None = None
    max_turns: Annotated[Count, Number] | None = Field(default=None, alias="maxTurns")
    orchestrate: OwnKeys | None = None

    @model_validator(mode="after")
    def _turns_once(self) -> Self:
        own = self.orchestrate
        if self.max_turns is not None and own is not None and own.budget.turns is not None:
            raise sentence("`maxTurns` says the same as the budget's `turns`: keep one of them")
        return self


@dataclass(frozen=True, slots=True)
class RoleFile:
    """A role file that is right by itself. None is what it does not say."""

    document: Document
    front: FrontMatter
    prompt: str

    @property
    def file(self) -> str:
        """Its path as the user knows it."""
        return self.document.file

    @property
    def name(self) -> str:
        """The role's name."""
        return self.front.name

    @property
    def tools(self) -> tuple[str, ...]:
        """In alphabetical order, without repeats."""
        return tuple(sorted(set(self.front.tools)))

    @property
    def product(self) -> ProductKind | None:
        """What it hands in."""
        return self.front.orchestrate.product if self.front.orchestrate else None

    @property
    def writes(self) -> bool | None:
        """Whether it writes: said, or by its product."""
        own = self.front.orchestrate
        if own is None or (own.writes is None and own.product is None):
            return None
        return own.writes if own.writes is not None else own.product == "change"

    @property
    def limits(self) -> Limits:
        """Its budget, with `maxTurns` as the turns."""
        own = self.front.orchestrate
        said = Limits.model_validate(own.budget.model_dump()) if own else Limits()
        return said.over(Limits(turns=self.front.max_turns))

    def fault(self, place: Path, message: str, hint: str = "") -> Fault:
        """A fault at one of its keys; a limit of turns may stand under either of its names."""
        if place[-1:] == ("turns",) and self.front.max_turns is not None:
            place = ("maxTurns",)
        return Fault(self.file, self.document.key_line(place), message, hint)


def parse_role(text: str, file: str) -> RoleFile:
    """Read a role file. Raises `PlanError` with every fault that it has by itself."""
    above, prompt, prompt_line = _split(text, file)
    document = load_document(above, file)
    faults = []
    if not prompt:
        hint = "write it below the front matter"
        faults.append(Fault(file, prompt_line, "the prompt is empty", hint))
    elif len(prompt) > PROMPT_CHARS_MAX:
        message = f"the prompt has {len(prompt)} characters, at most {PROMPT_CHARS_MAX}"
        faults.append(Fault(file, prompt_line, message))
    try:
        front = FrontMatter.model_validate(document.data)
    except ValidationError as error:
        raise PlanError([*faults_of(error, document), *faults]) from None
    if faults:
        raise PlanError(faults)
    return RoleFile(document, front, prompt)


def _split(text: str, file: str) -> tuple[str, str, int]:
    """Front matter, prompt, and the line that the prompt starts at.

    The opening fence becomes an empty line, so that lines of the front matter are the file's.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        fault = Fault(file, 1, "a role file starts with front matter", "make the first line `---`")
        raise PlanError([fault])
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == _FENCE:
            above = "\n".join(["", *lines[1 : number - 1], ""])
            return above, "\n".join(lines[number:]).strip(), number
    raise PlanError([Fault(file, 1, "the front matter has no end", "close it with a line `---`")])
