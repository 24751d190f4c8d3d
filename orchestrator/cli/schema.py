"""`schema`: JSON Schemas of what people write and of what the program says.

    plan, role                         files, with every form that is read
    report, change, verdict, patch     products, as their Submit tools take them
    events                             one line of `--json`: an event, or the result

All are made of the models that read or write the real thing, so they cannot differ from it in
names, but for what a line of `--json` has besides its event, and its last line: these are written
down here, and a test holds them to `observers.jsonlines`. JSON Schema draft 2020-12, the same text
every time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import click
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from orchestrator.cli.terminal import out
from orchestrator.core.base import ObjectId, Record, TaskId
from orchestrator.core.drafts import PlanDraft
from orchestrator.core.events import EVENT
from orchestrator.core.roles import ProductKind
from orchestrator.core.schema import DIALECT, draft_schema
from orchestrator.core.state import TaskStatus
from orchestrator.roles import TOOLS
from orchestrator.roles.format import FrontMatter
from orchestrator.tools.submit import submit_spec

Schema = dict[str, Any]


class _ResultLine(Record):
    """The last line of `--json`."""

    type: Literal["result"]
    run: str
    status: Literal["succeeded", "failed", "paused"]
    branch: str | None
    """None where nothing was integrated."""
    commit: ObjectId | None
    usd: float
    """Dollars spent."""
    seconds: float
    """From the first event to the last."""
    tasks: dict[TaskId, TaskStatus]


_HEAD: Schema = {
    "at": {"type": "number", "description": "Unix seconds."},
    "run": {"type": "string", "description": "The run's id."},
    "seq": {"type": "integer", "minimum": 1, "description": "Position in the run's log."},
    "cause": {"type": ["integer", "null"], "description": "`seq` of the event it follows from."},
    "task": {"type": ["string", "null"]},
    "attempt": {"type": ["integer", "null"]},
}
"""What stands in every event's line beside its own fields."""


class _Complete(GenerateJsonSchema):
    """Nothing is left out of what the program writes, defaults included."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Every field."""
        return True


def plan_schema() -> Schema:
    """A plan file."""
    return draft_schema(PlanDraft, "A plan of orchestrate")


def role_schema() -> Schema:
    """The front matter of a role file."""
    schema = draft_schema(FrontMatter, "Front matter of a role file of orchestrate")
    names = "|".join(TOOLS)
    schema["properties"]["name"] = TypeAdapter(TaskId).json_schema()
    schema["properties"]["tools"] = {
        "description": "Tools it may call; the Submit tool comes with its product.",
        "anyOf": [
            {"type": "array", "items": {"enum": list(TOOLS)}, "minItems": 1},
            {"type": "string", "pattern": rf"^[\s,]*({names})([\s,]*,[\s,]*({names}))*[\s,]*$"},
        ],
    }
    return schema


def product_schema(kind: ProductKind) -> Schema:
    """What the Submit tool of a kind takes."""
    spec = submit_spec(kind)
    return {"$schema": DIALECT, **spec.input_schema, "title": spec.name}


def events_schema() -> Schema:
    """One line of `--json`."""
    template = "#/$defs/{model}"
    events = EVENT.json_schema(
        mode="serialization", ref_template=template, schema_generator=_Complete
    )
    result = TypeAdapter(_ResultLine).json_schema(ref_template=template)
    definitions: Schema = {**events["$defs"], **result.pop("$defs", {}), "result": result}
    for reference in events["oneOf"]:
        line = definitions[reference["$ref"].rpartition("/")[2]]
        line["properties"] = {**_HEAD, **line["properties"]}
        line["required"] = list(line["properties"])
    return {
        "$schema": DIALECT,
        "title": "A line of --json",
        "oneOf": [*events["oneOf"], {"$ref": "#/$defs/result"}],
        "$defs": definitions,
    }


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "plan": plan_schema,
    "role": role_schema,
    "report": partial(product_schema, "report"),
    "change": partial(product_schema, "change"),
    "verdict": partial(product_schema, "verdict"),
    "patch": partial(product_schema, "patch"),
    "events": events_schema,
}


@click.command()
@click.argument("name", type=click.Choice(list(SCHEMAS)), default="plan")
def schema(name: str) -> None:
    """Print the JSON Schema of plans, role files, products or `--json` lines.

    For an editor: write it to a file, and say so at the top of the plan, as
    `# yaml-language-server: $schema=plan.schema.json`.
    """
    out([json.dumps(SCHEMAS[name](), indent=2)])
