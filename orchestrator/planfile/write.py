"""What a planner hands in, as text: a plan as a file to be edited and run, a patch to be read.

The file gives the same tasks as the proposal itself does in a run
(`orchestrator.core.proposals.apply_plan`): what the user set beside the proposal is written with
it, and what nobody set is left out. Prompts are blocks of text. Whatever characters a planner used,
they come back as they were, none of them can drive a terminal, and a comment stays a comment.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

import yaml
from pydantic import BaseModel, JsonValue

from orchestrator.core.drafts import PatchDraft, PlanDraft, ProposalDraft
from orchestrator.core.plan import PlanSettings
from orchestrator.core.proposals import settings_with
from orchestrator.core.task_drafts import GATE_NAME_CHARS
from orchestrator.core.wording import shown

FIRST_KEYS = ("id", "role", "needs", "writes", "prompt", "gates")
"""Keys of a task that come first, in this order."""
PATCH_KEYS = ("why", "add", "amend", "rewire", "drop")
BLOCK_CHARS_MIN = 60
"""Text of this length is a block although it is one line."""
FLOW_CHARS_MAX = 80
"""Lists of words up to this length stand on one line."""
COMMENT_COLUMNS = 96
COMMENT_CHARS_MAX = 2_000

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_NO_TEXT = re.compile(r"true|false|null|yes|no|on|off|y|n", re.IGNORECASE)
"""Words that some reader of YAML takes for something else."""

Tree = dict[str, JsonValue]


def plan_text(proposal: ProposalDraft, settings: PlanSettings) -> str:
    """The plan file of `proposal` in a run with the user's `settings`: printable YAML."""
    whole = settings_with(settings, proposal)
    tasks: list[JsonValue] = [_task(_said(draft)) for draft in proposal.tasks]
    # Only below `tasks:` is it sure that no text stands as far to the left as the tasks.
    parted = re.sub(r"^(?=  - id: )", "\n", _yaml({"tasks": tasks}), flags=re.MULTILINE)
    body = _yaml(_settings(_said(whole))) + "\n" + parted.replace("tasks:\n\n", "tasks:\n", 1)
    return "".join(_head(whole.goal, proposal)) + _printable(body)


def patch_text(patch: PatchDraft) -> str:
    """What a patch would change, all of it, in the words of a plan file: printable YAML."""
    said = _said(patch)
    tree: Tree = {key: said[key] for key in PATCH_KEYS if key in said}
    for key in ("add", "amend"):
        tasks = tree.get(key)
        if isinstance(tasks, list):
            tree[key] = [_task(task) for task in tasks if isinstance(task, dict)]
    return _printable(_yaml(tree))


def _printable(text: str) -> str:
    """What cannot be printed stands in double quotes, where it can be written by its number."""
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _yaml(tree: Tree) -> str:
    """The tree as a part of the file; nothing where it is empty."""
    text = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**30)
    return text if tree else ""


def _head(goal: str, proposal: ProposalDraft) -> Iterator[str]:
    """Comments that say what the plan is for and why it is as it is."""
    understood = f"Understood as: {proposal.goal}" if proposal.goal not in ("", goal) else ""
    for text in (f"A plan for: {goal}", understood, proposal.why):
        line = shown(" ".join(text.split()), COMMENT_CHARS_MAX)
        yield from (f"# {part}\n" for part in textwrap.wrap(line, COMMENT_COLUMNS))
    yield "# Read it, change what you like, then: orchestrate run FILE\n\n"


def _said(record: BaseModel) -> Tree:
    """What a record holds besides its defaults, as plain data with short numbers."""
    return _short(record.model_dump(mode="json", exclude_defaults=True, exclude_none=True))


def _short(tree: Tree) -> Tree:
    return {key: _shortened(key, value) for key, value in tree.items()}


def _shortened(key: str, value: JsonValue) -> JsonValue:
    """`90` for `90.0`, but for a value that something is compared with."""
    if isinstance(value, dict):
        return _short(value)
    if isinstance(value, list):
        return [_shortened(key, item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and key != "equals"
    return int(value) if whole and isinstance(value, float) else value


def _settings(said: Tree) -> Tree:
    """The keys of a plan but its tasks."""
    defaults = said.pop("defaults", None)
    if isinstance(defaults, dict):
        models = defaults.pop("role_models", None)
        _rename(defaults, {"limits": "budget", "timeout_s": "timeout"})
        if isinstance(models, dict):
            defaults["roles"] = {role: {"model": model} for role, model in models.items()}
        said["defaults"] = _with_gates(defaults)
    if isinstance(approve := said.pop("approve", None), list) and "replans" in approve:
        said["approve"] = ["replans"]  # a plan that somebody has in a file is approved
    return _with_gates({key: said[key] for key in PlanDraft.model_fields if key in said})


def _task(said: Tree) -> Tree:
    ordered = {key: said[key] for key in FIRST_KEYS if key in said}
    return _with_gates({**ordered, **said})


def _with_gates(said: Tree) -> Tree:
    """The same with each gate that has nothing but a command as just the command."""
    gates = said.get("gates")
    if isinstance(gates, list):
        said["gates"] = [_gate(gate) for gate in gates]
    return {key: value for key, value in said.items() if value != {}}


def _gate(gate: JsonValue) -> JsonValue:
    if not isinstance(gate, dict):
        return gate
    _rename(gate, {"timeout_s": "timeout"})
    name = gate.get("name")
    if name == gate["run"] and name == " ".join(str(name).split())[:GATE_NAME_CHARS]:
        del gate["name"]  # it is called so anyway
    return gate["run"] if set(gate) == {"run"} else gate


def _rename(said: Tree, names: Mapping[str, str]) -> None:
    for old, new in names.items():
        if old in said:
            said[new] = said.pop(old)


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08x}"


class _Dumper(yaml.SafeDumper):
    """Writes text so that `orchestrator.documents` reads it back as text, whatever it says."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Lists stand further in than the key that they belong to."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Equal values are written out: people read them."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    tag, style = "tag:yaml.org,2002:str", '"'
    if _is_plain(text):
        style = ""
    elif _is_block(text):
        style = "|"
    return dumper.represent_scalar(tag, text, style=style or None)


def _is_plain(text: str) -> bool:
    short = len(text) < BLOCK_CHARS_MIN
    return short and _PLAIN.fullmatch(text) is not None and _NO_TEXT.fullmatch(text) is None


def _is_block(text: str) -> bool:
    """Whether a block would hold it as it is: nothing invisible, no space where it counts."""
    if text.startswith((" ", "\n")) or text.endswith("\n\n"):
        return False
    long = "\n" in text or len(text) >= BLOCK_CHARS_MIN
    return long and all(c.isprintable() or c == "\n" for c in text)


def _represent_list(dumper: _Dumper, items: list[JsonValue]) -> yaml.SequenceNode:
    words = [item for item in items if isinstance(item, str) and not _is_block(item)]
    flow = len(words) == len(items) and sum(map(len, words)) <= FLOW_CHARS_MAX
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flow)


def _represent_mapping(dumper: _Dumper, mapping: Tree) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping, flow_style=False)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(dict, _represent_mapping)
