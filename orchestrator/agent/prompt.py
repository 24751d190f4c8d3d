"""The first request of an attempt, from its order and the repository's parts. Pure.

Order: tools by name; system: the role's prompt, the project's rules, the file tree, context files;
then the task as the first user message. What more agents share stands further in front, and
nothing that differs between two runs of the same work (times, ids of runs, absolute paths) stands
before the task, so that providers can reuse the prefix. Everything that came from files, commands
or other agents is marked as data (`orchestrator.agent.marked`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from orchestrator.agent.marked import DATA_RULE, marked
from orchestrator.agent.parts import PromptParts
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import Command, Gate, Task
from orchestrator.core.products import Change, Decision, Product, Report, Verdict
from orchestrator.core.roles import Role
from orchestrator.messages import Message, Request, TextBlock, ToolSpec
from orchestrator.spec import AttemptSpec, Input
from orchestrator.tools.text import visible

MAX_TOKENS = 16_384
"""Longest reply that is asked for."""
RULES_CHARS = 40_000
TREE_PATHS = 400
TREE_FOLDERS = 200
CONTEXT_CHARS = 20_000
INPUT_CHARS = 12_000
EVIDENCE_CHARS = 12_000
DIFF_CHARS = 60_000
GRAPH_PROMPT_CHARS = 1_500
GRAPH_SUMMARY_CHARS = 1_500
INPUTS_MAX = 100
DECISIONS_MAX = 200

WORKING_FOLDER = (
    "Your working folder is the root of a private copy of the repository; paths are relative to"
    " it. Put independent reads, and independent edits, into one reply."
)


def first_request(
    spec: AttemptSpec, role: Role, parts: PromptParts, tools: Sequence[ToolSpec]
) -> Request:
    """The request that opens the conversation of `spec`, whose role is `role`."""
    opening = "\n\n".join(_task(spec, role, parts))
    return Request(
        task=spec.task.id,
        attempt=spec.attempt,
        model=spec.model,
        max_tokens=MAX_TOKENS,
        tools=tuple(sorted(tools, key=lambda tool: tool.name)),
        system=tuple(_system(role, parts)),
        messages=(Message(role="user", blocks=(TextBlock(text=opening),)),),
    )


def _system(role: Role, parts: PromptParts) -> Iterator[str]:
    """The stable prefix, the most widely shared part first."""
    yield f"{role.prompt.strip() or role.name}\n\n{WORKING_FOLDER}\n\n{DATA_RULE}"
    if parts.rules is not None and parts.rules.text.strip():
        rules = marked(parts.rules.text, parts.rules.path, chars_max=RULES_CHARS)
        yield f"# Rules of this project\nKeep to them in your work on it.\n{rules}"
    if parts.tree:
        yield f"# Files\n{_tree(parts.tree)}"
    for file in parts.context:
        yield marked(file.text, file.path, chars_max=CONTEXT_CHARS, hint="Read the file")
    if parts.missing:
        yield f"Not there, though the plan names them: {visible(', '.join(parts.missing))}"


def _tree(paths: Sequence[str]) -> str:
    """All paths, or where there are too many, how many files each top folder holds."""
    if len(paths) <= TREE_PATHS:
        return marked("\n".join(paths), "paths of all files", chars_max=40_000, hint="Glob")
    lines: list[str] = []
    for top, group in groupby(paths, key=_top):
        members = list(group)
        lines.append(top if members == [top] else f"{top} ({len(members):,} files)")
    shown = "\n".join(lines[:TREE_FOLDERS])
    left_out = len(lines) - TREE_FOLDERS
    more = f"\n[{left_out:,} more entries left out: Glob]" if left_out > 0 else ""
    return marked(shown + more, f"folders; {len(paths):,} files in all", chars_max=40_000)


def _top(path: str) -> str:
    """The first two folders of a path, or the path of a file that lies higher."""
    parts = path.split("/")
    return path if len(parts) <= 2 else "/".join(parts[:2]) + "/"


def _task(spec: AttemptSpec, role: Role, parts: PromptParts) -> Iterator[str]:
    """The task's message, in sections; the way to end it comes last, where it is read best."""
    task = spec.task
    yield f"# Task `{task.id}`"
    if spec.goal:
        yield f"The whole plan's goal: {visible(spec.goal)}"
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
    if spec.graph is not None:
        yield from _graph(spec.graph)
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
            + (f"\n  | {_indented(claim.quote)}" if claim.quote else "")
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
    return f"changed the graph: {product.why}"


def _indented(quote: str) -> str:
    return quote.replace("\n", "\n  | ")


def _discoveries(product: Report | Change) -> Iterator[str]:
    return (f"discovered: {item}" for item in product.discoveries)


def _graph(graph: GraphView) -> Iterator[str]:
    """The graph for a planner: every task with its state, and the roles there are."""
    yield "## Roles\n" + "\n".join(
        f"- {role.name}{' (writes)' if role.writes else ''}: {visible(role.description)}"
        for role in graph.roles
    )
    body = "\n".join(_task_view(view) for view in graph.tasks)
    yield "## The graph as it stands\n" + marked(body, "tasks in plan order", chars_max=60_000)
    if graph.mends is not None:
        yield f"Your patch must deal with the failed task `{graph.mends}`."


def _task_view(view: TaskView) -> str:
    task: Task = view.task
    facts = [f"{task.id} [{view.status}]", f"role: {task.role or 'none'}"]
    if task.needs:
        facts.append(f"needs: {', '.join(task.needs)}")
    if task.writes is not None:
        facts.append(f"writes: {', '.join(task.writes) or 'nothing'}")
    if task.gates:
        facts.append(f"gates: {', '.join(gate.name for gate in task.gates)}")
    lines = ["; ".join(facts)]
    if task.prompt:
        lines.append(f"  prompt: {_indented(task.prompt[:GRAPH_PROMPT_CHARS])}")
    if view.summary:
        lines.append(f"  outcome: {_indented(view.summary[:GRAPH_SUMMARY_CHARS])}")
    return "\n".join(lines)


def _evidence(spec: AttemptSpec) -> str:
    data = marked(spec.evidence, "evidence", chars_max=EVIDENCE_CHARS)
    if spec.attempt == 1:
        return f"## What went wrong\n{data}"
    kept = " Your working folder holds its work." if spec.start_from is not None else ""
    return f"## This is attempt {spec.attempt}; the last one failed\n{data}\n{kept}".rstrip()
