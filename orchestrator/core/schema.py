"""JSON Schemas of what people write: drafts with every form that is read, for editors and checkers.

`model_json_schema` shows a planner each key once, in its plainest form. Here every other form that
`core.lenient` reads is allowed too: other names of keys, one item for a list, `10m` for seconds, a
mapping of tasks, a key without a value. A schema knows one value at a time; how tasks fit together
is still for `check` to say.

Draft 2020-12, the same text every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from orchestrator.core.base import TaskId
from orchestrator.core.lenient import Draft, Listed, ReadDuration
from orchestrator.core.task_drafts import RETRIES, ReadTasks, TaskDraft

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NULL: JsonSchemaValue = {"type": "null"}
_DURATION: JsonSchemaValue = {
    "type": "string",
    "pattern": r"^\s*[0-9]{1,12}(\.[0-9]{1,12})?\s*[smh]?\s*$",
}
_SAID = ("description", "default")
_RETRIES: JsonSchemaValue = {"type": "integer", "minimum": 0, "maximum": 19}
_CONVERTED = {RETRIES["retries"]: _RETRIES}
"""Other names that count differently: what may stand under them, by what converts it."""


def draft_schema(model: type[Draft], title: str) -> JsonSchemaValue:
    """The schema of a file or value that is read as `model`."""
    schema = model.model_json_schema(schema_generator=_AsWritten)
    return {"$schema": DIALECT, **schema, "title": title}


class _AsWritten(GenerateJsonSchema):
    """Generates schemas of drafts as they may be written."""

    schema_dialect = DIALECT

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """A mapping, or what its shorthand stands for."""
        found = super().model_schema(schema)
        model = schema["cls"]
        if not issubclass(model, Draft):
            return found
        if model is TaskDraft:  # whether its id may be left out is up to what holds it
            del found["required"]
        mapping = _with_other_names(found, model.aliases, model.conversions)
        if model.shorthand is None:
            return mapping
        return {"anyOf": [mapping["properties"][model.shorthand], mapping]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A mapping whose keys have a form has no others."""
        found = super().dict_schema(schema)
        return {**found, "additionalProperties": False} if "patternProperties" in found else found

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> JsonSchemaValue:
        """What stands after the function, or a form that the function reads."""
        found = super().function_before_schema(schema)
        function = schema["function"]["function"]
        if function is Listed.func:
            return {"anyOf": [found, found["items"]]}
        if function is ReadDuration.func:
            return {"anyOf": [found, _DURATION]}
        return found

    def function_wrap_schema(
        self, schema: core_schema.WrapValidatorFunctionSchema
    ) -> JsonSchemaValue:
        """Tasks: a list of tasks with ids, or a mapping by id."""
        found = super().function_wrap_schema(schema)
        if schema["function"]["function"] is not ReadTasks.func:
            return found
        task = found["items"]
        mapping = {
            "type": "object",
            "propertyNames": TypeAdapter(TaskId).json_schema(),
            "additionalProperties": task,
            "maxProperties": found["maxItems"],
        }
        return {"anyOf": [mapping, {**found, "items": {"allOf": [task, {"required": ["id"]}]}}]}


def _with_other_names(
    found: JsonSchemaValue,
    aliases: Mapping[str, str],
    conversions: Mapping[str, Callable[[object], object]],
) -> JsonSchemaValue:
    """A mapping's schema with other names for its keys, and keys without a value."""
    own, required = found["properties"], found.get("required", [])
    properties: dict[str, Any] = {
        key: _untitled(value) if key in required else _or_nothing(value)
        for key, value in own.items()
    }
    for other, key in aliases.items():
        form: JsonSchemaValue = own[key]
        if other in conversions:
            form = _CONVERTED[conversions[other]]
        said: JsonSchemaValue = {"default": None, "description": f"The same as `{key}`."}
        properties[other] = _or_nothing({**form, **said})
    schema = {**_untitled(found), "properties": properties}
    meaning = {name: aliases.get(name, name) for name in properties}
    same = [pair for pair in combinations(meaning, 2) if len({meaning[key] for key in pair}) == 1]
    if same:
        schema["allOf"] = [{"not": {"required": list(pair)}} for pair in same]
    return schema


def _or_nothing(value: JsonSchemaValue) -> JsonSchemaValue:
    """The same, or null: a key with nothing behind it is not written."""
    said: JsonSchemaValue = {name: value[name] for name in _SAID if name in value}
    if said.get("default") is None or isinstance(said["default"], dict):
        said.pop("default", None)
    form = {name: value[name] for name in value if name not in (*_SAID, "title")}
    arms = form["anyOf"] if set(form) == {"anyOf"} else [form]
    return {"anyOf": [*(arm for arm in arms if arm != _NULL), _NULL], **said}


def _untitled(value: JsonSchemaValue) -> JsonSchemaValue:
    """Without a title, which only repeats a name."""
    return {name: value[name] for name in value if name != "title"}
