"""What a planner's message has besides its task: roles, settings, facts, the graph. Pure.

For the first plan there is no graph yet but much to say of the repository; for a patch it is the
other way round. Prompts, descriptions, outcomes and facts are other people's texts and marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.agent.marked import marked, one_line
from orchestrator.core.graph import GraphView, TaskView
from orchestrator.core.plan import Gate, PlanSettings, RunBudget, argv_of
from orchestrator.core.roles import Role
from orchestrator.tools.text import visible

PROMPT_CHARS = 1_500
SUMMARY_CHARS = 1_500
GRAPH_CHARS = 60_000
ROLES_CHARS = 12_000
DESCRIPTION_CHARS = 500
FACTS_CHARS = 16_000
PLANNERS = frozenset({"patch", "plan"})
"""Products of planners, whom no plan names."""


def plan_sections(graph: GraphView, facts: str) -> Iterator[str]:
    """For the first plan: who can act, what holds for the run, what the repository is like."""
    yield _roles(graph.roles)
    yield "## What holds for the run\n" + "\n".join(_settings(graph.settings))
    if facts:
        shown = marked(facts, "facts read from the repository's files", chars_max=FACTS_CHARS)
        yield f"## Facts about this repository\n{shown}"


def graph_sections(graph: GraphView) -> Iterator[str]:
    """For a patch: every task with its state, and the roles there are."""
    yield _roles(graph.roles)
    body = "\n".join(_task_view(view) for view in graph.tasks)
    yield "## The graph as it stands\n" + marked(body, "tasks in plan order", chars_max=GRAPH_CHARS)
    if graph.mends is not None:
        yield f"Your patch must deal with the failed task `{graph.mends}`."


def indented(text: str) -> str:
    """A text of several lines as part of a list."""
    return text.replace("\n", "\n  | ")


def _roles(roles: Sequence[Role]) -> str:
    """Roles for tasks; a repository may bring some of its own, so what they say is marked."""
    lines = [
        f"{role.name}: {one_line(role.description, DESCRIPTION_CHARS) or 'no description'}\n"
        f"  writes: {'yes' if role.writes else 'no'}; hands in: {role.product};"
        f" tools: {', '.join(role.tools)}"
        for role in roles
        if role.product not in PLANNERS
    ]
    return "## Roles\n" + marked("\n".join(lines), "roles", chars_max=ROLES_CHARS)


def _settings(settings: PlanSettings) -> Iterator[str]:
    yield f"- At most {settings.workers:,} tasks run at a time."
    if budget := _budget(settings.budget):
        yield f"- Budget of the whole run: {budget}."
    patterns = ", ".join(f"`{visible(pattern)}`" for pattern in settings.protect)
    yield f"- Protected, so that only a task whose `writes` names them may change them: {patterns}."
    for gate in settings.gates:
        yield f"- The merged result has to pass already: {_gate(gate)}."
    for gate in settings.defaults.gates:
        yield f"- Every task gets this gate where it names none: {_gate(gate)}."
    if settings.context:
        named = ", ".join(f"`{one_line(path)}`" for path in settings.context)
        yield f"- Every agent is given: {named}."


def _gate(gate: Gate) -> str:
    command = gate.run if isinstance(gate.run, str) else " ".join(argv_of(gate.run))
    return f"{visible(gate.name)} (`{one_line(command)}`)"


def _budget(budget: RunBudget) -> str:
    parts = [
        f"${budget.usd:,.2f}" if budget.usd is not None else "",
        f"{budget.tokens:,} tokens" if budget.tokens is not None else "",
        f"{budget.minutes:g} minutes" if budget.minutes is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _task_view(view: TaskView) -> str:
    task = view.task
    facts = [f"{task.id} [{view.status}]", f"role: {task.role or 'none'}"]
    if task.needs:
        facts.append(f"needs: {', '.join(task.needs)}")
    if task.writes is not None:
        facts.append(f"writes: {', '.join(task.writes) or 'nothing'}")
    if task.gates:
        facts.append(f"gates: {', '.join(gate.name for gate in task.gates)}")
    lines = ["; ".join(facts)]
    if task.prompt:
        lines.append(f"  prompt: {indented(task.prompt[:PROMPT_CHARS])}")
    if view.summary:
        lines.append(f"  outcome: {indented(view.summary[:SUMMARY_CHARS])}")
    return "\n".join(lines)
