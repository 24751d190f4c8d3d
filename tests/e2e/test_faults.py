"""A model's server that fails in every way there is: runs end as if it had not.

Which request fails how is chosen by hash (`tests.support.api.faults`), so every run here is the
same each time. Waits take no time. The plan is small and its gates cheap, so that many runs fit;
the bundled demo goes through the same in the slow part.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import data
from tests.e2e.served import Served, assert_as_without_faults, demo_place, run_served
from tests.e2e.support import (
    Call,
    bash,
    change,
    make_place,
    report,
    turns,
    write,
    write_yaml,
    writer,
)
from tests.support.api.conversation import script_policy, thoughtful
from tests.support.api.faults import KINDS, FaultKind, Faults
from tests.support.api.server import NO_FAULTS
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(300)

SEEDS = range(10)

FILES = {"list.txt": "one\n"}
TASKS = {
    "look": {"role": "explorer", "prompt": "look"},
    "a": writer(needs="look", writes=["/a.txt"], gates=["test -f a.txt"]),
    "b": writer(needs="look", writes=["/b.txt"]),
}
READ: Call = {"Read": {"file_path": "list.txt"}}
SCRIPT = {
    "look": turns([READ, {"Glob": {"pattern": "*"}}], report("one line")),
    "a": turns(READ, write("a.txt", "1\n"), bash("echo 2 >> a.txt"), change("a")),
    "b": turns(READ, [bash("echo 1 > b.txt"), bash("echo 2 >> b.txt")], change("b")),
}
"""A command that ran twice would leave a third line."""
RESULT = {"a.txt": "1\n2", "b.txt": "1\n2", "list.txt": "one"}


def light_run(folder: Path, faults: Faults = NO_FAULTS) -> Served:
    """One run of the small plan."""
    place = make_place(folder, FILES)
    document = {"tasks": TASKS, "gates": ["test -f a.txt -a -f b.txt"]}
    plan = write_yaml(folder / "plan.yaml", document)
    return run_served(place, plan, thoughtful(script_policy(SCRIPT)), faults=faults)


def demo_run(folder: Path, faults: Faults = NO_FAULTS) -> Served:
    """One run of the bundled demo."""
    demo = data.demo("kitebase")
    place = demo_place(folder)
    policy = thoughtful(script_policy(demo.script))
    return run_served(place, demo.plan, policy, faults=faults, demo=True)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """The small plan's run when nothing goes wrong."""
    served = light_run(tmp_path_factory.mktemp("wanted"))
    branch = f"orchestrate/{served.place.id}"
    names = git(served.place.repository, "ls-tree", "-r", "--name-only", branch).split()
    shown = {name: git(served.place.repository, "show", f"{branch}:{name}") for name in names}
    assert shown == RESULT
    assert_as_without_faults(served, served)
    return served


def struck(served: Served) -> list[FaultKind]:
    """The faults that happened."""
    return [item.fault for item in served.server.log if item.fault is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_the_first_try_of_every_turn(
    wanted: Served, tmp_path: Path, kind: FaultKind
) -> None:
    served = light_run(tmp_path, Faults(0, {kind: 1.0}, tries_max=1))
    assert_as_without_faults(served, wanted)
    assert set(struck(served)) == {kind}
    assert {item.key for item in served.server.log} == {item.key for item in wanted.server.log}
    waits = kind != "unknown_block"
    assert (served.clock.slept > 0) == waits


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_two_requests_in_ten_fail_in_some_way(wanted: Served, tmp_path: Path, seed: int) -> None:
    served = light_run(tmp_path, Faults.mixed(seed, 0.2))
    assert_as_without_faults(served, wanted)


def light_runs(folder: Path, *faults: Faults) -> Iterator[Served]:
    for number, each in enumerate(faults):
        place = folder / str(number)
        place.mkdir()
        yield light_run(place, each)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_request_in_ten_fails(wanted: Served, tmp_path: Path, kind: FaultKind) -> None:
    seen = []
    for served in light_runs(tmp_path, *(Faults(seed, {kind: 0.1}) for seed in SEEDS)):
        assert_as_without_faults(served, wanted)
        seen += struck(served)
    assert set(seen) == {kind}


@pytest.mark.slow
def test_two_requests_in_ten_fail_for_all_seeds(wanted: Served, tmp_path: Path) -> None:
    seen = []
    for served in light_runs(tmp_path, *(Faults.mixed(seed, 0.2) for seed in SEEDS)):
        assert_as_without_faults(served, wanted)
        seen += struck(served)
    assert len(set(seen)) > len(KINDS) / 2


@pytest.fixture(scope="module")
def wanted_demo(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """The demo's run when nothing goes wrong."""
    return demo_run(tmp_path_factory.mktemp("wanted-demo"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_demo_ends_as_without_faults(wanted_demo: Served, tmp_path: Path, seed: int) -> None:
    served = demo_run(tmp_path, Faults.mixed(seed, 0.2))
    assert_as_without_faults(served, wanted_demo)
    assert struck(served)


@pytest.mark.grid
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_under_each_fault_alone(
    wanted_demo: Served, tmp_path: Path, kind: FaultKind, seed: int
) -> None:
    served = demo_run(tmp_path, Faults(seed, {kind: 0.1}))
    assert_as_without_faults(served, wanted_demo)
