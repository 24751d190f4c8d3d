"""Whether a file still parses, by the kind its name says: Python, JSON, TOML, YAML.

A check of form only: nothing in the file is run, imported or built. YAML is read as events, so
tags and aliases cost nothing. Files too large to be written by hand are not looked at.
"""

from __future__ import annotations

import ast
import json
import re
import signal
import threading
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import yaml

BYTES_MAX = 512 * 1024
_LINE_SHOWN = 200
_TOML_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where there is one: ten times as fast, and its depth is bounded."""
_filters = threading.Lock()
"""`warnings.catch_warnings` changes the whole process."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Where and why a file does not parse; `line` counts from 1, 0 where nobody knows."""

    language: str
    line: int
    message: str

    def shown(self, data: bytes) -> str:
        """A sentence with the offending line of `data`."""
        lines = data.decode("utf-8", errors="replace").split("\n")
        place = f"line {self.line}: " if self.line else ""
        quote = ""
        if 0 < self.line <= len(lines):
            quote = f"\n{self.line:>6}\t{lines[self.line - 1].rstrip()[:_LINE_SHOWN]}"
        return f"{self.language}, {place}{self.message}{quote}"


def is_parsed(path: str, data: bytes) -> bool:
    """Whether `data` is of a kind and a size that is looked at."""
    return _kind(path) in _PARSERS and len(data) <= BYTES_MAX


def problem_within(path: str, data: bytes, seconds: int) -> Problem | None:
    """`problem_in`, to be called in a process of its own, which is ended after `seconds`.

    Parsers hold the interpreter while they work, and half a megabyte that was written to that end
    keeps some of them busy for minutes.
    """
    signal.alarm(seconds)
    try:
        return problem_in(path, data)
    finally:
        signal.alarm(0)


def _kind(path: str) -> str:
    return path.rpartition(".")[2].lower()


def problem_in(path: str, data: bytes) -> Problem | None:
    """What keeps `data` from parsing; None where it parses, or is not looked at."""
    if not is_parsed(path, data):
        return None
    language, check = _PARSERS[_kind(path)]
    try:
        check(data)
    except SyntaxError as error:
        return Problem(language, error.lineno or 0, error.msg)
    except json.JSONDecodeError as error:
        return Problem(language, error.lineno, error.msg)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        return Problem(language, int(place[1]) if place else 0, str(error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return Problem(language, mark.line + 1 if mark else 0, error.problem or "cannot be read")
    except (ValueError, yaml.YAMLError) as error:
        return Problem(language, 0, str(error).split("\n", maxsplit=1)[0])
    except (RecursionError, MemoryError):
        return Problem(language, 0, "nested too deeply")
    return None


def _python(data: bytes) -> None:
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(data)


def _json(data: bytes) -> None:
    json.loads(data.decode("utf-8-sig"))


def _toml(data: bytes) -> None:
    tomllib.loads(data.decode("utf-8"))


def _yaml(data: bytes) -> None:
    for _ in yaml.parse(data, Loader=_YAML_LOADER):
        pass


_PARSERS: dict[str, tuple[str, Callable[[bytes], None]]] = {
    "py": ("Python", _python),
    "pyi": ("Python", _python),
    "json": ("JSON", _json),
    "toml": ("TOML", _toml),
    "yaml": ("YAML", _yaml),
    "yml": ("YAML", _yaml),
}
