"""The reference names what the program has, and the program has what the reference names.

Names and numbers are compared, in both directions; what is said about them is for readers. The
examples are read, and run where they show a command.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import click
import pytest
from pydantic import BaseModel

from orchestrator.agent import calls as agent_calls
from orchestrator.agent import edit_check, prompt, repeats, rules
from orchestrator.attempt.commits import trailers
from orchestrator.cli import session_file
from orchestrator.cli.errors import BROKEN_PIPE
from orchestrator.cli.main import COMMANDS, NOT_YET, load
from orchestrator.cli.show import REPORTS, REPORTS_NOT_YET
from orchestrator.core import (
    drafts,
    events,
    patches,
    plan,
    products,
    proposals,
    roles,
    task_drafts,
    usage,
)
from orchestrator.core.lenient import Draft
from orchestrator.core.machine import LOST_MAX
from orchestrator.core.state import RunState, TaskState, TaskStatus
from orchestrator.data import builtin
from orchestrator.documents import BYTES_MAX, DEPTH_MAX, FAULTS_MAX, NODES_MAX
from orchestrator.errors import ExitCode, PlanError
from orchestrator.gates import evidence, runner
from orchestrator.journal import fault
from orchestrator.models.prices import price_table
from orchestrator.models.script import Turn, load_script
from orchestrator.observers.report import report_json
from orchestrator.planfile import load_plan
from orchestrator.roles import format as role_format
from orchestrator.roles import load_roles, lookup
from orchestrator.roles.lookup import Origin, RoleSource
from orchestrator.spec import AttemptSpec
from orchestrator.state_folder import HOME_VARIABLE, StateFolder
from orchestrator.tools import bash, content, glob, grep, read, text
from orchestrator.tools.definition import schema_of
from orchestrator.tools.registry import TOOLS
from orchestrator.tools.submit import submit_spec
from orchestrator.tools.todo import TodoItem
from orchestrator.workspace import seal
from orchestrator.workspace.environment import base_environment
from orchestrator.workspace.names import ARTEFACT_FOLDERS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
TEXT = REFERENCE.read_text(encoding="utf-8")

Table = dict[str, list[str]]
"""Rows by their first cell, each the cells after it."""


def section(title: str) -> str:
    """What stands below a heading, up to the next heading of any level."""
    parts = re.split(rf"^#+ {re.escape(title)}\n", TEXT, flags=re.MULTILINE)
    assert len(parts) == 2, f"no heading, or several, called {title!r}"
    return re.split(r"^#+ ", parts[1], maxsplit=1, flags=re.MULTILINE)[0]


def tables(title: str) -> list[Table]:
    """The tables of a section, their heads left out."""
    found: list[Table] = []
    for block in re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE):
        rows = [
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()
        ]
        found.append({row[0]: row[1:] for row in rows[2:]})
        assert len(found[-1]) == len(rows) - 2, f"a row stands twice in {title!r}"
    return found


def table(title: str) -> Table:
    (only,) = tables(title)
    return only


def names(cell: str) -> list[str]:
    """The names in a cell: what stands in code spans, without the values of options."""
    return [span.split()[0] for span in re.findall(r"`([^`]+)`", cell)]


def all_names(cells: Iterable[str]) -> set[str]:
    return {name for cell in cells for name in names(cell)}


def fields(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def example(name: str) -> str:
    """The YAML block whose first line is the comment `# NAME`."""
    (found,) = [block for block in blocks("yaml") if block.startswith(f"# {name}\n")]
    return found


# --- commands -------------------------------------------------------------------------------------

Shown = set[tuple[str, str]]


def parameters(command: str) -> list[click.Option]:
    loaded = load(COMMANDS[command][0])
    return [param for param in loaded.params if isinstance(param, click.Option)]


def spellings(command: str, *, hidden: bool) -> set[str]:
    return {
        name for option in parameters(command) if option.hidden == hidden for name in option.opts
    }


def test_every_command_is_described() -> None:
    assert all_names(table("Commands")) == set(COMMANDS)


def test_every_option_is_described_with_the_commands_that_have_it() -> None:
    described: Shown = {
        (option, command)
        for options, (commands, *_) in table("Options").items()
        for option in names(options)
        for command in names(commands)
    }
    there: Shown = {(name, cmd) for cmd in COMMANDS for name in spellings(cmd, hidden=False)}
    assert described == there


def refused(what: str) -> set[str]:
    return set(names(table("Not supported yet")[what][0]))


def test_what_is_refused_is_listed() -> None:
    assert refused("commands") == set(NOT_YET)
    assert refused("values of `--format`") == set(REPORTS_NOT_YET)
    assert all_names(table("Report formats")) == set(REPORTS)
    for command in COMMANDS:
        hidden = spellings(command, hidden=True) - {"--executor"}
        assert hidden == (refused(f"options of `{command}`") if hidden else set())
    assert refused("keys of a plan") == drafts.PlanDraft.unsupported
    assert {"plan", "replans", *refused("values of `approve`")} == {
        *get_args(plan.Approval),
        "landing",
    }
    assert refused("keys of a task") == task_drafts.TaskDraft.unsupported
    assert refused("keys of a gate") == task_drafts.GateDraft.unsupported


def test_the_only_executor_that_is_refused_is_listed() -> None:
    (executor,) = [option for option in parameters("run") if "--executor" in option.opts]
    assert isinstance(executor.type, click.Choice)
    assert refused("values of `--executor`") == set(executor.type.choices) - {executor.default}


@pytest.mark.parametrize(
    ("what", "role"),
    [
        ("tools of a role", "tools: [Read, {}]\norchestrate: {{product: report}}"),
        ("products of a role", "tools: Read\norchestrate: {{product: {}}}"),
    ],
)
def test_what_is_refused_in_a_role_is_listed(what: str, role: str) -> None:
    (name,) = refused(what)
    with pytest.raises(PlanError, match="not supported yet"):
        role_format.parse_role(f"---\nname: x\n{role.format(name)}\n---\nDo it.\n", "x.md")


def test_every_exit_code_is_described() -> None:
    signals = {128 + number for number in (1, 2, 15)}
    assert {int(name) for name in all_names(table("Exit codes"))} == {
        *map(int, ExitCode),
        BROKEN_PIPE,
        *signals,
    }


def test_our_own_variables_are_described() -> None:
    ours = {name for name in all_names(table("Environment variables")) if name.startswith("ORCH")}
    assert ours == {HOME_VARIABLE, fault.VARIABLE}


# --- plan, script and role files ------------------------------------------------------------------

KEY_TABLES: dict[str, type[Draft]] = {
    "Keys of a plan": drafts.PlanDraft,
    "Budget of a plan": drafts.RunBudgetDraft,
    "Prices": drafts.ModelPriceDraft,
    "Defaults": drafts.DefaultsDraft,
    "Defaults of a role": drafts.RoleDefaultsDraft,
    "Keys of a task": task_drafts.TaskDraft,
    "Budget of a task": task_drafts.TaskBudgetDraft,
    "when": task_drafts.WhenDraft,
    "Keys of a gate": task_drafts.GateDraft,
    "Keys of a turn": Turn,
}
"""Tables with the keys of one kind of mapping."""

DESCRIBED_ELSEWHERE: set[type[Draft]] = {
    drafts.PatchDraft,
    drafts.ProposalDraft,
    drafts.ProposedTaskDraft,
    drafts.Rewire,
    drafts.Amendment,
    products.PlanPatch,
    products.PlanProposal,
    role_format.FrontMatter,
    role_format.OwnKeys,
    role_format.RoleBudget,
}


@pytest.mark.parametrize("title", KEY_TABLES)
def test_keys_and_their_other_names(title: str) -> None:
    draft = KEY_TABLES[title]
    keys = {key: cells for cell, cells in table(title).items() for key in names(cell)}
    assert set(keys) == fields(draft)
    if draft is not Turn:
        also = {other: key for key, cells in keys.items() for other in names(cells[0])}
        assert also == dict(draft.aliases)


def test_every_kind_of_mapping_has_its_table() -> None:
    kinds: set[type[Draft]] = set()
    waiting = [Draft]
    while waiting:
        found = waiting.pop().__subclasses__()
        kinds.update(found)
        waiting.extend(found)
    missing = kinds - set(KEY_TABLES.values()) - DESCRIBED_ELSEWHERE
    assert [kind.noun for kind in missing if not kind.__module__.startswith("tests.")] == [
        "a script"
    ]
    assert all_names(table("Scripted model file")) == {"tasks"}


def test_keys_of_a_role_file() -> None:
    front, own = tables("Keys of a role file")
    assert all_names(front) == fields(role_format.FrontMatter)
    assert all_names(own) == fields(role_format.OwnKeys)
    (budget,) = re.findall(r"\{(.*)\}", own["`budget`"][0])
    assert all_names([budget]) == fields(role_format.RoleBudget)


def test_values_that_a_key_may_have() -> None:
    task, whole = table("Keys of a task"), table("Keys of a plan")
    assert names(task["`on_failure`"][1]) == list(get_args(plan.OnFailure))
    assert names(whole["`overlap`"][1]) == list(get_args(plan.Overlap))
    stops = Turn.model_fields["stop_reason"].annotation
    literal = next(arm for arm in get_args(stops) if arm is not type(None))
    assert set(names(table("Keys of a turn")["`stop_reason`"][0])) == set(get_args(literal))


def test_the_bundled_roles_are_as_described() -> None:
    bundled = load_roles([RoleSource(builtin("roles"), Origin.BUNDLED)])
    described = {
        names(name)[0]: (writes == "yes", set(names(tools)), names(product)[0], model)
        for name, (writes, tools, product, model) in table("Roles").items()
    }
    assert described == {
        role.name: (role.writes, set(role.tools), role.product, role.model)
        for role in bundled.values()
    }


def test_folders_of_roles_in_their_order() -> None:
    target = Path("target")
    sources = lookup.role_sources(bundled=Path("b"), target=target, option=Path("o"))
    described = [cells[0] for _, cells in sorted(table("Where roles are looked up").items())]
    in_target = [source.directory.relative_to(target).as_posix() for source in sources[1:3]]
    assert [names(cell) for cell in described[1:3]] == [[f"{folder}/"] for folder in in_target]
    assert [names(described[0]), names(described[3])] == [["--roles"], []]


def test_protected_paths_are_listed() -> None:
    listed = [line for line in section("Sealing").split("\n\n") if line.startswith("`tests/`")]
    assert names(" ".join(listed)) == list(plan.PROTECTED_DEFAULT)


def test_folders_that_are_left_out_are_listed() -> None:
    listed = set(names(section("Sealing").replace("\n", " ")))
    assert listed >= ARTEFACT_FOLDERS


# --- events and products --------------------------------------------------------------------------

SUBMITTED: tuple[roles.ProductKind, ...] = ("report", "change", "verdict", "patch", "plan")
"""Kinds of products that an agent can hand in today."""


def union_of(annotated: Any) -> list[type[BaseModel]]:
    """The members of an annotated union."""
    assert get_origin(annotated) is Annotated
    return list(get_args(get_args(annotated)[0]))


def test_every_event_with_every_field() -> None:
    described = {names(event)[0]: set(names(cells[0])) for event, cells in table("Events").items()}
    assert described == {
        model.__name__: fields(model) - {"type"} for model in union_of(events.Event)
    }


def test_what_every_event_begins_with() -> None:
    described = all_names(table("JSON lines"))
    assert described == {"type", "task", "attempt", *fields(events.StoredEvent)} - {"body"}


def test_records_inside_events() -> None:
    described = {
        name: set(names(cells[0]))
        for record, cells in table("Records inside events").items()
        for name in names(record)
    }
    task = fields(plan.Task)
    assert described == {
        "gates[]": fields(events.GateRecord),
        "usage": fields(usage.Usage),
        "limits": fields(roles.Limits),
        "settings": fields(plan.PlanSettings),
        "settings.prices{}": fields(plan.ModelPrice),
        "settings.budget": fields(plan.RunBudget),
        "settings.defaults": fields(plan.TaskDefaults),
        "settings.gates[]": fields(plan.Gate),
        "roles[]": fields(roles.Role),
        "add[]": task,
        "replace[]": task,
        "when": fields(plan.When),
    }


def test_reasons_outcomes_and_statuses() -> None:
    reasons = set(get_args(events.FailureReason))
    assert all_names(table("Failure reasons")) == reasons
    led_to = {name for name in all_names(table("What a failure leads to")) if name in reasons}
    assert led_to == reasons
    for outcome in get_args(events.GateOutcome):
        assert f"`{outcome}`" in section("Records inside events")
    pauses = get_args(events.RunPaused.model_fields["reason"].annotation)
    assert set(names(table("Events")["`RunPaused`"][1])) == {"reason", *pauses}
    statuses = set(names(table("The last line")["`tasks`"][0]))
    assert statuses == {status.value for status in TaskStatus}


def test_the_result_line_and_its_example() -> None:
    (shown,) = [json.loads(block) for block in blocks("json")]
    assert list(shown) == [names(cell)[0] for cell in table("The last line")]


def test_fields_of_the_report_as_json() -> None:
    state = RunState("run")
    state.tasks["only"] = TaskState(plan.Task(id="only", role="explorer", prompt="Look."), index=0)
    document = json.loads(report_json(state, []))
    own = set(names(table("Report formats")["`json`"][0])) - {"type", "report", "tasks"}
    assert own == set(document) - all_names(table("The last line"))
    of_tasks = section("Report formats").partition("Fields of a task in `json`:")[2]
    assert set(names(of_tasks.partition(". A `failure`")[0])) == set(document["tasks"]["only"])


def test_products_and_their_parts() -> None:
    kinds, parts = tables("Products")
    described = {
        (names(kind)[0], names(cells[0])[0]): set(names(cells[1])) for kind, cells in kinds.items()
    }
    there = [submit_spec(kind) for kind in SUBMITTED]
    assert described == {
        (kind, spec.name): set(spec.input_schema["properties"])
        for kind, spec in zip(SUBMITTED, there, strict=True)
    }
    assert {names(part)[0]: set(names(cells[0])) for part, cells in parts.items()} == {
        "claims[]": fields(products.Claim),
        "decisions[]": fields(products.Decision),
        "findings[]": fields(products.Finding),
        "add[]": {"id"},
        "rewire[]": fields(drafts.Rewire),
        "amend[]": fields(drafts.Amendment),
        "tasks[]": {"id", "needs"},
    }


# --- tools, commands, files -----------------------------------------------------------------------


def test_every_tool_with_every_argument() -> None:
    described = {names(tool)[0]: set(names(cells[0])) for tool, cells in table("Tools").items()}
    assert described == {
        name: set(schema_of(tool.arguments)["properties"]) for name, tool in TOOLS.items()
    }
    todo = table("Tools")["`TodoWrite`"][1].partition("a todo is")[2]
    assert set(names(todo)) == fields(TodoItem)


def test_variables_that_commands_find() -> None:
    places = {"HOME": "/h", "TMPDIR": "/t"}
    assert all_names(table("What commands find")) == set(base_environment(["/bin"], places))


def test_trailers_of_commits() -> None:
    spec = AttemptSpec(
        run="run",
        task=plan.Task(id="only"),
        attempt=1,
        goal="",
        role=None,
        model="none",
        limits=roles.Limits(),
        base="0" * 40,
        started_at=0,
        inputs=(),
        protect=(),
    )
    written = {line.partition(":")[0] for line in trailers(spec).splitlines()}
    assert all_names(table("Results")) == written


def test_names_in_the_state_folder() -> None:
    (tree,) = re.findall(r"^```\n(.*?)^```$", section("State folder"), re.DOTALL | re.MULTILINE)
    described = {line.split()[0].rstrip("/") for line in tree.splitlines()}
    state = StateFolder(Path("state"))
    run = state.run("run")
    files = [state.hub, state.database, state.trees, run.lock]
    assert {path.name for path in files} < described
    assert session_file.SESSION_FILE in described
    for path in (run.transcript("<task>", 0), run.outputs / "<sha256>.txt", run.product("<task>")):
        name = path.relative_to(run.root).as_posix().replace(".0.", ".<attempt>.")
        assert name in described


LIMITS: dict[str, float] = {
    "a plan, script or front matter, bytes": BYTES_MAX,
    "nesting of YAML, levels": DEPTH_MAX,
    "values of a YAML file, aliases expanded": NODES_MAX,
    "faults that are told of one file": FAULTS_MAX,
    "tasks of a plan": task_drafts.TASKS_MAX,
    "tasks that one patch adds": patches.ADDED_MAX,
    "tasks of a planner's plan": proposals.PROPOSED_MAX,
    "a planner's plan, bytes of JSON": proposals.BYTES_MAX,
    "a planner's replies with a plan or patch that cannot be taken": agent_calls.REFUSALS_MAX,
    "a role file, bytes": lookup.FILE_BYTES_MAX,
    "a role's prompt, characters": role_format.PROMPT_CHARS_MAX,
    "role files in a folder": lookup.FILES_MAX,
    "times in a row that a lost attempt is repeated": LOST_MAX,
    "longest reply asked for, tokens": prompt.MAX_TOKENS,
    "calls in one reply": agent_calls.CALLS_PER_TURN_MAX,
    "calls of one reply that run at a time": agent_calls.PARALLEL_MAX,
    "the same call and result: nudged at": repeats.NUDGE_AT,
    "the same call and result: stopped at": repeats.STOP_AT,
    "a tool's result, characters": text.RESULT_CHARS_MAX,
    "all results of one reply, characters": agent_calls.TURN_CHARS_MAX,
    "rules file in a prompt, characters": rules.RULES_CHARS,
    "all rules in a prompt, characters": rules.RULES_TOTAL_CHARS,
    "rules files that are looked at": rules.RULES_FILES_MAX,
    "a context file in a prompt, characters": prompt.CONTEXT_CHARS,
    "product of one need in a prompt, characters": prompt.INPUT_CHARS,
    "evidence in a prompt, characters": prompt.EVIDENCE_CHARS,
    "`Read`: lines of a window": read.WINDOW_LINES,
    "`Read` and `Edit`: size of a file, bytes": content.FILE_BYTES_MAX,
    "`Grep`: lines of an answer": grep.ENTRIES_MAX,
    "`Grep`: bytes searched of one file": grep.FILE_BYTES_MAX,
    "`Grep`: seconds": grep.SECONDS_MAX,
    "`Glob`: paths": glob.PATHS_MAX,
    "`Bash`: seconds, where a call names none": bash.TIMEOUT_S,
    "`Bash`: seconds at most, where the task says nothing": bash.TIMEOUT_S_MAX,
    "`check`: seconds": edit_check.TIMEOUT_S,
    "a gate's output that is kept, bytes": runner.OUTPUT_BYTES_MAX,
    "a gate's tail in its record, characters": evidence.TAIL_CHARS,
    "a file that is sealed, bytes": seal.FILE_BYTES_MAX,
}
"""What each row of the table of limits stands for."""


def test_limits_are_the_programs() -> None:
    described = {what: float(cells[0].replace(",", "")) for what, cells in table("Limits").items()}
    assert described == LIMITS


def test_prices_are_the_programs() -> None:
    described = [
        (names(model)[0], *map(float, cells)) for model, cells in table("Budget and slices").items()
    ]
    assert described == [
        (model, *(getattr(tier, key) for key in PRICES))
        for model, tiers in price_table().models.items()
        for tier in tiers
    ]
    assert f"as of {price_table().as_of}" in section("Budget and slices")


PRICES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


# --- examples -------------------------------------------------------------------------------------


def test_the_example_role_loads_from_a_trusted_and_from_an_untrusted_folder(tmp_path: Path) -> None:
    (role,) = blocks("markdown")
    (tmp_path / "security-reviewer.md").write_text(role, encoding="utf-8")
    bundled = RoleSource(builtin("roles"), Origin.BUNDLED)
    for origin in (Origin.OPTION, Origin.PROJECT):
        loaded = load_roles([RoleSource(tmp_path, origin), bundled])["security-reviewer"]
        assert (loaded.product, loaded.limits.turns) == ("verdict", 20)


def test_the_example_plan_loads_without_faults_and_warnings(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(example("plan.yaml"), encoding="utf-8")
    loaded = load_plan(path, load_roles([RoleSource(builtin("roles"), Origin.BUNDLED)]))
    assert loaded.warnings == ()


def test_the_example_script_loads(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(example("script.yaml"), encoding="utf-8")
    assert set(load_script(path).tasks) == {"explore", "docs", "filter#2", "replan-1", "*"}


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    shown = [block.splitlines() for block in blocks("console")]
    for first, *lines in shown:
        words = first.removeprefix("$ orchestrate ").split()
        (tmp_path / words[-1]).write_text(example(words[-1]), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REFERENCE.parents[1])},
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=50,
        )
        assert (done.stdout or done.stderr).splitlines() == lines
    assert len(shown) == 2


def test_links_within_the_reference_lead_to_headings() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in headings}
    security = REFERENCE.with_name("security.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(#([^)]+)\)", TEXT) + re.findall(r"reference\.md#([^)]+)\)", security)
    assert sorted(set(targets) - anchors) == []
    assert "scripted-model-file" in anchors
