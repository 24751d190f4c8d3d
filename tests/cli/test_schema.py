"""`schema`: what the program reads and writes fits its schemas, and obvious mistakes do not."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.cli.init import Gate, starting_plan
from orchestrator.core.drafts import PlanDraft
from orchestrator.core.events import StoredEvent
from orchestrator.core.machine import fold
from orchestrator.data import builtin
from orchestrator.documents import load_document
from orchestrator.observers.jsonlines import event_record, result_record
from orchestrator.roles.format import parse_role
from tests.cli.program import ROOT, orchestrate_each
from tests.observers.story import RUN, START, whole
from tests.support.json_schema import accepts

NAMES = ("plan", "role", "report", "change", "verdict", "patch", "events")

Schemas = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Schemas:
    """The schemas as the program prints them."""
    place = tmp_path_factory.mktemp("schemas")
    lines = [["schema"], *(["schema", name] for name in NAMES)]
    default, *results = orchestrate_each(*lines, cwd=place, home=place / "home")
    assert default.out == results[0].out  # the same text each time, a plan's where nothing is said
    assert all((result.code, result.err) == (0, "") for result in results)
    return {name: json.loads(result.out) for name, result in zip(NAMES, results, strict=True)}


def data(text: str) -> object:
    return load_document(text, "example").data


def yaml_blocks(path: str) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_all_are_schemas(schemas: Schemas) -> None:
    for schema in schemas.values():
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert isinstance(schema["title"], str)
        accepts(schema, None)  # raises for a keyword it does not know


def test_all_are_valid_by_the_meta_schema(schemas: Schemas) -> None:
    validator = importlib.import_module("jsonschema").Draft202012Validator
    for schema in schemas.values():
        validator.check_schema(schema)


def test_plans_that_are_right_fit(schemas: Schemas) -> None:
    texts = [path.read_text(encoding="utf-8") for path in builtin("plans").glob("*.yaml")]
    texts += yaml_blocks("README.md") + yaml_blocks("docs/reference.md")
    plans = [text for text in texts if "role:" in text and "calls:" not in text]
    plans = [text for text in plans if not text.startswith("# broken.yaml")]
    assert len(plans) >= 4
    for text in [*plans, starting_plan("x", None), starting_plan("x", Gate("make", "Makefile"))]:
        assert accepts(schemas["plan"], data(text)), text


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {a: {role: explorer, prompt: x}}",
        "tasks: [{id: a, gates: make}, {id: b, deps: a, when: null}]",
        "tasks: {a: {depends_on: b, description: x, retries: 0}, b: {instructions: y}}",
        "tasks: {a: {timeout: 10m, gates: [[make, test], {run: x, timeout: 1.5 h}]}}",
        "tasks: {a: {needs: , check: [a, b], require: 2, env: {A: b}}}\nmax_parallel: 3",
        "tasks: {a: {when: {task: b, is: failed}}, b: {}}",
        "tasks: {a: {when: {task: b, field: approve, equals: true}}}\nbudget:\ngates:",
        "tasks: {a: {budget: {usd: 0.5, turns: 3}}}\ndefaults: {retries: 3, roles: {x: {}}}",
    ],
)
def test_every_form_that_is_read_fits(schemas: Schemas, text: str) -> None:
    PlanDraft.model_validate(data(text))
    assert accepts(schemas["plan"], data(text))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "name: x",
        "tasks: make",
        "tasks: {A: {}}",
        "tasks: [{role: explorer}]",
        "tasks: {a: {promt: x}}",
        "tasks: {a: {needs: b, deps: c}}",
        "tasks: {a: {attempts: 2, retries: 1}}",
        "tasks: {a: {timeout: soon}}",
        "tasks: {a: {timeout: -1}}",
        "tasks: {a: {on_failure: explode}}",
        "tasks: {a: {gates: [{name: x}]}}",
        "tasks: {a: {gates: [{run: x, exclusive: y}]}}",
        "tasks: {a: {env: {a b: c}}}",
        "tasks: {a: {retries: 20}}",
        "tasks: {a: {when: {is: done, task: b}}}",
        "{tasks: {}, workers: 0}",
        "{tasks: {}, workers: many}",
        "{tasks: {}, workers: true}",
        "{tasks: {}, version: 2}",
        "{tasks: {}, setup: [make]}",
        "{tasks: {}, budget: {usd: 0}}",
        "{tasks: {}, budget: 10}",
    ],
)
def test_obvious_mistakes_do_not_fit(schemas: Schemas, text: str) -> None:
    with pytest.raises(ValidationError):
        PlanDraft.model_validate(data(text))
    assert not accepts(schemas["plan"], data(text))


def test_role_files_fit(schemas: Schemas) -> None:
    texts = [path.read_text(encoding="utf-8") for path in builtin("roles").glob("*.md")]
    assert len(texts) >= 4
    for text in texts:
        parse_role(text, "role.md")
        assert accepts(schemas["role"], data(text.split("---\n")[1]))
    for right in ("Read", "Read, Grep,", "[Read, Grep]"):
        assert accepts(schemas["role"], data(f"name: x\ntools: {right}"))
    for wrong in ("", "[]", "Reed", "[Read, Reed]", "Read Grep", "Read\ncolour: red"):
        assert not accepts(schemas["role"], data(f"name: x\ntools: {wrong}"))
    assert not accepts(schemas["role"], data("name: X\ntools: Read"))


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("report", {"summary": "x", "claims": [{"path": "a", "line": 1}]}, {"claims": []}),
        ("change", {"summary": "x", "decisions": [{"what": "y"}]}, {"summary": 1}),
        ("verdict", {"approve": True}, {"approve": "yes"}),
        (
            "patch",
            {"add": [{"id": "a"}], "drop": [], "rewire": [], "amend": [], "why": "x"},
            {"add": {"a": 1}},
        ),
    ],
)
def test_products_are_what_their_tools_take(
    schemas: Schemas, kind: str, right: dict[str, object], wrong: dict[str, object]
) -> None:
    assert accepts(schemas[kind], right)
    assert not accepts(schemas[kind], wrong)
    assert not accepts(schemas[kind], {**right, "nosuch": 1})


def test_lines_of_json_fit(schemas: Schemas) -> None:
    stored = [
        StoredEvent(seq=number, run=RUN, at=START + number, cause=None, body=event)
        for number, event in enumerate(whole(), start=1)
    ]
    records = [event_record(event) for event in stored]
    assert len({record["type"] for record in records}) >= 6
    result = result_record(fold(RUN, stored))
    for record in [*records, result]:
        line = json.loads(json.dumps(record))
        assert accepts(schemas["events"], line), line
        for key in line:
            assert not accepts(schemas["events"], {k: line[k] for k in line if k != key}), key
        assert not accepts(schemas["events"], {**line, "type": "Nosuch"})
    assert set(result) == set(schemas["events"]["$defs"]["result"]["properties"])


def test_the_name_of_a_schema_is_checked(tmp_path: Path) -> None:
    (result,) = orchestrate_each(["schema", "plans"], cwd=tmp_path, home=tmp_path / "home")
    assert (result.code, result.out) == (2, "")
    assert "'plan', 'role'" in result.err
