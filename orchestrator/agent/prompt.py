"""The first request of an attempt, from its order and the repository's parts. Pure.

Order: tools by name; system: the role's prompt, the project's rules, the file tree, context files;
then the first user message: rules for the parts of the project that the task is about, and the
task. What more agents share stands further in front, and nothing that differs between two runs of
the same work (times, ids of runs, absolute paths) stands before the task, so that providers can
reuse the prefix. Everything that came from files, commands or other agents is marked as data
(`orchestrator.agent.marked`).

This is the one place that makes a request: `part_bytes` measures the sections it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from orchestrator.agent.marked import DATA_RULE, marked, one_line
from orchestrator.agent.parts import NamedText, PromptParts, RulesText
from orchestrator.agent.planning import graph_sections, indented, plan_sections
from orchestrator.agent.rules import RULES_CHARS
from orchestrator.core.plan import Command, Gate
from orchestrator.core.products import Change, Decision, Product, Report, Verdict
from orchestrator.core.roles import Role
from orchestrator.messages import Message, Request, TextBlock, ToolSpec
from orchestrator.spec import AttemptSpec, Input
from orchestrator.tools.text import visible

MAX_TOKENS = 16_384
"""Longest reply that is asked for."""
TREE_PATHS = 400
TREE_FOLDERS = 200
TREE_CHARS = 40_000
CONTEXT_CHARS = 20_000
INPUT_CHARS = 12_000
EVIDENCE_CHARS = 12_000
DIFF_CHARS = 60_000
INPUTS_MAX = 100
DECISIONS_MAX = 200

WORKING_FOLDER = (
    "Your working folder is the root of a private copy of the repository; paths are relative to"
    " it. Put independent reads, and independent edits, into one reply."
)

Part = Literal["instructions", "rules", "tree", "context", "tools", "task"]
"""What a first request is made of."""
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True)
class _Section:
    """One text of the system prompt, or one block of the first message."""

    part: Part
    text: str


def first_request(
    spec: AttemptSpec, role: Role, parts: PromptParts, tools: Sequence[ToolSpec]
) -> Request:
    """The request that opens the conversation of `spec`, whose role is `role`."""
    blocks = tuple(TextBlock(text=section.text) for section in _opening(spec, role, parts))
    return Request(
        task=spec.task.id,
        attempt=spec.attempt,
        model=spec.model,
        max_tokens=MAX_TOKENS,
        tools=tuple(sorted(tools, key=lambda tool: tool.name)),
        system=tuple(section.text for section in _system(role, parts)),
        messages=(Message(role="user", blocks=blocks),),
    )


def part_bytes(
    spec: AttemptSpec, role: Role, parts: PromptParts, tools: Sequence[ToolSpec]
) -> dict[Part, int]:
    """Bytes of UTF-8 of each part of that request; of tools: name, description and schema."""
    sizes = dict.fromkeys(PARTS, 0)
    for section in (*_system(role, parts), *_opening(spec, role, parts)):
        sizes[section.part] += len(section.text.encode())
    for tool in tools:
        schema = json.dumps(tool.input_schema, separators=(",", ":"), ensure_ascii=False)
        sizes["tools"] += len(f"{tool.name}{tool.description}{schema}".encode())
    return sizes


def _system(role: Role, parts: PromptParts) -> Iterator[_Section]:
    """The stable prefix, the most widely shared part first."""
    prompt = role.prompt.strip() or role.name
    yield _Section("instructions", f"{prompt}\n\n{WORKING_FOLDER}\n\n{DATA_RULE}")
    if parts.rules:
        rules = "\n".join(map(_rules, parts.rules))
        yield _Section(
            "rules", f"# Rules of this project\nKeep to them in your work on it.\n{rules}"
        )
    if parts.tree:
        yield _Section("tree", f"# Files\n{_tree(parts.tree)}")
    for file in parts.context:
        shown = marked(file.text, file.path, chars_max=CONTEXT_CHARS, hint="Read the file")
        yield _Section("context", shown)
    if parts.missing:
        names = ", ".join(map(one_line, parts.missing))
        yield _Section("context", f"Named by the plan, but not there, or no text: {names}")


def _opening(spec: AttemptSpec, role: Role, parts: PromptParts) -> Iterator[_Section]:
    """The first message: what some siblings share before what is the task's own."""
    rules = "\n\n".join(_nested_rules(parts.nested, parts.more_rules))
    if rules:
        yield _Section("rules", rules)
    yield _Section("task", "\n\n".join(_task(spec, role, parts)))


def _nested_rules(nested: Sequence[RulesText], more: Sequence[NamedText]) -> Iterator[str]:
    if nested:
        yield (
            "# Rules for parts of this project\nKeep to them, each for the files that it is for;"
            " for those it goes before the rules of the whole project, and a nearer folder's before"
            " a wider one's.\n" + "\n".join(map(_rules, nested))
        )
    if more:
        lines = "\n".join(f"{one_line(item.path)}: {one_line(item.text)}" for item in more)
        yield (
            "# More rules\nRead those that are for files you deal with, and keep to them.\n"
            + marked(lines, "rules files, and what each is for", chars_max=TREE_CHARS)
        )


def _rules(rules: RulesText) -> str:
    scope = f", for {rules.scope}" if rules.scope else ""
    source = ", ".join(rules.paths) + scope
    return marked(rules.text, source, chars_max=RULES_CHARS, hint="Read the file")


def _tree(paths: Sequence[str]) -> str:
    """All paths, or where there are too many, how many files each top folder holds."""
    if len(paths) <= TREE_PATHS:
        listed = "\n".join(map(one_line, paths))
        return marked(listed, "paths of all files", chars_max=TREE_CHARS, hint="Glob")
    lines: list[str] = []
    for top, group in groupby(paths, key=_top):
        members = list(group)
        name = one_line(top)
        lines.append(name if members == [top] else f"{name} ({len(members):,} files)")
    shown = "\n".join(lines[:TREE_FOLDERS])
    left_out = len(lines) - TREE_FOLDERS
    more = f"\n[{left_out:,} more entries left out: Glob]" if left_out > 0 else ""
    return marked(shown + more, f"folders; {len(paths):,} files in all", chars_max=TREE_CHARS)


def _top(path: str) -> str:
    """The first two folders of a path, or the path of a file that lies higher."""
    parts = path.split("/")
    return path if len(parts) <= 2 else "/".join(parts[:2]) + "/"


def _task(spec: AttemptSpec, role: Role, parts: PromptParts) -> Iterator[str]:
    """The task's message, in sections; the way to end it comes last, where it is read best."""
    task = spec.task
    yield f"# Task `{task.id}`"
    if spec.goal:
        whose = "The goal to plan for" if role.product == "plan" else "The whole plan's goal"
        yield f"{whose}: {visible(spec.goal)}"
    yield visible(task.prompt).strip() or "Do what your role is for, with what is handed to you."
    if role.writes:
        yield _permission(spec)
    if spec.gates:
        yield "## Checks that your work must pass\n" + "\n".join(map(_gate, spec.gates))
    if task.decides:
        yield f"You alone decide, and name in your decisions: {', '.join(task.decides)}."
    if spec.decisions:
        yield _decisions(spec.decisions)
    if spec.inputs:
        yield "## What the tasks before you handed in"
        yield from map(_input, spec.inputs[:INPUTS_MAX])
        if len(spec.inputs) > INPUTS_MAX:
            yield f"[{len(spec.inputs) - INPUTS_MAX:,} more inputs are merged but not shown]"
    if parts.diff:
        hint = "the files are in your working folder"
        shown = marked(parts.diff, "diff", chars_max=DIFF_CHARS, hint=hint)
        yield f"## The change to review, from the base to what you are given\n{shown}"
    if spec.graph is not None and role.product == "plan":
        yield from plan_sections(spec.graph, parts.facts)
    elif spec.graph is not None:
        yield from graph_sections(spec.graph)
    if spec.evidence:
        yield _evidence(spec)
    yield f"End by calling {role.submit_tool}. Only that hands in your work."


def _permission(spec: AttemptSpec) -> str:
    """What the task may change, as seal will enforce it."""
    if spec.task.writes is None:
        return f"You may change every file but these patterns: {_patterns(spec.protect)}."
    if not spec.task.writes:
        return "You may change no file."
    return f"You may change only files that match: {_patterns(spec.task.writes)}."


def _patterns(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{visible(pattern)}`" for pattern in patterns) or "none"


def _gate(gate: Gate) -> str:
    return f"- {visible(gate.name)}: {_command(gate.run)}"


def _command(command: Command) -> str:
    """A command as a person would read it: text as it is, an argv in its JSON-like form."""
    if isinstance(command, str):
        return f"`{visible(command)}`" if "\n" not in command else f"\n```\n{visible(command)}\n```"
    return "argv " + visible(repr(list(command)))


def _decisions(decisions: Sequence[Decision]) -> str:
    lines = [
        f"- {f'{item.name}: ' if item.name else ''}{item.what}"
        + (f" (because {item.why})" if item.why else "")
        for item in decisions[-DECISIONS_MAX:]
    ]
    data = marked("\n".join(lines), "decisions of earlier tasks", chars_max=EVIDENCE_CHARS)
    return f"## Decisions already made\nBuild on them, do not make them anew.\n{data}"


def _input(given: Input) -> str:
    """What one need handed in."""
    if given.product is None:
        return f"Task `{given.task}`: its files are in your working folder."
    hint = "the rest is in the files"
    return marked(_product(given.product), f"task {given.task}", chars_max=INPUT_CHARS, hint=hint)


def _product(product: Product) -> str:
    """A product as text: places as `path:line`, decisions apart (they come for all ancestors)."""
    if isinstance(product, Report):
        claims = (
            f"{claim.path}:{claim.line}{f'-{claim.end_line}' if claim.end_line else ''}"
            f" {claim.note}".rstrip()
            + (f"\n  | {indented(claim.quote)}" if claim.quote else "")
            for claim in product.claims
        )
        items = (f"- {item}" for item in product.items)
        return "\n".join([product.summary, *claims, *items, *_discoveries(product)])
    if isinstance(product, Change):
        return "\n".join([product.summary, *_discoveries(product)])
    if isinstance(product, Verdict):
        findings = (
            f"{item.path}:{item.line} {item.severity}: {item.message}" for item in product.findings
        )
        return "\n".join([f"approve: {str(product.approve).lower()}", *findings])
    return f"{'made the plan' if product.kind == 'plan' else 'changed the graph'}: {product.why}"


def _discoveries(product: Report | Change) -> Iterator[str]:
    return (f"discovered: {item}" for item in product.discoveries)


def _evidence(spec: AttemptSpec) -> str:
    data = marked(spec.evidence, "evidence", chars_max=EVIDENCE_CHARS)
    if spec.attempt == 1:
        return f"## What went wrong\n{data}"
    kept = " Your working folder holds its work." if spec.start_from is not None else ""
    return f"## This is attempt {spec.attempt}; the last one failed\n{data}\n{kept}".rstrip()
