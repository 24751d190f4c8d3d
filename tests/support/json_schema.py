"""A small judge of values by JSON Schema 2020-12, for tests: exact, slow, and knows its limits.

Only the keywords below; any other one is an error and not passed over, so that a schema cannot be
right because a part of it was not understood. Patterns are Python's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]

_SILENT = {"$schema", "$defs", "title", "description", "default", "discriminator"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),  # type: ignore[call-overload]
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def accepts(root: Schema, value: object) -> bool:
    """Whether `root` accepts `value`, which holds what JSON can hold."""
    return _fits(root, value, root)


def _fits(schema: Schema | bool, value: object, root: Schema) -> bool:
    if isinstance(schema, bool):
        return schema
    unknown = set(schema) - _SILENT - set(_KEYWORDS) - set(_MAPPINGS) - set(_LISTS)
    unknown -= {"$ref", "anyOf", "oneOf", "allOf", "not"}
    assert not unknown, f"keywords that this judge does not know: {sorted(unknown)}"
    return all(_judged(schema, value, root))


def _judged(schema: Schema, value: object, root: Schema) -> Iterator[bool]:
    """Each keyword's verdict."""
    if "$ref" in schema:
        yield _fits(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
    for keyword, enough in (("anyOf", any), ("allOf", all)):
        if keyword in schema:
            yield enough(_fits(arm, value, root) for arm in schema[keyword])
    if "oneOf" in schema:
        yield sum(_fits(arm, value, root) for arm in schema["oneOf"]) == 1
    if "not" in schema:
        yield not _fits(schema["not"], value, root)
    for keyword, judge in _KEYWORDS.items():
        if keyword in schema:
            yield judge(schema[keyword], value)
    if isinstance(value, list) and "items" in schema:
        yield from (_fits(schema["items"], item, root) for item in value)
    if isinstance(value, dict):
        yield from _members(schema, value, root)


def _members(schema: Schema, value: dict[str, object], root: Schema) -> Iterator[bool]:
    """Names and values of a mapping's members."""
    patterns = schema.get("patternProperties", {})
    for name, member in value.items():
        yield _fits(schema.get("propertyNames", True), name, root)
        arms = [schema["properties"][name]] if name in schema.get("properties", {}) else []
        arms += [arm for pattern, arm in patterns.items() if re.search(pattern, name)]
        for arm in arms or [schema.get("additionalProperties", True)]:
            yield _fits(arm, member, root)


def _sized(kind: type, judge: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A keyword that says something about values of one kind only."""
    return lambda wanted, value: not isinstance(value, kind) or judge(wanted, value)


def _number(judge: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda wanted, value: not _is_number(value) or judge(wanted, value)


def _same(wanted: object, value: object) -> bool:
    return wanted == value and isinstance(wanted, bool) == isinstance(value, bool)


def _typed(wanted: str | list[str], value: object) -> bool:
    return any(_TYPES[name](value) for name in ([wanted] if isinstance(wanted, str) else wanted))


_KEYWORDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": _typed,
    "const": _same,
    "enum": lambda wanted, value: any(_same(one, value) for one in wanted),
    "pattern": _sized(str, lambda wanted, value: re.search(wanted, value) is not None),
    "minLength": _sized(str, lambda wanted, value: len(value) >= wanted),
    "maxLength": _sized(str, lambda wanted, value: len(value) <= wanted),
    "minItems": _sized(list, lambda wanted, value: len(value) >= wanted),
    "maxItems": _sized(list, lambda wanted, value: len(value) <= wanted),
    "maxProperties": _sized(dict, lambda wanted, value: len(value) <= wanted),
    "required": _sized(dict, lambda wanted, value: set(wanted) <= set(value)),
    "minimum": _number(lambda wanted, value: value >= wanted),
    "maximum": _number(lambda wanted, value: value <= wanted),
    "exclusiveMinimum": _number(lambda wanted, value: value > wanted),
}
_MAPPINGS = ("properties", "patternProperties", "additionalProperties", "propertyNames")
_LISTS = ("items",)
