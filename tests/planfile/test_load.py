"""Plan files: good ones, and every way in which a bad one is told where it is bad."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.core.plan import Gate
from orchestrator.core.roles import Role
from orchestrator.errors import ExitCode, PlanError
from orchestrator.planfile import load_plan

ROLES = {
    "explorer": Role(name="explorer", tools=("Read",), product="report", prompt="Look."),
    "implementer": Role(
        name="implementer", tools=("Edit", "Read"), product="change", writes=True, prompt="Do."
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str | bytes) -> Path:
    path = Path("plan.yaml")
    path.write_bytes(dedent(text).encode() if isinstance(text, str) else text)
    return path


def refused(text: str | bytes) -> list[str]:
    """The lines that a user reads."""
    with pytest.raises(PlanError) as caught:
        load_plan(write(text), ROLES)
    assert caught.value.exit_code == ExitCode.USAGE
    told = str(caught.value).split("\n")
    assert len(told) == len(caught.value.faults)
    return told


GOOD = """\
version: 1
name: tickets
gates: make test
tasks:
  look:
    role: explorer
    prompt: Where are statuses compared?
  fix:
    role: implementer
    instructions: Raise ValueError for an unknown status.
    depends_on: look
    writes: /tickets/
    retries: 0
  docs:
    role: implementer
    prompt: Document it.
    needs: [look]
    writes: [/docs/]
"""


@pytest.mark.usefixtures("folder")
def test_a_plan_file_becomes_a_complete_plan() -> None:
    path = write(GOOD)
    loaded = load_plan(path, ROLES)
    assert loaded.path == path
    assert loaded.digest == hashlib.sha256(GOOD.encode()).hexdigest()
    assert loaded.warnings == ()
    look, fix, docs, integrate = loaded.plan.tasks
    assert (look.id, look.role) == ("look", "explorer")
    assert (fix.needs, fix.writes, fix.attempts) == (("look",), ("/tickets/",), 1)
    assert docs.needs == ("look",)
    assert (integrate.id, integrate.role, integrate.needs) == ("integrate", None, ("fix", "docs"))
    assert integrate.gates == (Gate(name="make test", run="make test"),)


@pytest.mark.usefixtures("folder")
def test_a_warning_has_its_line_and_stops_nothing() -> None:
    loaded = load_plan(write(GOOD.replace("[/docs/]", "[/tickets/docs/]")), ROLES)
    (warning,) = loaded.warnings
    assert str(warning).startswith("plan.yaml:18: `fix` and `docs` may run at once")


@pytest.mark.usefixtures("folder")
def test_P02_all_needs_that_do_not_exist_are_told_with_suggestions() -> None:
    told = refused(
        """\
        tasks:
          build: {role: explorer, prompt: p}
          test:
            role: explorer
            prompt: p
            needs:
              - build
              - biuld
          ship:
            role: explorer
            prompt: p
            depends_on: tset
        """
    )
    assert told == [
        "plan.yaml:8: there is no task `biuld` (did you mean `build`?)",
        "plan.yaml:12: there is no task `tset` (did you mean `test`?)",
    ]


@pytest.mark.usefixtures("folder")
def test_P02_lines_hold_for_a_list_of_tasks_whose_needs_are_out_of_order() -> None:
    told = refused(
        """\
        tasks:
          - id: c
            role: explorer
            prompt: p
            deps: [nowhere,
                   b, a,
                   elsewhere]
          - {id: a, role: explorer, prompt: p}
          - {id: b, role: explorer, prompt: p}
        """
    )
    assert [line.split(" (")[0] for line in told] == [
        "plan.yaml:5: there is no task `nowhere`",
        "plan.yaml:7: there is no task `elsewhere`",
    ]


@pytest.mark.usefixtures("folder")
def test_P04_duplicate_ids_name_both_lines() -> None:
    assert refused("tasks:\n  x: {role: explorer}\n  y: {role: explorer}\n  x: {}\n") == [
        "plan.yaml:4: the key `x` stands twice, on lines 2 and 4 (rename or remove one)"
    ]
    assert refused(
        """\
        tasks:
          - id: x
            role: explorer
            prompt: p
          - prompt: q
            role: explorer
            id: x
        """
    ) == ["plan.yaml:7: task id `x` is used twice, on lines 2 and 7"]


@pytest.mark.usefixtures("folder")
def test_P07_a_scalar_need_is_one_need() -> None:
    loaded = load_plan(
        write(
            "tasks:\n"
            "  build: {role: explorer, prompt: p}\n"
            "  test: {role: explorer, prompt: p, depends_on: build}\n"
        ),
        ROLES,
    )
    assert loaded.plan.tasks[1].needs == ("build",)


@pytest.mark.parametrize("limit", [".nan", ".inf", "-1", "0", "1e400", "-5m", "nan", "true"])
@pytest.mark.usefixtures("folder")
def test_P11_limits_are_finite_and_positive(limit: str) -> None:
    told = refused(
        f"""\
        budget:
          usd: {limit}
        tasks:
          a:
            role: explorer
            prompt: p
            timeout: {limit}
            gates:
              - run: make
                timeout: {limit}
            budget:
              minutes: {limit}
        """
    )
    assert [line.split("` ")[0] for line in told] == [
        "plan.yaml:2: `budget.usd",
        "plan.yaml:7: `tasks.a.timeout",
        "plan.yaml:10: `tasks.a.gates[0].timeout",
        "plan.yaml:12: `tasks.a.budget.minutes",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "plan.yaml: the file is empty"),
        ("- a\n- b\n", "plan.yaml:1: a plan must be a mapping of keys, not a list"),
        ("words\n", "plan.yaml:1: a plan must be a mapping of keys, not text"),
        ("tasks: {}\n---\ntasks: {}\n", "plan.yaml:2: a second document starts here"),
        ("tasks:\n  - null\n", "plan.yaml:2: a task must be a mapping of keys, not nothing"),
        ("tasks:\n  a:\n", "plan.yaml:2: a task must be a mapping of keys, not nothing"),
        ("tasks:\n\ta: {}\n", "plan.yaml:2: there is a tab in the indentation"),
        ("name: x\n", "plan.yaml:1: `tasks` is missing"),
        ("name: x\ntasks:\n", "plan.yaml:2: `tasks` is missing"),
        ("name: x\ntasks: {}\n", "plan.yaml:2: the plan has no tasks"),
        ("tasks: 7\n", "plan.yaml:1: `tasks` must be a mapping of ids to tasks, or a list"),
        (b"tasks: \xff\n", "plan.yaml:1: is not UTF-8"),
        (b"name: x\n\0", "plan.yaml:2: has the control character U+0000"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_P12_what_is_no_plan_is_one_line(text: str | bytes, told: str) -> None:
    (line,) = refused(text)
    assert line.startswith(told)


@pytest.mark.usefixtures("folder")
def test_unknown_and_missing_roles_are_told_with_the_roles_there_are() -> None:
    told = refused(
        """\
        tasks:
          a:
            prompt: p
            role: implementor
          b:
            prompt: p
            role: wizard
          c:
            prompt: Do it.
            needs: a
        """
    )
    assert told == [
        "plan.yaml:4: there is no role `implementor` (did you mean `implementer`?)",
        "plan.yaml:7: there is no role `wizard` (there is `explorer`, `implementer`)",
        "plan.yaml:8: task `c` has a prompt and no role (add `role:`, one of `explorer`,"
        + " `implementer`)",
    ]


@pytest.mark.usefixtures("folder")
def test_faults_of_form_hide_no_others() -> None:
    told = refused(
        """\
        workers: many
        tasks:
          a: {role: explorer, prompt: p, needs: nowhere}
          b:
            promt: p
            role: explorer
          c:
            description: p
            role: wizard
          d: {role: explorer, prompt: p, network: [x]}
          e: {role: explorer, prompt: p, needs: b}
        setup: []
        """
    )
    assert [line.split(" (")[0] for line in told] == [
        "plan.yaml:1: `workers` must be a whole number",
        "plan.yaml:3: there is no task `nowhere`",
        "plan.yaml:5: unknown key `promt` in a task",
        "plan.yaml:9: there is no role `wizard`",
        "plan.yaml:10: `network` is not supported yet",
        "plan.yaml:12: `setup` is not supported yet",
    ]
    assert "plan.yaml:5: unknown key `promt` in a task (did you mean `prompt`?)" in told


@pytest.mark.usefixtures("folder")
def test_sound_settings_let_roles_be_checked_too() -> None:
    told = refused(
        """\
        tasks:
          a: {role: wizard, prompt: p}
          b: {role: explorer, promt: p}
        """
    )
    assert [line.split(" (")[0] for line in told] == [
        "plan.yaml:2: there is no role `wizard`",
        "plan.yaml:3: unknown key `promt` in a task",
    ]


@pytest.mark.usefixtures("folder")
def test_a_faulty_key_hides_no_other_of_its_task_nor_of_the_plan(folder: Path) -> None:
    told = refused("""\
        wrokers: 3
        tasks:
          a:
            role: implementor
            prompt: x
            depends_on: [b, c]
            timeout: soon
          b:
            role: 7
            prompt: y
            needs: d
        """)
    assert told.pop(4).startswith("plan.yaml:9: `tasks.b.role` must be text")
    assert [line.partition(" (")[0] for line in told] == [
        "plan.yaml:1: unknown key `wrokers` in a plan",
        "plan.yaml:4: there is no role `implementor`",
        "plan.yaml:6: there is no task `c`",
        "plan.yaml:7: `tasks.a.timeout` is no duration",
        "plan.yaml:11: there is no task `d`",
    ]


def test_a_circle_of_tasks_is_told() -> None:
    told = refused(
        """\
        tasks:
          a: {role: explorer, prompt: p, needs: b}
          b: {role: explorer, prompt: p, needs: a}
        """
    )
    assert len(told) == 1
    assert told[0].startswith("plan.yaml:")


@pytest.mark.usefixtures("folder")
def test_text_of_the_file_cannot_speak_to_the_terminal() -> None:
    told = refused(
        r"""
        tasks:
          a: {role: "\e[2J", prompt: p}
          b: {"\e]0;x\a": 1, role: explorer}
          "c\n": {}
        """
    )
    assert len(told) == 3
    assert all(line.isprintable() for line in told)


def test_what_cannot_be_read_is_told(folder: Path) -> None:
    def told(path: Path) -> str:
        with pytest.raises(PlanError) as caught:
            load_plan(path, ROLES)
        return str(caught.value)

    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    assert told(Path("nothing.yaml")) == "nothing.yaml: does not exist (check the path)"
    assert told(Path("nothing/plan.yaml")).startswith("nothing/plan.yaml: does not exist")
    assert told(folder) == f"{folder}: is a folder (give the path of a plan file)"
    assert told(Path("pipe")) == "pipe: is no regular file (give the path of a plan file)"
    assert told(Path("loop")).startswith("loop: cannot be read: ")
    write(GOOD)
    assert told(Path("plan.yaml/x")).startswith("plan.yaml/x: cannot be read: ")


def test_P14_a_large_file_is_refused(folder: Path) -> None:
    with (folder / "plan.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PlanError, match=r"plan\.yaml: is larger than 1048576 bytes"):
        load_plan(folder / "plan.yaml", ROLES)


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        aliases = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


CHILD = """
import resource, sys, time
from pathlib import Path
from orchestrator.errors import PlanError
from orchestrator.planfile import load_plan
memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    load_plan(Path(sys.argv[1]), {})
except PlanError as error:
    told = str(error).count("\\n") + 1
else:
    told = 0
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
print(told, used, time.process_time() - started)
"""


@pytest.mark.parametrize(
    ("text", "told_max"),
    [
        (bomb(), 1),
        ("tasks: " + "[" * 5000, 1),
        ("tasks: [" + "a, " * 150_000 + "]", 202),
        ("{" + ", ".join(f"k{n}: 1" for n in range(60_000)) + "}", 202),
        ("tasks: [" + "{nedes: 1}, " * 40_000 + "]", 202),
        ("a: &a {b: 1, c: 2, d: 3}\ntasks: [" + "*a, " * 40_000 + "]", 202),
    ],
    ids=["bomb", "brackets", "texts", "keys", "tasks", "aliases"],
)
def test_P14_a_hostile_plan_costs_little(folder: Path, text: str, told_max: int) -> None:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    told, kilobytes, seconds = child.stdout.split()
    assert 1 <= int(told) <= told_max
    assert int(kilobytes) < 100_000
    assert float(seconds) < 10
