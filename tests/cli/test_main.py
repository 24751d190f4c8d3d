"""The command line itself: which command is meant, how errors end, what is loaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.core.events import PlanRejected
from tests.cli.program import command, environment, orchestrate, orchestrate_each, record
from tests.observers.story import RUN, beginning, whole
from tests.support.repositories import make_repository

HEAVY = ("anthropic", "httpx2", "git", "networkx", "pydantic", "yaml", "anyio", "rich")

COMMANDS = (
    *("run", "plan", "check", "demo", "resume", "status", "list", "logs", "diff", "report"),
    *("watch", "cost", "land", "export", "roles", "schema", "init", "doctor", "completion"),
    "version",
)

NOT_YET = ("tell", "pause", "cancel", "retry", "salvage", "gc", "serve", "worker")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})


def test_help_loads_nothing_heavy(tmp_path: Path, home: Path) -> None:
    probe = (
        "import sys, orchestrator.cli.main as m\n"
        "sys.argv = ['orchestrate', '--help']\n"
        "try: m.main()\n"
        "finally: sys.stderr.write(' '.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0
    assert {name.partition(".")[0] for name in done.stderr.split()}.isdisjoint(HEAVY)
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE)


def test_every_command_of_the_help_can_be_loaded(tmp_path: Path, home: Path) -> None:
    names = list(COMMANDS)
    results = orchestrate_each(*([name, "--help"] for name in names), cwd=tmp_path, home=home)
    for name, result in zip(names, results, strict=True):
        assert (result.code, result.err) == (0, ""), name
        assert result.out.startswith(f"Usage: orchestrate {name}")


def test_version_is_on_stdout(tmp_path: Path, home: Path) -> None:
    for result in orchestrate_each(["version"], ["--version"], cwd=tmp_path, home=home):
        assert (result.code, result.out) == (0, f"orchestrate {__version__}\n")


def test_no_words_is_an_error_that_names_the_help(tmp_path: Path, home: Path) -> None:
    result = orchestrate(cwd=tmp_path, home=home)
    assert (result.code, result.out) == (2, "")
    assert result.err == ("orchestrate: a command or a PLAN is needed\nsee `orchestrate --help`\n")


def test_commands_to_come_are_refused(tmp_path: Path, home: Path) -> None:
    results = orchestrate_each(*([name] for name in NOT_YET), cwd=tmp_path, home=home)
    for name, result in zip(NOT_YET, results, strict=True):
        assert (result.code, result.out) == (2, "")
        assert f"the command '{name}' is not supported yet" in result.err


def test_options_to_come_are_refused(tmp_path: Path, home: Path) -> None:
    lines = [
        ["p.yaml", "--executor", "temporal"],
        ["p.yaml", "--fresh"],
        ["p.yaml", "--fresh", "task"],
        ["p.yaml", "--trust-plan"],
        ["p.yaml", "--push", "origin"],
        ["p.yaml", "--pr"],
        ["resume", "--wait"],
    ]
    for line, result in zip(lines, orchestrate_each(*lines, cwd=tmp_path, home=home), strict=True):
        assert (result.code, result.out) == (2, ""), line
        assert "not supported yet" in result.err.splitlines()[0], line


def test_a_near_miss_is_answered_with_what_was_meant(tmp_path: Path, home: Path) -> None:
    meant = {"statu": "status", "reprot": "report", "kitebas": "kitebase", "udpate": None}
    results = orchestrate_each(*([word] for word in meant), cwd=tmp_path, home=home)
    for name, result in zip(meant.values(), results, strict=True):
        assert (result.code, result.out) == (2, "")
        assert (f"did you mean {name}" in result.err) == (name is not None)


def test_a_plan_that_is_not_there_is_named(tmp_path: Path, home: Path) -> None:
    lines = [["nosuch.yaml"], ["run", "nosuch"], ["check", "./nosuch"]]
    for line, result in zip(lines, orchestrate_each(*lines, cwd=tmp_path, home=home), strict=True):
        assert (result.code, result.out) == (2, "")
        assert re.fullmatch(
            rf"{re.escape(line[-1])}: there is no such plan file; bundled plans: .*kitebase.*\n",
            result.err,
        )


def test_P11_wrong_values_are_one_line_and_a_hint(tmp_path: Path, home: Path) -> None:
    lines = [
        ["p.yaml", "--workers", "0"],
        ["p.yaml", "--workers", "many"],
        ["p.yaml", "--budget-usd", "nan"],
        ["p.yaml", "--budget-usd", "-1"],
        ["p.yaml", "--budget-usd", "inf"],
        ["p.yaml", "--sandbox", "maybe"],
        ["p.yaml", "--nosuch"],
        ["--workers", "0", "p.yaml"],
    ]
    for line, result in zip(lines, orchestrate_each(*lines, cwd=tmp_path, home=home), strict=True):
        first, second = result.err.splitlines()
        assert (result.code, result.out) == (2, "")
        assert first.startswith("orchestrate run: ")
        assert next(word for word in line if word.startswith("--")) in first
        assert second == "see `orchestrate run --help`"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_T07_a_reader_that_leaves_ends_it_quietly(
    home: Path, repository: Path, unbuffered: str
) -> None:
    problems = tuple("x" * 500 for _ in range(1000))
    record(home, repository / ".git", [beginning()[0], PlanRejected(by="p", problems=problems)])
    shell = " ".join(f"'{word}'" for word in command("report"))
    done = subprocess.run(
        ["bash", "-c", f"{shell} | head -1; echo ${{PIPESTATUS[0]}}"],
        cwd=repository,
        env=environment(home, PYTHONUNBUFFERED=unbuffered),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"# Run {RUN}: running", "141"]


def test_a_full_stdout_is_disk_full(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("report"),
            cwd=repository,
            env=environment(home),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
        )
    assert done.returncode == 6
    assert done.stderr.startswith("the disk is full")


def test_closed_streams_do_no_harm(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    shell = " ".join(f"'{word}'" for word in command("status"))
    done = subprocess.run(
        ["bash", "-c", f"{shell} <&- >&- 2>&-"], cwd=repository, env=environment(home), timeout=50
    )
    assert done.returncode == 0


def test_T08_a_narrow_dumb_terminal_gets_plain_text(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    lines = (["--help"], ["run", "--help"], ["status"], ["list"], ["report"], ["check", "kitebase"])
    narrow = {"COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1"}
    for result in orchestrate_each(*lines, cwd=repository, home=home, **narrow):
        assert result.code == 0, result.err
        assert "\x1b" not in result.out + result.err


def test_output_survives_a_locale_without_unicode(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    result = orchestrate(
        "status",
        cwd=repository,
        home=home,
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
    )
    assert result.code == 0, result.err


def test_a_bug_leaves_a_report_without_secrets(home: Path, repository: Path) -> None:
    folder = record(home, repository / ".git", whole())
    secret = "sk-ant-api03-abcdefghijklmnop"
    probe = (
        "import sys; from orchestrator.cli.errors import guarded\n"
        f"def broken(): raise RuntimeError('no {secret} and no ' + 'hunter2' * 2)\n"
        "sys.exit(guarded(broken))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, "status"],
        env=environment(home, ANTHROPIC_API_KEY=secret, MY_PASSWORD="hunter2hunter2"),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    path = Path(done.stderr.rsplit(" ", 1)[1].strip())
    report = path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o077 == 0
    assert "RuntimeError: no [redacted] and no [redacted]" in report
    assert "Traceback" in report
    assert "command status" in report
    for text in (report, done.stderr):
        assert secret not in text
        assert "hunter2" not in text
        assert "PATH=" not in text
    assert folder.root.is_dir()


def test_expected_errors_in_a_group_are_lines_too(home: Path) -> None:
    probe = (
        "import sys; from orchestrator.cli.errors import guarded\n"
        "from orchestrator.errors import DiskFullError, LockedError\n"
        "def broken(): raise ExceptionGroup('g', [DiskFullError('full\\x1b[2J'), "
        "ExceptionGroup('h', [LockedError('locked')])])\n"
        "sys.exit(guarded(broken))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (6, "full\\x1b[2J\nlocked\n")


def test_ctrl_c_is_130(home: Path) -> None:
    probe = (
        "import os, signal, sys; from orchestrator.cli.errors import guarded\n"
        "sys.exit(guarded(lambda: os.kill(os.getpid(), signal.SIGINT)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_T04_no_stdin_is_needed(home: Path, repository: Path) -> None:
    record(home, repository / ".git", whole())
    shell = " ".join(f"'{word}'" for word in command("status", "--json"))
    done = subprocess.run(
        ["bash", "-c", f"{shell} <&-"],
        cwd=repository,
        env=environment(home),
        capture_output=True,
        timeout=50,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["run"] == RUN


def test_ctrl_c_during_the_imports_is_one_line(home: Path) -> None:
    program = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "orchestrator.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from orchestrator.cli.entry import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(home),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_python_m_imports_nothing_from_the_working_folder(tmp_path: Path, home: Path) -> None:
    for name in ("click", "pydantic", "yaml", "json", "difflib", "anyio"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken in')\n", encoding="utf-8")
    for words in (["version"], ["list"], ["check", "kitebase"]):
        result = orchestrate(*words, cwd=tmp_path, home=home)
        assert (result.code, "taken in" in result.err) == (0, False), words
