"""Orders, cycles and carriers of small graphs, with values by hand."""

from __future__ import annotations

from itertools import pairwise

from orchestrator.core import graph as graphs
from orchestrator.core.plan import Task, When
from tests.core.story import task
from tests.support.simulator import ROLES


def carriers(*tasks: Task) -> set[str]:
    return graphs.carriers(graphs.build(tasks), {item.id: item for item in tasks}, ROLES)


def sinks(*tasks: Task) -> tuple[str, ...]:
    return graphs.writing_sinks(graphs.build(tasks), {item.id: item for item in tasks}, ROLES)


def test_P02_an_edge_to_an_unknown_task_makes_no_phantom_node() -> None:
    graph = graphs.build([task("b", "tpyo")])
    assert list(graph) == ["b"]
    assert list(graph.edges) == []


def test_the_task_that_when_looks_at_is_an_edge() -> None:
    graph = graphs.build([task("a"), task("b", when=When(task="a", field="approve", equals=True))])
    assert list(graph.edges) == [("a", "b")]


def test_a_cycle_is_a_closed_path() -> None:
    graph = graphs.build([task("a", "c"), task("b", "a"), task("c", "b"), task("d", "c")])
    cycle = graphs.find_cycle(graph)
    assert cycle is not None
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[:-1]) == ["a", "b", "c"]
    assert all(graph.has_edge(*edge) for edge in pairwise(cycle))


def test_a_graph_without_cycle_has_none() -> None:
    assert graphs.find_cycle(graphs.build([task("a"), task("b", "a")])) is None


def test_topological_order_is_plan_order_where_edges_leave_it_free() -> None:
    graph = graphs.build([task("z"), task("b", "c"), task("c"), task("a", "z")])
    assert graphs.topological(graph) == ["z", "c", "b", "a"]


def test_remaining_paths_count_tasks_to_the_farthest_end() -> None:
    #   a -> b -> d      c -> d      e
    graph = graphs.build([task("a"), task("b", "a"), task("c"), task("d", "b c"), task("e")])
    assert graphs.remaining_paths(graph) == {"a": 3, "b": 2, "c": 2, "d": 1, "e": 1}


def test_the_critical_path_is_a_longest_chain() -> None:
    graph = graphs.build([task("x"), task("a"), task("b", "a x"), task("c", "b")])
    assert len(graphs.critical_path(graph)) == 3
    assert graphs.critical_path(graph)[1:] == ("b", "c")
    assert graphs.critical_path(graphs.build([])) == ()


def test_merge_order_is_level_then_plan_order_whatever_order_is_given() -> None:
    graph = graphs.build([task("late", "m"), task("m", "b"), task("b"), task("a")])
    for given in (["a", "b", "late", "m"], ["late", "m", "a", "b"]):
        assert graphs.merge_order(graph, given) == ("b", "a", "m", "late")
    assert graphs.merge_order(graph, []) == ()


def test_ancestors_and_descendants_are_in_plan_order() -> None:
    graph = graphs.build([task("d", "b c"), task("c", "a"), task("b", "a"), task("a"), task("e")])
    assert graphs.ancestors(graph, "d") == ("c", "b", "a")
    assert graphs.descendants(graph, "a") == ("d", "c", "b")


def test_carriers_are_writers_and_what_is_built_on_them() -> None:
    assert carriers(
        task("look", role="explorer"),
        task("write", "look"),
        task("review", "write", role="reviewer"),
        task("gate", "look", role=None),
    ) == {"write", "review"}


def test_a_planner_hands_no_work_on() -> None:
    assert carriers(
        task("a"), task("plan", "a", role="planner"), task("b", "plan", role="explorer")
    ) == {"a"}


def test_writing_sinks_are_carriers_that_no_carrier_builds_on() -> None:
    assert sinks(
        task("b"), task("a"), task("review", "a", role="reviewer"), task("e", role="explorer")
    ) == ("b", "review")


def test_a_planner_that_looks_at_a_writer_does_not_take_its_work_up() -> None:
    assert sinks(task("a"), task("plan", "a", role="planner")) == ("a",)


def test_parallel_pairs_are_those_without_a_path_in_either_direction() -> None:
    #   a -> b      c       d waits for a, and is listed before it
    graph = graphs.build([task("d", "a"), task("a"), task("b", "a"), task("c")])
    everything = [0b1111] * 4
    assert list(graphs.parallel_pairs(graph, ["d", "a", "b", "c"], everything)) == [
        ("d", "b"),
        ("d", "c"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_parallel_pairs_see_paths_through_others_and_only_wanted_pairs() -> None:
    graph = graphs.build([task("a"), task("m", "a"), task("b", "m"), task("c")])
    assert list(graphs.parallel_pairs(graph, ["a", "b", "c"], [0b111, 0b111, 0b111])) == [
        ("a", "c"),
        ("b", "c"),
    ]
    assert list(graphs.parallel_pairs(graph, ["a", "b", "c"], [0b101, 0b010, 0b101])) == [
        ("a", "c")
    ]
