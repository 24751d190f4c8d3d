"""What the README shows is what the program prints: the examples are run and compared.

Times, ids and amounts differ from run to run and are compared by their shape alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli import main

README = Path(__file__).parents[2] / "README.md"

_VARIABLE = (
    (re.compile(r"\b[a-z]+-\d{8}-\d{4}-[0-9a-f]{4}\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "COMMIT"),
    (re.compile(r"\b\d+(\.\d+)?s\b"), "TIME"),
    (re.compile(r"\$\d+\.\d+"), "USD"),
    (re.compile(r"\b\d{1,3}(,\d{3})+\b|\b\d{4,}\b"), "COUNT"),
    (re.compile(r" +"), " "),
)


def shape(line: str) -> str:
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    return line.strip()


def blocks(language: str) -> list[str]:
    """The README's fenced blocks of a language, without their fences."""
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def console(command: str) -> list[str]:
    """The output that the README shows for a command."""
    (block,) = [text for text in blocks("console") if text.startswith(f"$ {command}\n")]
    return block.splitlines()[1:]


@dataclass(frozen=True)
class Ran:
    out: list[str]
    err: list[str]


def orchestrate(folder: Path, *args: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *args],
        cwd=folder,
        env={**os.environ, "ORCHESTRATE_HOME": str(folder / "state"), "TMPDIR": str(folder)},
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(done.stdout.splitlines(), done.stderr.splitlines())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return orchestrate(tmp_path_factory.mktemp("demo"), "demo")


def test_the_first_example_prints_what_the_readme_shows(demo: Ran) -> None:
    assert [shape(line) for line in demo.out] == [
        shape(line) for line in console("orchestrate demo")
    ]


def test_the_moment_it_is_about_comes_in_that_order(demo: Ran) -> None:
    (shown,) = blocks("text")
    said = iter([shape(line) for line in demo.err])
    for line in shown.splitlines():
        wanted = shape(line)
        assert any(wanted in heard for heard in said), f"not said, or not in this order: {line}"


def test_the_plan_of_the_readme_checks_as_shown(tmp_path: Path) -> None:
    (plan,) = blocks("yaml")
    (tmp_path / "plan.yaml").write_text(plan, encoding="utf-8")
    checked = orchestrate(tmp_path, "check", "plan.yaml")
    assert checked.out == console("orchestrate check plan.yaml")
    assert checked.err == []


def test_links_of_the_readme_lead_somewhere() -> None:
    text = README.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert missing == []


def section(title: str) -> str:
    """A section of the README, without its title."""
    text = README.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def lines_of(title: str) -> list[list[str]]:
    """The program's command lines in a section: those of its shell blocks, and options in words."""
    text = section(title)
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    lines = [shlex.split(line, comments=True)[1:] for line in shell.splitlines() if line]
    for words in re.findall(r"`((?:orchestrate |--)[^`]+)`", re.sub(r"```.*?```", "", text)):
        line = shlex.split(" ".join(words.split()))
        lines.append(line[1:] if line[0] == "orchestrate" else ["plan.yaml", *line])
    return lines


def test_commands_for_a_real_model_are_taken_as_they_stand() -> None:
    """Each is read to its last option, and not carried out."""
    lines = lines_of("With a real model")
    assert ["land"] in lines
    assert any("--replay" in line for line in lines)
    for name, *words in lines:
        if name not in main.COMMANDS:
            name, words = "run", [name, *words]
        command = main.load(main.COMMANDS[name][0])
        with command.make_context(name, words) as ctx:
            assert ctx.args == [], words
