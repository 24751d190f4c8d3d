"""Whether an agent goes round in circles: the same call with the same result, again and again.

Calls are compared by tool and canonical arguments (descriptions for people left out), results
without durations and addresses. A failing call whose numbers drift (depth 2, 3, 4, ...) with a
result that is otherwise the same counts as one call. What changes is no repeat: waiting for a
growing log is fine. A call that writes, succeeds and was never seen so before is progress, and
everything starts anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import JsonValue

NUDGE_AT = 3
STOP_AT = 5

_PASSING = re.compile(r"\b\d+\.\d+ ?(?:s|ms|sec|seconds)\b|\b0x[0-9a-f]+\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_WORDS_FOR_PEOPLE = ("description", "activeForm")


@dataclass(slots=True)
class Repeats:
    """Counts of one conversation."""

    _counts: dict[bytes, int] = field(default_factory=dict)
    """By digest of a call and its result, which may be long."""
    _done: set[bytes] = field(default_factory=set)
    """Writing calls that succeeded, with their results."""
    _this_turn: set[bytes] = field(default_factory=set)

    def new_turn(self) -> None:
        """The model has seen everything so far: from here on, repeats are its own choice."""
        self._this_turn.clear()

    def count(
        self, name: str, args: Mapping[str, JsonValue], result: str, *, failed: bool, writes: bool
    ) -> int:
        """How many turns this call had this result, or failed the same way, this one included."""
        call = f"{name} {_canonical(args)}"
        result = _PASSING.sub("~", result)
        key = _digest(call, result)
        if writes and not failed and key not in self._done:
            self._done.add(key)
            self._counts.clear()
            self._this_turn.clear()
        keys = [key]
        if failed:
            keys.append(_digest(_NUMBER.sub("#", call), _NUMBER.sub("#", result)))
        return max(self._add(key) for key in keys)

    def _add(self, key: bytes) -> int:
        if key not in self._this_turn:
            self._this_turn.add(key)
            self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key]


def nudge(times: int) -> str:
    """What is added to a result that came `times` times."""
    return (
        f"[This is the {times}th time that this call ends like this. Doing it again will not"
        f" change that, and after {STOP_AT} times you are stopped. Read the result, then do"
        " something else, or hand in what you have and say what is missing.]"
    ).replace("3th", "3rd")


def _digest(call: str, result: str) -> bytes:
    return sha256(f"{call}\0{result}".encode(errors="replace")).digest()


def _canonical(args: Mapping[str, JsonValue]) -> str:
    return json.dumps(_without_words(dict(args)), sort_keys=True, ensure_ascii=False)


def _without_words(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {
            key: _without_words(item) for key, item in value.items() if key not in _WORDS_FOR_PEOPLE
        }
    return [_without_words(item) for item in value] if isinstance(value, list) else value
