"""Who may import whom. The layers are a contract in pyproject.toml; here they are checked."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.style.source import ROOT, Module, modules, report

HOME_OF: dict[str, tuple[str, ...]] = {
    "anthropic": ("orchestrator/models/", "tests/"),
    "click": ("orchestrator/cli/", "tests/"),
    "git": ("orchestrator/workspace/", "tests/"),
    "gitdb": ("orchestrator/workspace/",),
    "networkx": ("orchestrator/core/", "tests/"),
    "rich": ("orchestrator/cli/", "orchestrator/observers/", "tests/"),
    "sqlite3": ("orchestrator/journal/", "tests/"),
    "yaml": (
        "orchestrator/documents.py",
        "orchestrator/planfile/write.py",
        "orchestrator/tools/parses.py",
        "tests/",
    ),
}
"""Libraries that one place of the program adapts, and who may import them."""

CORE_OUTSIDE = {"networkx", "pydantic", "pydantic_core"}
"""What the core may import beside the standard library."""

CORE_IMPURE = {
    "asyncio",
    "datetime",
    "io",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
"""Clocks, files, processes, dice: none of them in the core, where everything is a function."""


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that `module` imports."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


@pytest.mark.timeout(120)
def test_layers() -> None:
    command = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_core_imports_only_the_standard_library_pydantic_and_networkx() -> None:
    problems = []
    for module in modules():
        if not module.is_in("orchestrator/core/"):
            continue
        for line, name in imports(module):
            top = name.partition(".")[0]
            if top == "orchestrator":
                allowed = name.startswith("orchestrator.core")
            else:
                allowed = top in CORE_OUTSIDE or top in sys.stdlib_module_names - CORE_IMPURE
            if not allowed:
                problems.append(f"{module.path}:{line}: {name}")
    assert not problems, report(
        problems, "The core has no clock, no I/O, no randomness; pass the value in:"
    )


def test_each_library_is_imported_in_its_own_place_only() -> None:
    problems = []
    for module in modules():
        for line, name in imports(module):
            home = HOME_OF.get(name.partition(".")[0])
            if home is not None and not module.is_in(*home):
                problems.append(f"{module.path}:{line}: {name} belongs to {' '.join(home)}")
    assert not problems, report(problems, "Ask the adapter, not the library:")
