"""Validation errors in the words of the people, and models, who have to mend them.

Knows pydantic's error types and those of `orchestrator.core.lenient`; not where a value stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pydantic_core import ErrorDetails

_LIMITS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def kind_of(value: object) -> str:
    """What a value is, in a reader's words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__


def shown(text: object, chars_max: int = 100) -> str:
    """Somebody's text for a message: on one line, without control characters, not too long."""
    whole = str(text)
    cut = whole[:chars_max]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return safe if len(cut) == len(whole) else safe + "..."


def suggestion(word: str, known: Sequence[str]) -> str:
    """`did you mean ...?` for a word that is near a known one, else the known ones."""
    near = get_close_matches(word[:100], known, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    return "known: " + ", ".join(sorted(known)) if known else ""


def explain(detail: ErrorDetails) -> tuple[str, str]:
    """Message and hint for one of pydantic's errors.

    The message goes on after the value's name ("must be text"), but for type `draft`, where it is
    a sentence.
    """
    context, value, kind = detail.get("ctx", {}), detail["input"], detail["type"]
    match kind:
        case "draft":
            nearest = (
                suggestion(str(detail["loc"][-1]), context["known"]) if context["known"] else ""
            )
            return context["message"], context["hint"] or nearest
        case "draft_value":
            return context["message"], context["hint"]
        case "value_error":
            return str(context["error"]), ""
        case "missing":
            return "is missing", ""
        case "extra_forbidden":
            return "is an unknown key", ""
        case "string_type":
            quotes = isinstance(value, bool | int | float)
            return f"must be text, not {kind_of(value)}", "put it in quotes" if quotes else ""
        case "string_too_short":
            return "must not be empty", ""
        case "string_too_long" | "too_long":
            what = "characters" if kind == "string_too_long" else "entries"
            return f"has more than {context['max_length']} {what}", ""
        case "literal_error":
            words = re.findall(r"'([^']*)'", context["expected"])
            hint = suggestion(value, words) if isinstance(value, str) else ""
            return f"must be {context['expected']}", hint if hint.startswith("did") else ""
        case "string_pattern_mismatch":
            return f"has a form that is not allowed: `{shown(value)}`", ""
        case _:
            return _explain_type(kind, context, value)


def _explain_type(kind: str, context: Mapping[str, object], value: object) -> tuple[str, str]:
    """Errors that come in many kinds: numbers, limits, containers."""
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        return f"must be {words} {context[name]}", ""
    if kind.startswith("int_"):
        return "must be a whole number", ""
    if kind == "finite_number":
        return "must be a finite number", ""
    if kind.startswith("float_"):
        return "must be a number", ""
    if kind.startswith("bool_"):
        return f"must be true or false, not {kind_of(value)}", ""
    if kind in ("tuple_type", "list_type"):
        return f"must be a list, not {kind_of(value)}", ""
    if kind in ("dict_type", "model_type", "mapping_type"):
        return f"must be a mapping of keys, not {kind_of(value)}", ""
    return f"cannot be used: {kind.replace('_', ' ')}", ""
