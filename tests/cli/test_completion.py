"""`completion`: what real shells get when somebody presses Tab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.program import environment, orchestrate, orchestrate_each
from tests.support.repositories import fingerprint

RUN = "small-20261130-1240-e725"
OTHER = "other-20261129-0900-0001"

SHELLS = ("bash", "zsh", "fish")

ASK = """
source "$1"; shift
words=$(complete -p orchestrate)
[[ $words == *"-F _orchestrate_completion orchestrate" ]] || exit 9
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
    _orchestrate_completion orchestrate
    printf '%s\\n' "${COMPREPLY[@]}" ---
}
while IFS= read -r line; do
    IFS='|' read -ra typed <<< "$line|"
    [[ $line == *'|' ]] && typed+=("")
    ask "${typed[@]}"
done
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder, with the program on PATH beside it."""
    (tmp_path / "work").mkdir()
    program = tmp_path / "bin" / "orchestrate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path / "work"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the three scripts, each named after its shell."""
    place = tmp_path_factory.mktemp("scripts")
    lines = [["completion", shell] for shell in SHELLS]
    results = orchestrate_each(*lines, cwd=place, home=place / "home")
    for shell, result in zip(SHELLS, results, strict=True):
        assert (result.code, result.err) == (0, "")
        (place / shell).write_text(result.out, encoding="utf-8")
    return place


def offered(scripts: Path, folder: Path, home: Path, *lines: Sequence[str]) -> list[list[str]]:
    """What bash offers for the last word of each line."""
    there = environment(home)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(scripts / "bash")],
        cwd=folder,
        env={**there, "PATH": f"{folder.parent / 'bin'}:{there['PATH']}"},
        input="".join("|".join(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = done.stdout.split("---\n")[:-1]
    assert len(answers) == len(lines)
    return [[word for word in answer.split("\n") if word] for answer in answers]


def test_commands_plans_and_options_in_bash(scripts: Path, folder: Path, home: Path) -> None:
    (folder / "mine.yaml").write_text("tasks: {}\n", encoding="utf-8")
    (folder / "odd $(touch x).yaml").write_text("tasks: {}\n", encoding="utf-8")
    first, status, kitebase, mine, shells = offered(
        scripts,
        folder,
        home,
        ["orchestrate", ""],
        ["orchestrate", "stat"],
        ["orchestrate", "kite"],
        ["orchestrate", "check", "mi"],
        ["orchestrate", "completion", ""],
    )
    assert {"run", "check", "status", "doctor", "kitebase", "explore", "mine.yaml"} <= set(first)
    assert not any("odd" in word or "touch" in word for word in first)
    assert status == ["status"]
    assert kitebase == ["kitebase"]
    assert mine == ["mine.yaml"]
    assert shells == ["bash", "zsh", "fish"]


def test_options_and_their_values_in_bash(scripts: Path, folder: Path, home: Path) -> None:
    short, long, values = offered(
        scripts,
        folder,
        home,
        ["orchestrate", "--work"],
        ["orchestrate", "check", "--scr"],
        ["orchestrate", "kitebase", "--sandbox", ""],
    )
    assert short == ["--workers"]
    assert long == ["--scripted"]
    assert values == ["auto", "required", "off"]


def test_runs_and_their_tasks_in_bash(scripts: Path, folder: Path, home: Path) -> None:
    for name, run in (("kitebase-0123456789ab", RUN), ("other-ba9876543210", OTHER)):
        transcripts = home / name / "runs" / run / "transcripts"
        transcripts.mkdir(parents=True)
        (transcripts / "filter.1.jsonl").touch()
        (transcripts / "filter.2.jsonl").touch()
        (transcripts / "docs.1.jsonl").touch()
    (home / "kitebase-0123456789ab" / "runs" / "$(id)").mkdir()
    before = fingerprint(home)
    runs, one, tasks = offered(
        scripts,
        folder,
        home,
        ["orchestrate", "status", ""],
        ["orchestrate", "report", "sm"],
        ["orchestrate", "logs", RUN, ""],
    )
    assert set(runs) == {RUN, OTHER}
    assert one == [RUN]
    assert tasks == ["docs", "filter"]
    assert fingerprint(home) == before


def test_what_cannot_be_completed_is_silence(scripts: Path, folder: Path, home: Path) -> None:
    lines: list[list[str]] = [
        ["orchestrate", "nosuch", ""],
        ["orchestrate", "status", "zzz"],
    ]
    assert offered(scripts, folder, home, *lines) == [[], []]
    # An odd question is answered with nothing, too: the shell would show whatever was said.
    for question in ("bash_complete", "nosuch_complete"):
        result = orchestrate(cwd=folder, home=home, _ORCHESTRATE_COMPLETE=question)
        assert (result.code, result.out, result.err) == (1, "", "")
    assert not home.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_name_the_program(shell: str, scripts: Path) -> None:
    text = (scripts / shell).read_text(encoding="utf-8")
    assert "_ORCHESTRATE_COMPLETE" in text
    assert "orchestrate" in text.replace("_orchestrate", "").replace("_ORCHESTRATE", "")
    assert "python" not in text


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_are_read_by_their_shells(shell: str, scripts: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [program, "-n", str(scripts / shell)], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_answers_for_other_shells(shell: str, folder: Path, home: Path) -> None:
    result = orchestrate(
        cwd=folder,
        home=home,
        _ORCHESTRATE_COMPLETE=f"{shell}_complete",
        COMP_WORDS="orchestrate stat",
        COMP_CWORD="1" if shell == "zsh" else "stat",
    )
    assert (result.code, result.err) == (0, "")
    assert (
        result.out.split()
        == {
            "zsh": ["plain", "status", "What", "each", "task", "of", "a", "run", "did."],
            "fish": ["plain,status", "What", "each", "task", "of", "a", "run", "did."],
        }[shell]
    )


def test_other_shells_are_refused_by_name(folder: Path, home: Path) -> None:
    (result,) = orchestrate_each(["completion", "tcsh"], cwd=folder, home=home)
    assert (result.code, result.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in result.err
