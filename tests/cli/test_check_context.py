"""`check --context`: what each agent is told before its first call, measured without a model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from orchestrator.agent.transcript import read_transcript
from orchestrator.messages import TextBlock
from tests.cli.program import orchestrate, orchestrate_each
from tests.support.repositories import commit_files, fingerprint, git, make_repository

PLAN = """\
version: 1
name: small
goal: Do it
context: [docs/long.md, gone.md]
budget: {replans: 0}
defaults: {attempts: 1}
tasks:
  api: {role: implementer, prompt: Do it., writes: [/src/api/**], gates: ["touch ran"]}
  web: {role: implementer, prompt: Do it all., writes: [/web/**]}
  look: {role: explorer, prompt: Look., context: [AGENTS.md]}
gates: ["touch ran"]
"""
HEAD = ["task", "instructions", "rules", "tree", "context", "tools", "prompt", "total", "role"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "AGENTS.md": "r" * 4_000 + "\n",
        "src/api/AGENTS.md": "a" * 2_000 + "\n",
        "docs/long.md": "c" * 8_000 + "\n",
        "web/x.ts": "1\n",
        "plan.yaml": PLAN,
    }
    return make_repository(tmp_path / "target", files)


def rows(out: str) -> dict[str, dict[str, int]]:
    """Numbers by task and part."""
    table = out.partition("tokens before the first call")[2].split("\n")[1:]
    assert table[0].split() == HEAD
    found: dict[str, dict[str, int]] = {}
    for line in table[1:]:
        if line.startswith("rules files"):
            break
        task, *numbers, _ = line.split()
        found[task] = dict(zip(HEAD[1:-1], (int(n.replace(",", "")) for n in numbers), strict=True))
    return found


def test_each_part_is_about_as_long_as_its_files(home: Path, repository: Path) -> None:
    before = fingerprint(repository)
    result = orchestrate("check", "plan.yaml", "--context", cwd=repository, home=home)
    assert result.code == 0, result.err
    base = git(repository, "rev-parse", "HEAD")[:12]
    assert f"about (4 bytes each), at {base}:" in result.out
    assert "rules files: AGENTS.md, src/api/AGENTS.md\n" in result.out
    tasks = rows(result.out)
    assert list(tasks) == ["api", "web", "look"], "integrate has no agent"
    for parts in tasks.values():
        assert parts["total"] == sum(count for part, count in parts.items() if part != "total")
        assert 2_000 <= parts["context"] < 2_150, "8,000 bytes, and the marks around them"
        assert min(parts.values()) > 0
    assert 1_500 <= tasks["api"]["rules"] < 1_700, "the root's and those of src/api"
    assert 1_000 <= tasks["web"]["rules"] < 1_100, "the root's alone"
    assert tasks["web"]["prompt"] > tasks["api"]["prompt"] - 40
    assert tasks["api"]["tree"] == tasks["web"]["tree"] == tasks["look"]["tree"]
    assert fingerprint(repository) == before
    assert not home.exists()


def test_it_measures_the_base_and_not_the_checkout(home: Path, repository: Path) -> None:
    lines = [["check", "plan.yaml", "--context"], ["check", "plan.yaml", "--context"]]
    (repository / "AGENTS.md").write_text("", encoding="utf-8")
    first, again = orchestrate_each(*lines, cwd=repository, home=home)
    assert first.out == again.out
    assert rows(first.out)["web"]["rules"] > 1_000
    commit_files(repository, {})
    (smaller,) = orchestrate_each(lines[0], cwd=repository, home=home)
    assert rows(smaller.out)["web"]["rules"] < 100


def test_what_a_run_sends_is_what_was_measured(
    home: Path, repository: Path, tmp_path: Path
) -> None:
    """The task's own text in a real run, by its transcript; the rest of the prefix is a digest."""
    script = tmp_path / "script.json"
    script.write_text('{"tasks": {"*": [{"say": "no"}, {"say": "no"}]}}', encoding="utf-8")
    measured = orchestrate("check", "plan.yaml", "--context", cwd=repository, home=home)
    run = ("plan.yaml", "--scripted", str(script), "--sandbox", "off", "--json")
    assert orchestrate(*run, cwd=repository, home=home).code == 1
    for task, parts in rows(measured.out).items():
        (path,) = home.glob(f"*/runs/*/transcripts/{task}.1.jsonl")
        *_, own = read_transcript(path).entries[0].message.blocks
        assert isinstance(own, TextBlock)
        assert parts["prompt"] == math.ceil(len(own.text.encode()) / 4)


def test_missing_context_is_a_warning_with_and_without_the_table(
    home: Path, repository: Path, tmp_path: Path
) -> None:
    lines = [["check", "plan.yaml"], ["check", "plan.yaml", "--context"]]
    base = git(repository, "rev-parse", "HEAD")[:12]
    for result in orchestrate_each(*lines, cwd=repository, home=home):
        assert result.code == 0
        assert result.err.count("warning: context: ") == 1
        assert f"warning: context: gone.md is no file of {base}" in result.err
    (tmp_path / "plan.yaml").write_text(PLAN, encoding="utf-8")
    outside, measured = orchestrate_each(*lines, cwd=tmp_path, home=home)
    assert (outside.code, outside.err) == (0, "")
    assert (measured.code, measured.out) == (3, "")
    assert "not in a git repository" in measured.err
    assert len(measured.err.splitlines()) == 1


def test_a_base_that_is_not_there_is_one_line(home: Path, repository: Path) -> None:
    plan = (repository / "plan.yaml").read_text(encoding="utf-8")
    (repository / "plan.yaml").write_text(f"base: nowhere\n{plan}", encoding="utf-8")
    lines = [["check", "plan.yaml"], ["check", "plan.yaml", "--context"]]
    plain, measured = orchestrate_each(*lines, cwd=repository, home=home)
    assert plain.code == 0
    assert "context files were not looked up: " in plain.err
    assert (measured.code, measured.out) == (3, "")
    assert "no commit is called 'nowhere'" in measured.err


def test_Z11_hostile_names_of_rules_files_are_shown_escaped(home: Path, repository: Path) -> None:
    commit_files(repository, {"\x1b[2J/AGENTS.md": "x\n"})
    (result,) = orchestrate_each(["check", "plan.yaml", "--context"], cwd=repository, home=home)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "\\x1b[2J" in result.out
