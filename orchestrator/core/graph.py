"""The graph of tasks: edges, cycles, orders, and which tasks carry writers' work.

Thin over networkx, which owns the algorithms. Nodes are task ids in plan order; an edge runs from
what is waited for to what waits. Edges to unknown tasks are never added (networkx would invent
the node): finding them is `core.checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import networkx as nx

from orchestrator.core.base import Record, TaskId
from orchestrator.core.plan import PlanSettings, Task
from orchestrator.core.roles import Role

Dag: TypeAlias = "nx.DiGraph[TaskId]"


class TaskView(Record):
    """A task as a planner sees it."""

    task: Task
    status: str
    summary: str = ""
    """What it handed in, or why it failed, in a few lines."""


class GraphView(Record):
    """The graph as it stands: what a planner is shown and its patch is checked against."""

    settings: PlanSettings
    roles: tuple[Role, ...]
    tasks: tuple[TaskView, ...]
    """In plan order, dropped ones too: their ids are never used again."""
    mends: TaskId | None = None
    """The failed task that the patch must deal with."""


def build(tasks: Iterable[Task]) -> Dag:
    """The graph of `tasks`. Unknown upstream ids are left out."""
    graph: Dag = nx.DiGraph()
    listed = list(tasks)
    graph.add_nodes_from(task.id for task in listed)
    for task in listed:
        graph.add_edges_from((need, task.id) for need in task.upstream if need in graph)
    return graph


def find_cycle(graph: Dag) -> tuple[TaskId, ...] | None:
    """One cycle as a closed path (first id repeated at the end), or None.

    `nx.find_cycle` needs seconds to say no on thousands of nodes, so it is only asked for the path.
    """
    if nx.is_directed_acyclic_graph(graph):
        return None
    edges = [edge[:2] for edge in nx.find_cycle(graph)]
    return (*(str(tail) for tail, _ in edges), str(edges[0][0]))


def topological(graph: Dag) -> list[TaskId]:
    """All tasks, each after everything it waits for, otherwise in plan order."""
    place = {node: index for index, node in enumerate(graph)}
    return list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))


def remaining_paths(graph: Dag) -> dict[TaskId, int]:
    """For each task the number of tasks on the longest path from it to an end, itself included.

    Starting the longest first keeps the run's length near its critical path.
    """
    lengths: dict[TaskId, int] = {}
    for node in reversed(topological(graph)):
        lengths[node] = 1 + max((lengths[child] for child in graph.successors(node)), default=0)
    return lengths


def critical_path(graph: Dag) -> tuple[TaskId, ...]:
    """A longest chain of tasks, first to last; empty for an empty graph."""
    return tuple(nx.dag_longest_path(graph, weight=None, default_weight=1)) if graph else ()


def merge_order(graph: Dag, ids: Sequence[TaskId]) -> tuple[TaskId, ...]:
    """`ids` by topological level, then plan order: the same whatever order tasks ended in."""
    levels: dict[TaskId, int] = {}
    relevant, todo = set(ids), list(ids)
    while todo:
        found = set(graph.predecessors(todo.pop())) - relevant
        relevant |= found
        todo.extend(found)
    for node in nx.topological_sort(graph.subgraph(relevant)):
        levels[node] = 1 + max((levels[up] for up in graph.predecessors(node)), default=0)
    position = {node: index for index, node in enumerate(graph)}
    return tuple(sorted(ids, key=lambda item: (levels[item], position[item])))


def ancestors(graph: Dag, task: TaskId) -> tuple[TaskId, ...]:
    """Everything upstream of `task`, in plan order."""
    above = nx.ancestors(graph, task)
    return tuple(node for node in graph if node in above)


def descendants(graph: Dag, task: TaskId) -> tuple[TaskId, ...]:
    """Everything downstream of `task`, in plan order."""
    below = nx.descendants(graph, task)
    return tuple(node for node in graph if node in below)


def writes_of(task: Task, roles: Mapping[str, Role]) -> bool:
    """Whether the task's own agent changes the tree."""
    role = roles.get(task.role) if task.role is not None else None
    return role is not None and role.writes


def plans(task: Task, roles: Mapping[str, Role]) -> bool:
    """Whether the task hands in a plan or a patch: its commit is a view, no work."""
    role = roles.get(task.role) if task.role is not None else None
    return role is not None and role.product in ("patch", "plan")


def carriers(graph: Dag, tasks: Mapping[TaskId, Task], roles: Mapping[str, Role]) -> set[TaskId]:
    """Tasks whose commit holds a writer's work: writers and everything built on them.

    Planner tasks carry nothing on: their product is a patch, and their view of a failed merge must
    not become part of a result.
    """
    carrying: set[TaskId] = set()
    for node in topological(graph):
        task = tasks[node]
        if plans(task, roles):
            continue
        if writes_of(task, roles) or any(need in carrying for need in task.needs):
            carrying.add(node)
    return carrying


def writing_sinks(
    graph: Dag, tasks: Mapping[TaskId, Task], roles: Mapping[str, Role]
) -> tuple[TaskId, ...]:
    """Carriers that no other carrier builds on, in plan order. One of them is the run's result."""
    carrying = carriers(graph, tasks, roles)
    fed = {need for node in carrying for need in tasks[node].needs}
    return tuple(node for node in graph if node in carrying and node not in fed)


def parallel_pairs(
    graph: Dag, ids: Sequence[TaskId], alike: Sequence[int]
) -> Iterator[tuple[TaskId, TaskId]]:
    """Pairs of `ids`, given in plan order, with no path between them, in plan order.

    Bit n of `alike[m]` says whether the pair of `ids` m and n is wanted. Reachability is kept in
    the same way, one big integer a node: thousands of tasks cost milliseconds.
    """
    bit = {item: 1 << index for index, item in enumerate(ids)}
    order = topological(graph)
    above = dict.fromkeys(order, 0)
    for node in order:
        for parent in graph.predecessors(node):
            above[node] |= above[parent] | bit.get(parent, 0)
    below = dict.fromkeys(order, 0)
    for node in reversed(order):
        for child in graph.successors(node):
            below[node] |= below[child] | bit.get(child, 0)
    for index, first in enumerate(ids):
        apart = alike[index] & ~(above[first] | below[first]) & ~((2 << index) - 1)
        while apart:
            lowest = apart & -apart
            apart ^= lowest
            yield first, ids[lowest.bit_length() - 1]
