"""How drafts are read: other names for keys, refused keys, scalars for lists, durations.

Not what a plan means; that is `drafts`. It guarantees that a draft reports all of its problems at
once, each at the place where its author wrote it (under the author's own key), in words.

Problems travel as pydantic errors of two types: `draft` is a sentence, `draft_value` a predicate
about the value at the error's place ("must be ..."). `sentence` and `predicate` make them and say
what is in their contexts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Set
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from orchestrator.core.base import Record, Seconds, TaskId
from orchestrator.core.wording import kind_of, shown

Path = tuple[str | int, ...]

PROBLEMS_MAX = 100
"""After so many problems of one mapping or list the rest of it is not looked at."""

STARS_MAX = 2
"""Most `*` between two slashes of a pattern."""
PATTERN_STARS_MAX = 12
"""Most `*` of a pattern, those of `**` counted singly."""
PATTERN_FOLDERS_MAX = 2
"""Most `**` of a pattern that something follows: each tries every folder of a path again."""

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([smh]?)")
_UNIT_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_TASK_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def sentence(
    message: str, hint: str = "", other: Path = (), known: tuple[str, ...] = ()
) -> PydanticCustomError:
    """A problem said in full.

    `other`, unless empty, leads to a second place that belongs to it: put in place of the last
    parts of the error's path, as many as it has itself. `known` are the words that could stand in
    place of the error's last key: which of them is near is found out when the error is told,
    since a hostile file may have very many errors.
    """
    context = {"message": message, "hint": hint, "other": other, "known": known}
    if hint:
        return PydanticCustomError("draft", "{message} ({hint})", context)
    return PydanticCustomError("draft", "{message}", context)


def predicate(message: str, hint: str = "") -> PydanticCustomError:
    """A problem of one value: `message` goes on after the value's name."""
    context: dict[str, Any] = {"message": message, "hint": hint}
    if hint:
        return PydanticCustomError("draft_value", "{message} ({hint})", context)
    return PydanticCustomError("draft_value", "{message}", context)


def problem_at(path: Path, error: PydanticCustomError | str, value: object) -> InitErrorDetails:
    """A problem for `ValidationError.from_exception_data`."""
    return InitErrorDetails(type=error, loc=path, input=value)


def relocated(
    error: ValidationError, below: Path = (), written: Mapping[str, str] | None = None
) -> list[InitErrorDetails]:
    """The problems of `error`, the first ones, each `below` a place.

    `written` gives the author's names of the keys that the places begin with.
    """
    found: list[InitErrorDetails] = []
    for detail in error.errors(include_url=False)[:PROBLEMS_MAX]:
        context = detail.get("ctx", {})
        kind: PydanticCustomError | str = detail["type"]
        if kind == "draft":
            kind = sentence(**context)
        elif kind == "draft_value":
            kind = predicate(**context)
        path = detail["loc"]
        if written is not None and path:
            path = (written.get(str(path[0]), path[0]), *path[1:])
        moved = problem_at((*below, *path), kind, detail["input"])
        if isinstance(kind, str):
            moved["ctx"] = context
        found.append(moved)
    return found


class Draft(Record):
    """A record as people and models write it; a key with nothing behind it is not written."""

    noun: ClassVar[str] = "this"
    """What it is, for messages: `a task`."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of keys, each with the key it stands for."""
    conversions: ClassVar[Mapping[str, Callable[[object], object]]] = {}
    """For other names that count differently: from the value written to the key's value."""
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Keys that will have a meaning and are refused until then."""
    shorthand: ClassVar[str | None] = None
    """The key that text or a list in place of the mapping stands for."""

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, cls):
            return handler(data)
        if cls.shorthand is not None and isinstance(data, str | list | tuple):
            data = {cls.shorthand: data}
        if not isinstance(data, Mapping):
            raise sentence(f"{cls.noun} must be a mapping of keys, not {kind_of(data)}")
        written: dict[str, str] = {}
        values, problems = cls._sort_keys(data, written)
        try:
            draft = handler(values)
        except ValidationError as error:
            problems += relocated(error, written=written)
        else:
            if not problems:
                return draft
        raise ValidationError.from_exception_data(cls.__name__, problems)

    @classmethod
    def _sort_keys(
        cls, data: Mapping[Any, object], written: dict[str, str]
    ) -> tuple[dict[str, object], list[InitErrorDetails]]:
        """Values by their first name, with what is wrong about keys; fills in `written`."""
        known = {field.alias or name for name, field in cls.model_fields.items()}
        values: dict[str, object] = {}
        problems: list[InitErrorDetails] = []
        for key, value in data.items():
            name = cls.aliases.get(key, key)
            wrong = cls._wrong_key(str(key), known, written.get(name))
            if wrong is None:
                written[name] = key
                try:
                    if value is not None:
                        convert = cls.conversions.get(key)
                        values[name] = value if convert is None else convert(value)
                except PydanticCustomError as error:
                    wrong = error
            if wrong is not None:
                problems.append(problem_at((str(key),), wrong, value))
                if len(problems) >= PROBLEMS_MAX:
                    break
        return values, problems

    @classmethod
    def _wrong_key(
        cls, key: str, known: Set[str], before: str | None
    ) -> PydanticCustomError | None:
        """What is wrong with a key; `before` is another key that said the same."""
        if key in cls.unsupported:
            return sentence(f"`{key}` is not supported yet")
        if cls.aliases.get(key, key) not in known:
            message = f"unknown key `{shown(key)}` in {cls.noun}"
            return sentence(message, known=(*known, *cls.aliases))
        if before is not None:
            message = f"`{key}` says the same as `{before}`: keep one of them"
            return sentence(message, other=(before,))
        return None


def _listed(value: object) -> object:
    """One item without its list is a list of one."""
    return [value] if isinstance(value, str | Mapping | Draft) else value


def at_most(count: int) -> BeforeValidator:
    """Refuse more entries than `count` before looking at any: each could be a problem."""

    def check(value: object) -> object:
        if isinstance(value, Mapping | list | tuple) and len(value) > count:
            raise predicate(f"has more than {count} entries")
        return value

    return BeforeValidator(check)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise predicate("must not hold NUL characters")
    return text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise predicate("must be one line without control characters")
    return text


def _no_flag(value: object) -> object:
    """`true` is no number, though Python says so."""
    if isinstance(value, bool):
        raise predicate("must be a number, not true or false")
    return value


def _task_id(value: object) -> object:
    if isinstance(value, str) and not _TASK_ID.fullmatch(value):
        raise predicate(
            f"is no task id: `{shown(value)}`",
            "1 to 63 lower-case letters, digits and hyphens, no hyphen first",
        )
    return value


def _seconds(value: object) -> object:
    """Seconds of `90s`, `10m`, `2h` or a number."""
    if not isinstance(value, str):
        return _no_flag(value)
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise predicate("is no duration", "write 90s, 10m, 2h or a number of seconds")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def _command(value: object) -> object:
    """Text or a list of texts, said once rather than once for each of the two."""
    parts = value if isinstance(value, list | tuple) else [value]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise predicate("must be a command", "text for bash, or a list of texts for an argv")
    if not any(str(part).strip() for part in parts[:1]):
        raise predicate("is an empty command")
    if any("\0" in str(part) for part in parts):
        raise predicate("must not hold NUL characters")
    return value


def _scalar(value: object) -> object:
    """Text, a number or true/false; said once rather than once for each type."""
    finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, str | int | float) or not finite:
        raise predicate("must be text, a number, true or false")
    return value


Listed = BeforeValidator(_listed)
"""For lists of which one item may stand alone."""
ReadDuration = BeforeValidator(_seconds)
"""For seconds that may be written with a unit."""
Number = BeforeValidator(_no_flag)
Scalar = BeforeValidator(_scalar)
Text = Annotated[str, Field(max_length=100_000), AfterValidator(_without_nul)]
"""A prompt or a goal."""
OneLine = AfterValidator(_one_line)
Word = Annotated[str, Field(min_length=1, max_length=1_000), OneLine]
"""A name, a path or a pattern; reports print it as it is."""


def _matchable(pattern: str) -> str:
    """Refuse a pattern that is none, or whose matching takes for ever.

    Each `*` multiplies the ways to try.
    """
    body = pattern.removeprefix("!")
    if not body or (len(body) - len(body.rstrip("\\"))) % 2:
        raise predicate("is no gitignore pattern", "end it with a name, `*` or `/`")
    parts = [part for part in pattern.split("/") if part != "**"]
    if any(len(re.findall(r"\*+", part)) > STARS_MAX for part in parts):
        raise predicate(f"must have at most {STARS_MAX} `*` between two slashes")
    if pattern.count("*") > PATTERN_STARS_MAX:
        raise predicate(f"must have at most {PATTERN_STARS_MAX} `*`")
    if pattern.rstrip("/*").count("**") > PATTERN_FOLDERS_MAX:
        raise predicate(f"must have at most {PATTERN_FOLDERS_MAX} `**` before its end")
    return pattern


Pattern = Annotated[Word, AfterValidator(_matchable)]
"""A gitignore pattern."""
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=1_000), at_most(1_000), Listed]
Words = Annotated[tuple[Word, ...], Field(max_length=1_000), at_most(1_000), Listed]
Id = Annotated[TaskId, BeforeValidator(_task_id)]
Ids = Annotated[tuple[Id, ...], Field(max_length=10_000), at_most(10_000), Listed]
Duration = Annotated[Seconds, ReadDuration]
"""Seconds, at most a week; `90s`, `10m`, `2h` are read."""
CommandText = Annotated[str, Field(max_length=20_000)]
CommandDraft = Annotated[
    CommandText | Annotated[tuple[CommandText, ...], Field(max_length=1_000)],
    BeforeValidator(_command),
]
Environment = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")],
        Annotated[str, Field(max_length=20_000), AfterValidator(_without_nul)],
    ],
    Field(max_length=200),
    at_most(200),
]
"""Variables by name."""
