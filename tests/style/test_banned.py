"""Calls that lead to the faults this project exists to avoid, found before they run."""

from __future__ import annotations

import ast

import pytest

from tests.style.banned import problems_of
from tests.style.source import Module, modules, report


def found(path: str, text: str) -> list[str]:
    return list(problems_of(Module(path, text, ast.parse(text))))


def test_no_banned_call() -> None:
    problems = [problem for module in modules() for problem in problems_of(module)]
    assert not problems, report(problems, "Banned, with what to use instead:")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tests/test_x.py", "time.sleep(1)"),
        ("orchestrator/cli/main.py", "subprocess.run(['git'])"),
        ("orchestrator/cli/main.py", "from subprocess import Popen"),
        ("tests/test_x.py", "anyio.run_process('true')"),
        ("orchestrator/workspace/hub.py", "git.Repo('.')"),
        ("orchestrator/workspace/hub.py", "from git import Repo"),
        ("orchestrator/workspace/hub.py", "repo.index.IndexFile()"),
        ("orchestrator/roles/files.py", "yaml.safe_load(text)"),
        ("orchestrator/engine/run.py", "shutil.rmtree(path)"),
        ("orchestrator/core/machine.py", "time.time()"),
        ("tests/test_x.py", "from unittest import mock"),
        ("tests/test_x.py", "import unittest.mock"),
        ("tests/test_x.py", "monkeypatch.setattr(a, 'b', 1)"),
        ("tests/test_x.py", "open('f')"),
        ("tests/test_x.py", "open('f', mode='w')"),
        ("tests/test_x.py", "path.open('w')"),
        ("tests/test_x.py", "path.read_text()"),
        ("tests/test_x.py", "path.write_text('x')"),
        ("tests/test_x.py", "pytest.skip()"),
        ("tests/test_x.py", "@pytest.mark.skip\ndef test_a(): pass"),
        ("tests/test_x.py", "@pytest.mark.skipif(True)\ndef test_a(): pass"),
    ],
)
def test_a_banned_line_is_caught(path: str, line: str) -> None:
    assert found(path, line)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tests/test_x.py", "subprocess.run(['git'])"),
        ("orchestrator/workspace/process.py", "subprocess.Popen(['git'])"),
        ("orchestrator/documents.py", "yaml.safe_load(text)"),
        ("tests/test_x.py", "monkeypatch.setenv('A', 'b')"),
        ("tests/test_x.py", "open('f', 'rb')"),
        ("tests/test_x.py", "open('f', encoding='utf-8')"),
        ("tests/test_x.py", "path.open('rb')"),
        ("tests/test_x.py", "os.open('f', os.O_RDONLY)"),
        ("tests/test_x.py", "path.write_text('x', 'utf-8')"),
        ("tests/test_x.py", "path.write_text('x', encoding='utf-8')"),
        ("tests/test_x.py", "pytest.skip('no overlayfs')"),
        ("tests/test_x.py", "@pytest.mark.skipif(True, reason='why')\ndef test_a(): pass"),
    ],
)
def test_a_proper_line_is_left_alone(path: str, line: str) -> None:
    assert not found(path, line)
