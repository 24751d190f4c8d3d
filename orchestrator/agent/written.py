"""Plans and patches that a planner wrote into its reply instead of calling its tool.

Some models answer in text, in a fenced block or with a few words around it, whatever they are told.
The first object in the text that has a plan's, or a patch's, own keys is taken; nothing else of the
text is. It counts by its schema alone, just as the arguments of a call would. Hostile text is
bounded: by size, by tries, and by the caps of `orchestrator.documents`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from orchestrator.core.roles import ProductKind
from orchestrator.documents import BYTES_MAX, load_document
from orchestrator.errors import PlanError

MARKS: Mapping[ProductKind, frozenset[str]] = {
    "plan": frozenset({"tasks"}),
    "patch": frozenset({"add", "drop", "rewire", "amend"}),
}
"""Keys that tell a product of a kind from any other object; other kinds are not taken from text."""
TRIES_MAX = 50
"""Most places in a text that are looked at."""

_LANGUAGES = ("json", "yaml", "yml", "")


@dataclass(frozen=True, slots=True)
class Written:
    """What was found in a text: a product's arguments, or what is wrong with their form."""

    arguments: Mapping[str, object] = field(default_factory=dict)
    fault: str = ""
    """Empty where the arguments could be read."""


def written_product(kind: ProductKind, text: str) -> Written | None:
    """What `text` holds of a product of `kind`; None where it holds none."""
    marks = MARKS.get(kind)
    if marks is None or len(text.encode()) > BYTES_MAX:
        return None
    fault = ""
    for found in (*_fenced(text, marks), *_bare(text, marks)):
        if not found.fault:
            return found
        fault = fault or found.fault
    return Written(fault=fault) if fault else None


def _fenced(text: str, marks: frozenset[str]) -> Iterator[Written]:
    """Objects in fenced blocks: JSON, or YAML, which forgives a comma too many, too."""
    for language, block in islice(_blocks(text), TRIES_MAX):
        try:
            data: object = _DECODER.decode(block)
        except (ValueError, RecursionError) as error:
            data, fault = _yaml(block)
            if fault and _mentions(block, marks):
                is_json = language == "json" or block.startswith("{")
                yield Written(fault=f"this cannot be read as JSON: {error}" if is_json else fault)
        if isinstance(data, dict) and marks & data.keys():
            yield Written(data)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of the fenced blocks that may hold an object; cut ones are none."""
    language: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, lines = line[3:].strip().lower(), []
        elif line.rstrip() == "```":
            if language in _LANGUAGES:
                yield language, "\n".join(lines).strip()
            language = None


def _bare(text: str, marks: frozenset[str]) -> Iterator[Written]:
    """JSON objects amid prose, outermost ones only."""
    at = text.find("{")
    meant = _mentions(text[at:], marks)
    for _ in range(TRIES_MAX):
        if at < 0:
            return
        try:
            data, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if meant:
                yield Written(fault=f"this cannot be read as JSON: {error}")
            end = at + 1
        else:
            if marks & data.keys():
                yield Written(data)
        at = text.find("{", end)


def _mentions(text: str, marks: frozenset[str]) -> bool:
    """Whether a text that cannot be read was meant to be such an object."""
    words = "|".join(sorted(marks))
    return re.search(rf"^({words})\s*:|[\"']({words})[\"']\s*:", text, re.MULTILINE) is not None


def _yaml(text: str) -> tuple[object, str]:
    """The data of a YAML text, and what is wrong with it."""
    try:
        return load_document(text, "the block").data, ""
    except PlanError as error:
        return None, str(error)


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's pairs; a key that stands twice would hide work."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:100]!r} stands twice")
        found[key] = value
    return found


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_no_number)
