"""The project's files as the style tests see them: which there are, parsed once.

Needs no git, so that the tests also run from an unpacked source distribution.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FOLDERS = (".ci", "bench", "docs", "examples", "orchestrator", "plans", "roles", "tests")
_GENERATED = {"__pycache__", "build", "dist"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of the project."""

    path: str
    """Relative to the root, `/` between parts."""
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """How long it is."""
        return len(self.text.splitlines())

    def is_in(self, *prefixes: str) -> bool:
        """Whether its path is one of `prefixes`, or inside one that ends with a slash."""
        return any(
            self.path.startswith(prefix) if prefix.endswith("/") else self.path == prefix
            for prefix in prefixes
        )

    def functions(self) -> Iterator[FunctionNode]:
        """All functions and methods, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                yield node


@cache
def text_files() -> dict[str, str]:
    """Path relative to the root, and content, of every text file of the project."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in _FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    found: dict[str, str] = {}
    for path in sorted(paths):
        relative = path.relative_to(ROOT)
        if _GENERATED.isdisjoint(relative.parts):
            try:
                found[relative.as_posix()] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the program and of its tests; the sample repository is neither."""
    return tuple(
        Module(path, text, ast.parse(text, filename=path))
        for path, text in text_files().items()
        if path.endswith(".py") and path.startswith(("orchestrator/", "tests/"))
    )


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, an empty string for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def report(problems: list[str], rule: str) -> str:
    """The text of a failed style test: the rule, then one problem a line."""
    return f"{rule}\n  " + "\n  ".join(problems)
