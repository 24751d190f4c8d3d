"""What is wrong with files, repositories and machines: said in lines with places, nothing is run.

Plans that no YAML reader or graph check lets through are tried in `tests/planfile` and
`tests/cli`; here it is the whole program, on a repository that must stay untouched.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Result, command, environment, orchestrate_each
from tests.e2e.support import (
    Place,
    bash,
    change,
    changes,
    make_place,
    refs,
    report,
    snapshot,
    turns,
    write,
    writer,
)
from tests.support.repositories import git, make_repository, write_files

pytestmark = pytest.mark.timeout(180)

SOUND = {
    "plan.yaml": "tasks:\n  look: {role: explorer, prompt: look}\n",
    "script.yaml": "tasks:\n  look:\n    - calls: [{SubmitReport: {summary: seen}}]\n",
}
RUN = ("run", "../plan.yaml", "--scripted", "../script.yaml")

ROLE = (
    "---\nname: {name}\ndescription: d\ntools: {tools}\n"
    "orchestrate: {{product: report}}\n---\nDo.\n"
)

FAULTY = {
    "P02": (
        "tasks:\n  a: {role: explorer, prompt: p, needs: [bb, c]}\n  b: {role: explorer}\n",
        [r"yaml:2: .*`bb`.*did you mean `b`", r"yaml:2: .*`c`", r"prompt"],
    ),
    "P04-mapping": (
        "tasks:\n  x: {role: explorer, prompt: p}\n  x: {role: explorer, prompt: q}\n",
        [r"yaml:3: .*2"],
    ),
    "P04-list": (
        "tasks:\n  - {id: x, role: explorer, prompt: p}\n  - {id: x, role: explorer, prompt: q}\n",
        [r"yaml:3: .*2"],
    ),
    "P07": (
        "tasks:\n  build: {role: explorer, prompt: p}\n  b: {role: explorer, depends_on: biuld}\n",
        [r"yaml:3: .*`biuld`.*`build`"],
    ),
    "P11": (
        "budget: {usd: .nan, minutes: -1}\ntasks:\n  a: {timeout: 1e400, budget: {usd: .inf}}\n",
        [r"yaml:1: .*usd", r"yaml:1: .*minutes", r"yaml:3: .*timeout", r"3: .*usd"],
    ),
    "unknown-role": (
        "tasks:\n  a: {role: exploror, prompt: p}\n  b: {role: wizard, prompt: p}\n",
        [r"yaml:2: .*`exploror`.*`explorer`", r"yaml:3: .*`wizard`"],
    ),
    "unknown-key": ("tasks: {}\nnope: 1\n", [r"yaml:2: .*nope"]),
    "P12-empty": ("", [r"yaml: ?.*empty"]),
    "P12-tab": ("tasks:\n\ta: 1\n", [r"yaml:2: .*tab"]),
    "P14-deep": ("a: " + "[" * 5000, [r"yaml:1: .*nesting"]),
}
"""Plans that are wrong, and what has to be said about each."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_files(tmp_path, SOUND)
    return make_place(tmp_path, {"a.txt": "1\n"})


def refused(place: Place, *lines: tuple[str, ...], code: int = 2) -> list[Result]:
    """Run command lines that must not run anything; what each said."""
    before, at_first = snapshot(place.repository), refs(place.repository)
    results = orchestrate_each(*lines, cwd=place.repository, home=place.home)
    for line, result in zip(lines, results, strict=True):
        assert (result.code, result.out) == (code, ""), (line, result)
        assert "Traceback" not in result.err
        assert result.err.strip(), line
    assert changes(before, place.repository) == []
    assert refs(place.repository) == at_first
    assert place.runs() == []
    return results


def test_P02_P04_P07_P11_P12_P14_faulty_plans_are_refused_with_their_lines(place: Place) -> None:
    write_files(
        place.repository.parent, {f"{name}.yaml": plan for name, (plan, _) in FAULTY.items()}
    )
    runs = [("run", f"../{name}.yaml", "--scripted", "../script.yaml") for name in FAULTY]
    checks = [("check", f"../{name}.yaml") for name in FAULTY]
    results = refused(place, *runs, *checks)
    for (name, (_, told)), result in zip(FAULTY.items(), results, strict=False):
        for pattern in told:
            assert re.search(pattern, result.err), (name, pattern, result.err)
        assert all(line.startswith(f"../{name}.yaml") for line in result.err.splitlines())
    half = len(FAULTY)
    assert [one.err for one in results[:half]] == [one.err for one in results[half:]]


def test_all_faults_of_all_files_come_at_once(place: Place) -> None:
    beside, roles = place.repository.parent, place.repository / ".orchestrate" / "roles"
    write_files(
        beside,
        {
            "plan.yaml": "workers: many\ntasks:\n  a: {role: explorer, prompt: p, needs: [b]}\n",
            "script.yaml": "tasks:\n  a:\n    - says: hello\n",
            "roles/guide.md": ROLE.format(name="guide", tools="Read, Teleport"),
        },
    )
    write_files(roles, {"explorer.md": ROLE.format(name="explorer", tools="Read, Write")})
    (result,) = refused(place, (*RUN, "--roles", "../roles"))
    lines = result.err.splitlines()
    assert any(re.match(r"\.\./plan\.yaml:1: .*workers", line) for line in lines), lines
    assert any(re.match(r"\.\./script\.yaml:3: .*says", line) for line in lines), lines
    assert any(re.match(r"\.\./roles/guide\.md:4: .*Teleport", line) for line in lines), lines
    assert any(re.match(r".*roles/explorer\.md:4: adds `Write`", line) for line in lines), lines


@pytest.mark.parametrize("folder", [".orchestrate/roles", ".claude/agents"])
def test_a_repository_s_role_file_may_not_widen(place: Place, folder: str) -> None:
    tools = ROLE.format(name="explorer", tools="Read, Edit")
    write_files(place.repository, {f"{folder}/explorer.md": tools})
    (result,) = refused(place, RUN)
    assert re.search(rf"{re.escape(folder)}/explorer\.md:4: .*`Edit`.*--roles", result.err)


def test_paths_on_the_command_line_that_lead_nowhere(place: Place) -> None:
    results = refused(
        place,
        ("run", "../nosuch.yaml", "--scripted", "../script.yaml"),
        ("run", "../plan.yaml", "--scripted", "../nosuch.yaml"),
        (*RUN, "--roles", "../nosuch"),
        ("run", "../plan.yaml"),
        ("demo", "nosuch"),
        ("resume", "nosuch"),
        ("resume",),
    )
    named = ("nosuch.yaml", "nosuch.yaml", "nosuch", "API_KEY", "kitebase", "nosuch", "no run")
    for name, result in zip(named, results, strict=True):
        assert name in result.err
        assert len(result.err.splitlines()) <= 2


def test_repositories_that_cannot_be_worked_on(place: Place, tmp_path: Path) -> None:
    make_repository(tmp_path / "empty")
    clashing = make_repository(tmp_path / "clashing", {"a": "1"})
    git(clashing, "branch", "orchestrate")
    (tmp_path / "plain").mkdir()
    results = refused(
        place,
        (*RUN, "--repo", "../empty"),
        (*RUN, "--repo", "../clashing"),
        (*RUN, "--repo", "../plain"),
        (*RUN, "--repo", "../nosuch"),
        (*RUN, "--base", "nosuch"),
        (*RUN, "--base", "HEAD:a.txt"),
        code=3,
    )
    mends = ("first commit", "git branch -m", "git init", "--repo", "rev-parse", "rev-parse")
    for mend, result in zip(mends, results, strict=True):
        assert mend in result.err
        assert len(result.err.splitlines()) == 1
    assert not list(place.home.glob("*"))


def test_W12_a_base_that_looks_like_an_option_is_none(place: Place) -> None:
    refused(place, (*RUN, "--base=--exec=touch x"), code=3)
    write_files(place.repository.parent, {"plan.yaml": "base: --all\n" + SOUND["plan.yaml"]})
    (result,) = refused(place, RUN)
    assert re.search(r"plan\.yaml:1: .*base", result.err)


def test_a_state_folder_that_cannot_be_written_is_named(place: Place) -> None:
    place.home.write_text("a file", encoding="utf-8")
    result = place.run(*RUN)
    assert (result.code, result.out) == (3, "")
    assert "ORCHESTRATE_HOME" in result.err
    assert "Traceback" not in result.err
    assert place.branches() == {}


def test_T04_nothing_is_asked_when_stdin_is_closed(place: Place) -> None:
    shell = " ".join(f"'{word}'" for word in command(*RUN, "--json"))
    done = subprocess.run(
        ["bash", "-c", f"{shell} <&-"],
        cwd=place.repository,
        env=environment(place.home),
        capture_output=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "succeeded"


def test_T07_a_reader_that_leaves_does_not_end_the_run(place: Place) -> None:
    words = place.plan({"w": writer()}, {"w": turns(write("new.txt", "1\n"), change())})
    read, written = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        command("run", *words, "--json"),
        cwd=place.repository,
        env=environment(place.home),
        stdin=subprocess.DEVNULL,
        stdout=written,
        stderr=subprocess.PIPE,
    )
    os.close(written)
    err = process.communicate(timeout=50)[1].decode()
    assert "Traceback" not in err
    assert process.returncode == 141, err
    assert place.events()[-1].type == "RunFinished"
    assert set(place.branches()) == {place.id}


def test_T08_no_control_characters_reach_a_log(place: Place) -> None:
    hostile = "\x1b[31mred\x9b2J \x07 \u202e"
    words = place.plan(
        {"w": writer(), "look": {"role": "explorer", "prompt": hostile, "needs": ["w"]}},
        {
            "w": turns(
                bash("printf '\\033[31m'; echo 1 > new.txt; touch $'\\033[2J.txt'"),
                change(hostile),
                bash("rm $'\\033[2J.txt'"),
                change(hostile),
            ),
            "look": turns(bash("exit 1"), report(hostile, discoveries=[hostile])),
        },
        goal=hostile,
    )
    result = place.run(*words, COLUMNS="20", NO_COLOR="1", TERM="dumb")
    assert result.code == 0, result.err
    for text in (result.out, result.err):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_a_finished_run_s_other_commands_agree_with_git(place: Place) -> None:
    """`status`, `list`, `diff` and `report` of a run that really took place."""
    words = place.plan({"w": writer()}, {"w": turns(write("new.txt", "1\n"), change())})
    assert place.run(*words).code == 0
    status, listed, diff, told = orchestrate_each(
        ("status", "--json"),
        ("list", "--json"),
        ("diff",),
        ("report", "--format", "json"),
        cwd=place.repository,
        home=place.home,
    )
    commit = place.branches()[place.id]
    assert json.loads(status.out)["commit"] == commit
    assert json.loads(listed.out)["run"] == place.id
    assert json.loads(told.out)["branch"] == f"orchestrate/{place.id}"
    assert diff.out.strip() == git(place.repository, "diff-tree", "-p", "-r", "HEAD", commit)
