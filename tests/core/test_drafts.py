"""What people and models may write, and the complete tasks that come of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from orchestrator.core.drafts import (
    Amendment,
    GateDraft,
    PatchDraft,
    PlanDraft,
    TaskDraft,
    resolve_gates,
    resolve_plan,
    resolve_settings,
    resolve_task,
)
from orchestrator.core.plan import Gate, ModelPrice, PlanSettings, Task, When
from orchestrator.core.products import PlanPatch, Product
from orchestrator.core.roles import Limits, Role

EXPLORER = Role(
    name="explorer",
    tools=("Grep", "Read"),
    model="small",
    product="report",
    limits=Limits(turns=30, minutes=5),
    prompt="Look.",
)
ROLES = {"explorer": EXPLORER}
SETTINGS = PlanSettings()


def task(**keys: Any) -> TaskDraft:
    return TaskDraft.model_validate({"id": "t", **keys})


def errors(model: type[PlanDraft | TaskDraft | PatchDraft], data: object) -> dict[str, str]:
    """Messages by dotted place."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return {
        ".".join(str(step) for step in error["loc"]): error["msg"]
        for error in caught.value.errors()
    }


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("description", "prompt", "do it"),
        ("instructions", "prompt", "do it"),
        ("depends_on", "needs", ["a"]),
        ("dependencies", "needs", ["a"]),
        ("deps", "needs", ["a"]),
    ],
)
def test_a_key_may_have_its_other_name(alias: str, name: str, value: object) -> None:
    assert task(**{alias: value}) == task(**{name: value})


def test_two_names_of_one_key_are_refused_at_the_second() -> None:
    assert errors(TaskDraft, {"id": "t", "needs": ["a"], "deps": ["b"]}) == {
        "deps": "`deps` says the same as `needs`: keep one of them"
    }
    assert errors(TaskDraft, {"id": "t", "retries": 1, "attempts": 2}) == {
        "attempts": "`attempts` says the same as `retries`: keep one of them"
    }


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (19, 20)])
def test_retries_are_attempts_less_one(retries: int, attempts: int) -> None:
    assert task(retries=retries).attempts == attempts


@pytest.mark.parametrize("retries", [-1, 20, "many", True, 1.5])
def test_retries_out_of_range_are_told_as_retries(retries: object) -> None:
    assert errors(TaskDraft, {"id": "t", "retries": retries}) == {
        "retries": "must be a whole number from 0 to 19"
    }


def test_P07_one_need_without_a_list_is_one_need_never_letters() -> None:
    assert task(needs="build").needs == ("build",)
    assert task(depends_on="build").needs == ("build",)


def test_one_item_may_stand_without_its_list() -> None:
    draft = task(writes="src/", context="README.md", decides="api", gates="make test")
    assert (draft.writes, draft.context, draft.decides) == (("src/",), ("README.md",), ("api",))
    assert draft.gates == (GateDraft(run="make test"),)
    assert task(gates={"run": "make"}).gates == (GateDraft(run="make"),)


def test_a_gate_is_a_mapping_or_just_its_command() -> None:
    draft = task(gates=["pytest -q", ["ruff", "check"], {"run": "x", "name": "n", "timeout": "2m"}])
    assert draft.gates == (
        GateDraft(run="pytest -q"),
        GateDraft(run=("ruff", "check")),
        GateDraft(run="x", name="n", timeout=120),
    )


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5h", 5400), (45, 45), (0.5, 0.5), ("30", 30)],
)
def test_durations(written: object, seconds: float) -> None:
    assert task(timeout=written).timeout == seconds


@pytest.mark.parametrize(
    "written",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -1,
        0,
        10**400,
        "nan",
        "inf",
        "1e400",
        "-5s",
        "0s",
        "8d",
        "1000h",
        "9" * 400 + "s",
        "",
        True,
        [5],
    ],
)
def test_P11_a_time_limit_is_finite_positive_and_capped(written: object) -> None:
    assert list(errors(TaskDraft, {"id": "t", "timeout": written})) == ["timeout"]
    gate = {"run": "x", "timeout": written}
    assert list(errors(TaskDraft, {"id": "t", "gates": [gate]})) == ["gates.0.timeout"]


NO_LIMIT = [float("nan"), float("inf"), -1, 0, 10**400, True, "nan", "1e400"]


@pytest.mark.parametrize("written", NO_LIMIT)
@pytest.mark.parametrize("key", ["usd", "tokens", "turns", "minutes"])
def test_P11_a_budget_is_finite_positive_and_capped(key: str, written: object) -> None:
    assert list(errors(TaskDraft, {"id": "t", "budget": {key: written}})) == [f"budget.{key}"]
    if key != "turns":
        plan = {"tasks": [], "budget": {key: written}}
        assert list(errors(PlanDraft, plan)) == [f"budget.{key}"]


@pytest.mark.parametrize("written", [*NO_LIMIT, 21, 1.5])
def test_P11_attempts_and_workers_are_counts(written: object) -> None:
    assert list(errors(TaskDraft, {"id": "t", "attempts": written})) == ["attempts"]
    if written != 21:
        assert list(errors(PlanDraft, {"tasks": [], "max_parallel": written})) == ["max_parallel"]


@pytest.mark.parametrize("require", [0, -1, "some", 1.5, True, [1]])
def test_require_is_all_any_or_a_count(require: object) -> None:
    assert errors(TaskDraft, {"id": "t", "require": require}) == {
        "require": "must be `all`, `any` or a whole number from 1"
    }
    assert task(require=2).require == 2
    assert task(require="any").require == "any"


@pytest.mark.parametrize("key", ["setup", "setup_network", "network", "copy"])
def test_keys_of_a_plan_that_are_not_built_are_refused(key: str) -> None:
    assert errors(PlanDraft, {"tasks": [], key: None}) == {key: f"`{key}` is not supported yet"}


def test_what_waits_for_a_person_is_the_plan_or_replans() -> None:
    def approve(value: object) -> tuple[str, ...]:
        return resolve_settings(PlanDraft.model_validate({"tasks": [], "approve": value})).approve

    assert approve("replans") == ("replans",)
    assert approve(["replans", "plan", "replans"]) == ("replans", "plan")
    assert errors(PlanDraft, {"tasks": [], "approve": ["plan", "landing"]}) == {
        "approve.1": "is not supported yet: `landing` (nothing is landed but by `orchestrate land`)"
    }
    assert list(errors(PlanDraft, {"tasks": [], "approve": ["everything", 1]})) == [
        "approve.0",
        "approve.1",
    ]


def test_prices_are_dollars_by_model() -> None:
    written = {
        "llama": {"input": 0, "output": 0},
        "big": {"input": 3, "output": 15.5, "cache_read": 0.3},
    }
    settings = resolve_settings(PlanDraft.model_validate({"tasks": [], "prices": written}))
    assert settings.prices == {
        "llama": ModelPrice(input=0, output=0),
        "big": ModelPrice(input=3, output=15.5, cache_read=0.3),
    }


def test_each_faulty_price_is_told_at_its_place() -> None:
    written = {
        "a": {"input": -1, "output": float("nan")},
        "b": {"input": True, "output": "free", "cache": 1},
        "c": 3,
    }
    assert errors(PlanDraft, {"tasks": [], "prices": written}) == {
        "prices.a.input": "Input should be greater than or equal to 0",
        "prices.a.output": "Input should be a finite number",
        "prices.b.cache": "unknown key `cache` in a model's price",
        "prices.b.input": "must be a number, not true or false",
        "prices.b.output": ("Input should be a valid number, unable to parse string as a number"),
        "prices.c": "a model's price must be a mapping of keys, not a number",
    }


@pytest.mark.parametrize("key", ["min_tests", "red_then_green", "exclusive", "fix", "network"])
def test_keys_of_a_gate_that_are_not_built_are_refused(key: str) -> None:
    assert errors(TaskDraft, {"id": "t", "gates": [{"run": "x", key: 1}]}) == {
        f"gates.0.{key}": f"`{key}` is not supported yet"
    }


@pytest.mark.parametrize("key", ["network", "for_each"])
def test_keys_of_a_task_that_are_not_built_are_refused(key: str) -> None:
    assert errors(TaskDraft, {"id": "t", key: []}) == {key: f"`{key}` is not supported yet"}


@pytest.mark.parametrize("name", ["aux", "con", "nul", "prn", "com1", "lpt9"])
def test_T09_names_that_windows_keeps_are_refused(name: str) -> None:
    assert "is a device on Windows" in errors(TaskDraft, {"id": name})["id"]
    assert "is a device on Windows" in errors(PlanDraft, {"tasks": {name: {}}})[f"tasks.{name}.id"]
    assert task(id=name + "x").id == name + "x"


def test_the_folder_of_rejected_work_is_no_tasks_name() -> None:
    assert "is reserved" in errors(TaskDraft, {"id": "rejected"})["id"]
    assert "is reserved" in errors(PlanDraft, {"tasks": {"rejected": {}}})["tasks.rejected.id"]


def test_a_pattern_that_takes_for_ever_to_match_is_refused() -> None:
    deep = "**/a/**/b/**/c"
    for pattern in ("*a*a*a*a*b", "**/".join(["a*/"] * 7), deep):
        assert "at most" in errors(TaskDraft, {"id": "t", "writes": [pattern]})["writes.0"]
        assert "at most" in errors(PlanDraft, {"protect": [pattern], "tasks": {}})["protect.0"]
    usual = ("**/a/**/b/**", "tickets/**", "**/*.test.ts", "test_*_*.py", "/docs/**/img/*.png")
    assert task(writes=list(usual)).writes == usual


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a/b", "../x", "a" * 64, "a\n", "ä", 1])
def test_ids_are_narrow(name: object) -> None:
    assert list(errors(TaskDraft, {"id": name})) == ["id"]
    assert list(errors(TaskDraft, {"id": "t", "needs": [name]})) == ["needs.0"]


@pytest.mark.parametrize("run", ["", "  ", [], [""], 7, None, [1], "a\0b", ["a", "b\0"]])
def test_a_command_is_text_or_texts(run: object) -> None:
    assert list(errors(TaskDraft, {"id": "t", "gates": [{"run": run}]})) == ["gates.0.run"]


@pytest.mark.parametrize("name", ["1A", "A=B", "A B", "", "A\0"])
def test_names_of_variables_are_narrow(name: str) -> None:
    assert errors(TaskDraft, {"id": "t", "env": {name: "x"}})


@pytest.mark.parametrize("value", [1, True, "a\0b", ["x"]])
def test_variables_hold_text(value: object) -> None:
    assert list(errors(TaskDraft, {"id": "t", "env": {"A": value}})) == ["env.A"]


def test_control_characters_are_in_no_name() -> None:
    keys = {"role": "a\x1b[2J", "model": "m\n", "writes": ["\x07"], "gates": [{"run": "x"}]}
    assert list(errors(TaskDraft, {"id": "t", **keys})) == ["role", "writes.0", "model"]


def test_a_key_with_nothing_behind_it_is_not_written() -> None:
    nothing = dict.fromkeys(("role", "needs", "writes", "gates", "budget", "when", "attempts"))
    assert task(**nothing) == task()
    assert list(errors(TaskDraft, {"id": None})) == ["id"]


@pytest.mark.parametrize(
    "when",
    [
        {"task": "a"},
        {"task": "a", "is": "failed", "field": "approve", "equals": True},
        {"task": "a", "field": "approve"},
        {"task": "a", "equals": 1},
        {"task": "a", "is": "failed", "equals": 1},
        {"is": "failed"},
        {"task": "a", "is": "done"},
        {"task": "a", "field": "approve", "equals": [1]},
        {"task": "a", "field": "approve", "equals": float("nan")},
        "a",
    ],
)
def test_a_condition_has_one_of_its_two_forms(when: object) -> None:
    assert errors(TaskDraft, {"id": "t", "when": when})


def test_conditions_keep_the_type_of_their_value() -> None:
    for value in (True, 1, 1.5, "yes"):
        draft = task(when={"task": "a", "field": "f", "equals": value})
        done = resolve_task(draft, SETTINGS, ROLES)
        assert done.when is not None
        assert done.when.equals == value
        assert type(done.when.equals) is type(value)
    draft = task(when={"task": "a", "is": "failed"})
    assert resolve_task(draft, SETTINGS, ROLES).when == When.model_validate(
        {"task": "a", "is": "failed"}
    )


def test_tasks_are_a_mapping_or_a_list() -> None:
    mapping = PlanDraft.model_validate({"tasks": {"b": {"needs": "a"}, "a": {"id": "a"}}})
    listed = PlanDraft.model_validate({"tasks": [{"id": "b", "needs": "a"}, {"id": "a"}]})
    assert mapping == listed
    assert [draft.id for draft in mapping.tasks] == ["b", "a"]


def test_P04_ids_that_stand_twice_are_refused() -> None:
    tasks = [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": "b"}]
    assert errors(PlanDraft, {"tasks": tasks}) == {
        "tasks.2.id": "task id `a` is used twice",
        "tasks.3.id": "task id `b` is used twice",
    }
    assert list(errors(PatchDraft, {"add": tasks[:3]})) == ["add.2.id"]


def test_P12_what_is_no_task_is_told_as_such() -> None:
    assert errors(PlanDraft, {"tasks": [None, "a"]}) == {
        "tasks.0": "a task must be a mapping of keys, not nothing",
        "tasks.1": "a task must be a mapping of keys, not text",
    }
    assert errors(PlanDraft, {"tasks": {"a": None}}) == {
        "tasks.a": "a task must be a mapping of keys, not nothing"
    }
    assert errors(PlanDraft, ["a"]) == {"": "a plan must be a mapping of keys, not a list"}
    assert list(errors(PlanDraft, {"tasks": 7})) == ["tasks"]
    assert list(errors(PlanDraft, {})) == ["tasks"]


def test_all_that_is_wrong_is_told_at_once_under_the_authors_keys() -> None:
    plan = {
        "max_parallel": 0,
        "nmae": "x",
        "tasks": {
            "a": {"description": 7, "deps": ["B"], "gates": [{"run": []}], "retries": -1},
            "b": {"on_failure": "panic", "budget": {"usd": "much", "cents": 5}},
            "c": {"id": "d"},
        },
    }
    assert set(errors(PlanDraft, plan)) == {
        "max_parallel",
        "nmae",
        "tasks.a.description",
        "tasks.a.deps.0",
        "tasks.a.gates.0.run",
        "tasks.a.retries",
        "tasks.b.on_failure",
        "tasks.b.budget.usd",
        "tasks.b.budget.cents",
        "tasks.c.id",
    }


def test_a_revision_is_no_option() -> None:
    assert list(errors(PlanDraft, {"tasks": [], "base": "--upload-pack=x"})) == ["base"]
    assert list(errors(PlanDraft, {"tasks": [], "base": 1234567})) == ["base"]


def test_names_of_gates_are_short_forms_of_commands_and_unique() -> None:
    gates = resolve_gates(
        [
            GateDraft(run="pytest -q"),
            GateDraft(run="pytest -q"),
            GateDraft(run=("grep", "a b", "x")),
            GateDraft(run="set -e\n  make\tall"),
            GateDraft(run="x", name="pytest -q (2)"),
            GateDraft(run="y" * 200),
        ]
    )
    assert [gate.name for gate in gates] == [
        "pytest -q",
        "pytest -q (3)",
        "grep 'a b' x",
        "set -e make all",
        "pytest -q (2)",
        "y" * 59 + "\N{HORIZONTAL ELLIPSIS}",
    ]
    twice = [{"run": "a", "name": "n"}, {"run": "b", "name": "n"}]
    assert errors(TaskDraft, {"id": "t", "gates": twice}) == {
        "gates": "has two gates with the name `n`"
    }


def test_a_gates_time_limit_has_a_default() -> None:
    first, second = resolve_gates([GateDraft(run="a"), GateDraft(run="b", timeout=5)])
    assert (first.timeout_s, second.timeout_s) == (600.0, 5.0)


SPOKEN = PlanDraft.model_validate(
    {
        "name": "n",
        "goal": "g",
        "workers": 2,
        "budget": {"usd": 5, "replans": 0},
        "context": ["RULES.md"],
        "env": {"A": "plan", "B": "plan"},
        "gates": ["make"],
        "protect": ["spec/"],
        "overlap": "refuse",
        "defaults": {
            "model": "medium",
            "budget": {"turns": 20, "usd": 1},
            "retries": 3,
            "timeout": "1m",
            "gates": ["pytest"],
            "roles": {"explorer": {"model": "tiny"}},
        },
        "tasks": {
            "a": {"role": "explorer"},
            "b": {
                "role": "explorer",
                "model": "huge",
                "budget": {"turns": 7},
                "attempts": 1,
                "timeout": 9,
                "gates": [],
                "context": ["RULES.md", "b.md"],
                "env": {"B": "task"},
                "needs": ["c", "a", "c"],
            },
            "c": {"role": "reviewer", "needs": "a"},
            "d": {"needs": ["b", "c"]},
        },
    }
)


def test_a_task_inherits_what_it_does_not_say() -> None:
    plan = resolve_plan(SPOKEN, ROLES)
    make, pytest_ = Gate(name="make", run="make"), Gate(name="pytest", run="pytest")
    assert plan.budget.usd == 5
    assert plan.budget.replans == 0
    assert (plan.workers, plan.gates, plan.protect) == (2, (make,), ("spec/",))
    a, b, c, d = plan.tasks
    assert a == Task(
        id="a",
        role="explorer",
        context=("RULES.md",),
        gates=(pytest_,),
        model="tiny",
        limits=Limits(usd=1, turns=20, minutes=5),
        timeout_s=60,
        env={"A": "plan", "B": "plan"},
        attempts=4,
    )
    assert b == Task(
        id="b",
        role="explorer",
        needs=("a", "c"),
        context=("RULES.md", "b.md"),
        model="huge",
        limits=Limits(usd=1, turns=7, minutes=5),
        timeout_s=9,
        env={"A": "plan", "B": "task"},
        attempts=1,
    )
    assert (c.model, c.limits) == ("medium", Limits(usd=1, turns=20))
    assert (d.model, d.role) == (None, None)


def test_a_later_task_inherits_the_same() -> None:
    settings = resolve_settings(SPOKEN)
    assert resolve_task(SPOKEN.tasks[0], settings, ROLES) == resolve_plan(SPOKEN, ROLES).tasks[0]


def test_what_the_plan_says_of_models_stands_before_what_a_role_file_says() -> None:
    settings = PlanSettings.model_validate({"defaults": {"model": "medium"}})
    assert resolve_task(task(role="explorer"), settings, ROLES).model == "medium"
    assert resolve_task(task(role="explorer"), PlanSettings(), ROLES).model == "small"


def test_a_plan_that_says_little_has_the_defaults_of_a_plan() -> None:
    plan = resolve_plan(PlanDraft.model_validate({"tasks": {"a": {}}}), {})
    assert plan.settings == PlanSettings()
    assert plan.tasks == (Task(id="a"),)


def test_an_amendment_says_which_fields_change() -> None:
    amendment = Amendment.model_validate(
        {"id": "a", "instructions": "new", "gates": "make", "retries": 0, "writes": []}
    )
    assert amendment.changes() == {
        "prompt": "new",
        "gates": (Gate(name="make", run="make"),),
        "attempts": 1,
        "writes": (),
    }
    assert Amendment(id="a").changes() == {}


def test_a_patch_survives_the_journal() -> None:
    patch = PlanPatch.model_validate(
        {
            "add": {
                "fix": {"role": "explorer", "when": {"task": "a", "is": "failed"}, "deps": "a"}
            },
            "drop": "b",
            "rewire": {"id": "c", "depends_on": "fix"},
            "amend": [{"id": "d", "prompt": "p"}],
            "why": "because",
        }
    )
    product: TypeAdapter[Product] = TypeAdapter(Product)
    assert product.validate_json(product.dump_json(patch)) == patch
    done = resolve_task(patch.add[0], SETTINGS, ROLES)
    assert Task.model_validate_json(done.model_dump_json()) == done


def test_the_schema_that_a_planner_sees_has_first_names_only() -> None:
    schema = PlanPatch.model_json_schema()
    drafted = schema["$defs"]["TaskDraft"]
    assert drafted["required"] == ["id"]
    assert not {"depends_on", "deps", "description", "retries", "network"} & set(
        drafted["properties"]
    )
    assert all("description" in value for value in drafted["properties"].values())
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"add", "drop", "rewire", "amend", "why", "kind"}
    text = json.dumps(schema)
    assert '"maxLength": 10000,' not in text
    assert '"gt"' not in text
    assert '"ge"' not in text


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*TaskDraft.model_fields, *TaskDraft.aliases, "run", "is", "usd", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from([*PlanDraft.model_fields, "max_parallel", "x"]), json_values, max_size=4
    )
)
def test_any_json_is_a_plan_or_a_validation_error(data: dict[str, Any]) -> None:
    try:
        draft = PlanDraft.model_validate(data)
    except ValidationError:
        return
    plan = resolve_plan(draft, ROLES)
    assert [task.id for task in plan.tasks] == [task.id for task in draft.tasks]


@given(st.lists(json_values, max_size=3))
def test_any_json_is_a_list_of_tasks_or_a_validation_error(items: list[Any]) -> None:
    try:
        patch = PatchDraft.model_validate({"add": items})
    except ValidationError:
        return
    assert PatchDraft.model_validate_json(patch.model_dump_json()) == patch


@pytest.mark.parametrize("pattern", ["!", "\\", "a\\", "!b\\", "c\\\\\\"])
def test_what_is_no_gitignore_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="is no gitignore pattern"):
        TaskDraft.model_validate({"id": "a", "writes": [pattern]})


@pytest.mark.parametrize("pattern", ["a\\\\", "\\!a", "!a", "a/", "\\ "])
def test_escapes_within_a_pattern_are_fine(pattern: str) -> None:
    assert TaskDraft.model_validate({"id": "a", "writes": [pattern]}).writes == (pattern,)
