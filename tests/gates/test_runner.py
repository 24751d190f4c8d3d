"""Gates as real commands: what is red, what is seen, what is run twice and what is not."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from orchestrator.core.events import GateRecord
from orchestrator.core.plan import Gate
from orchestrator.gates.runner import OUTPUT_BYTES_MAX
from orchestrator.workspace.bubblewrap import find_bubblewrap
from orchestrator.workspace.sandbox import NoSandbox, Sandbox
from tests.gates.rig import Rig, gate
from tests.support.repositories import commit_on, fingerprint, git


@pytest.fixture(params=["none", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "none":
        return NoSandbox()
    found = find_bubblewrap()
    if found is None:
        pytest.skip("bubblewrap is not installed")
    return found


def ran(record: GateRecord) -> tuple[str, int | None, str]:
    return record.outcome, record.exit_status, record.tail


@pytest.mark.asyncio
async def test_the_record_is_the_evidence(tmp_path: Path, sandbox: Sandbox) -> None:
    rig = await Rig.make(tmp_path, sandbox=sandbox)
    record = await rig.one(gate("cat a.py; echo oops >&2; exit 3", "unit"))
    assert (record.name, record.argv) == (
        "unit",
        ("bash", "-e", "-o", "pipefail", "-c", "cat a.py; echo oops >&2; exit 3"),
    )
    assert ran(record) == ("failed", 3, "x = 1\noops")
    assert record.tree == git(rig.top, "rev-parse", "HEAD^{tree}")
    assert not record.passed
    assert record.base is None
    whole = b"x = 1\noops\n"
    assert record.output == hashlib.sha256(whole).hexdigest()
    assert (rig.outputs / f"{record.output}.txt").read_bytes() == whole


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "command", ["false | tee log", "echo 1 failed | grep passed | tail -1", "false; echo done"]
)
async def test_G01_no_pipe_and_no_semicolon_hides_a_failure(tmp_path: Path, command: str) -> None:
    rig = await Rig.make(tmp_path)
    record = await rig.one(gate(command))
    assert (record.outcome, record.exit_status) == ("failed", 1)


@pytest.mark.asyncio
async def test_G01_G09_a_runner_that_fails_or_finds_no_tests_is_red_behind_tail(
    tmp_path: Path,
) -> None:
    tests = {"test_a.py": "def test_a():\n    assert 1 == 2\n", "empty/nothing.py": "\n"}
    rig = await Rig.make(tmp_path, tests)
    program = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -P -m pytest -q -p no:cacheprovider"
    if (await rig.one(gate("python3 -c 'import pytest'"))).outcome != "passed":
        pytest.skip("the PATH's python3 has no pytest")
    failing = await rig.one(gate(f"{program} test_a.py | tail -1"))
    assert (failing.outcome, failing.exit_status) == ("failed", 1)
    nothing = await rig.one(gate(f"{program} empty | tail -1"))
    assert (nothing.outcome, nothing.exit_status) == ("failed", 5)


@pytest.mark.asyncio
async def test_G02_a_gate_is_over_when_its_command_is(tmp_path: Path, sandbox: Sandbox) -> None:
    rig = await Rig.make(tmp_path, sandbox=sandbox)
    with anyio.fail_after(30):
        record = await rig.one(gate("sleep 300 & echo ok", timeout_s=200))
    assert ran(record) == ("passed", 0, "ok")


@pytest.mark.asyncio
async def test_G06_A23_past_its_time_a_gate_is_red_with_what_it_said(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    rig = await Rig.make(tmp_path, sandbox=sandbox)
    with anyio.fail_after(30):
        record = await rig.one(gate("echo prompt?; sleep 300 & wait", timeout_s=1))
    assert ran(record) == ("timeout", None, "prompt?")


@pytest.mark.asyncio
async def test_G10_a_gate_that_reads_gets_nothing(tmp_path: Path, sandbox: Sandbox) -> None:
    rig = await Rig.make(tmp_path, sandbox=sandbox)
    with anyio.fail_after(30):
        assert ran(await rig.one(gate("cat"))) == ("passed", 0, "")


@pytest.mark.asyncio
async def test_G13_bytes_that_are_no_text_and_a_flood_become_a_short_text(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    flood = "import sys; o = sys.stdout.buffer; o.write(b'\\xff\\xfe' + 'é'.encode() * 10**6); "
    record = await rig.one(gate(("python3", "-c", flood + "sys.exit(1)")))
    assert (record.outcome, record.exit_status) == ("failed", 1)
    assert record.tail == "[...]" + "é" * 4_000
    assert (rig.outputs / f"{record.output}.txt").stat().st_size == OUTPUT_BYTES_MAX
    short = await rig.one(gate(r"printf '\377\376 caf\351\n'"))
    assert short.tail == "\ufffd\ufffd caf\ufffd"


@pytest.mark.asyncio
async def test_G14_the_exit_status_rules(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    record = await rig.one(gate("echo ERROR: 3 tests FAILED; exit 0"))
    assert ran(record) == ("passed", 0, "ERROR: 3 tests FAILED")


@pytest.mark.asyncio
async def test_a_tool_that_is_missing_or_cannot_run_is_told_apart(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    rig = await Rig.make(tmp_path, sandbox=sandbox)
    for run in ("no-such-tool --all", "no-such-tool | cat", ("no-such-tool", "x")):
        record = await rig.one(gate(run))
        assert (record.outcome, record.exit_status) == ("environment", 127)
        assert "no-such-tool" in record.tail
    refused = await rig.one(gate("./a.py"))
    assert (refused.outcome, refused.exit_status) == ("environment", 126)


@pytest.mark.asyncio
async def test_a_list_is_an_argv_and_meets_no_shell(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    record = await rig.one(gate(("echo", "$HOME", "; false", "a b")))
    assert ran(record) == ("passed", 0, "$HOME ; false a b")


@pytest.mark.asyncio
async def test_gates_stop_at_the_first_red_one(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    records = await rig.verify(gate("true", "a"), gate("exit 2", "b"), gate("true", "c"))
    assert [(record.name, record.outcome) for record in records] == [
        ("a", "passed"),
        ("b", "failed"),
    ]
    assert await rig.verify() == ()


@pytest.mark.asyncio
async def test_a_red_gate_is_tried_on_the_base_too_but_never_replaced_by_it(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    commit = commit_on(rig.top, rig.base, {"a.py": "x = 2\n", "b.py": "\n"})
    (new,) = await rig.verify(gate("grep 1 a.py"), commit=commit)
    assert (new.outcome, new.base) == ("failed", "passed")
    (old,) = await rig.verify(gate("grep 3 a.py"), commit=commit)
    assert (old.outcome, old.base) == ("failed", "failed")
    (slow,) = await rig.verify(gate("test -f b.py && exit 1; no-such-tool"), commit=commit)
    assert (slow.outcome, slow.base) == ("failed", "environment")
    (green,) = await rig.verify(gate("test -f b.py"), commit=commit)
    assert (green.outcome, green.base) == ("passed", None)
    assert (await rig.one(gate("test -f b.py"))).outcome == "failed"


@pytest.mark.asyncio
async def test_a_result_is_computed_once_also_when_many_ask_at_once(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    counter = tmp_path / "counter"
    same = gate(f"echo ran >> {counter}; cat /proc/sys/kernel/random/uuid; exit 1")
    records: list[GateRecord] = []

    async def ask(name: str) -> None:
        records.extend(await rig.verify(same.model_copy(update={"name": name})))

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(ask, f"gate {number}")
    records.extend(await rig.verify(same))
    assert counter.read_text(encoding="utf-8") == "ran\n"
    assert len({record.tail for record in records}) == 1
    assert sorted(record.name for record in records) == ["g", *(f"gate {n}" for n in range(5))]


@pytest.mark.asyncio
async def test_a_result_is_shared_between_commits_of_one_tree(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    same_tree = commit_on(rig.top, rig.base, {}, "nothing")
    assert same_tree != rig.base
    uuid = gate("cat /proc/sys/kernel/random/uuid")
    assert await rig.verify(uuid) == await rig.verify(uuid, commit=same_tree)


@pytest.mark.asyncio
async def test_a_result_is_not_shared_where_anything_differs(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    other = commit_on(rig.top, rig.base, {"a.py": "x = 2\n"})
    echo = 'echo "$A"; cat a.py'
    first = await rig.one(gate(echo, A="1"))
    assert first.tail == "1\nx = 1"
    assert (await rig.one(gate(echo, A="2"))).tail == "2\nx = 1"
    assert (await rig.one(gate(echo))).tail == "\nx = 1".strip("\n")
    assert (await rig.one(gate(echo, A="1"), commit=other)).tail == "1\nx = 2"
    (task,) = await rig.verify(gate(echo), env={"A": "3"})
    assert task.tail == "3\nx = 1"
    (over,) = await rig.verify(gate(echo, A="1"), env={"A": "3"})
    assert over == first


@pytest.mark.asyncio
async def test_gates_that_differ_in_their_time_alone_do_not_meet(tmp_path: Path) -> None:
    """Each waits until both have begun: with one checkout for both, one would lose its files."""
    rig = await Rig.make(tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    os.mkfifo(one)
    os.mkfifo(two)
    meet = (
        f"if mkdir {tmp_path}/first; then read -r x < {one}; echo y > {two};"
        f" else echo x > {one}; read -r y < {two}; fi 2> {tmp_path}/log; cat a.py"
    )
    records: list[GateRecord] = []

    async def ask(timed: Gate) -> None:
        records.extend(await rig.verify(timed))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, gate(meet, timeout_s=50))
            group.start_soon(ask, gate(meet, timeout_s=51))
    assert [ran(record) for record in records] == [("passed", 0, "x = 1")] * 2


@pytest.mark.asyncio
async def test_whoever_waits_for_a_gate_that_is_cancelled_runs_it(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    started = tmp_path / "started"
    hangs_once = gate(f"if mkdir {started}; then mkfifo p; read -r x < p; fi; echo second")
    records: list[GateRecord] = []
    scope = anyio.CancelScope()

    async def first() -> None:
        with scope:
            await rig.verify(hangs_once)

    async def second() -> None:
        records.extend(await rig.verify(hangs_once))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            while not started.exists():
                await anyio.lowlevel.checkpoint()
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert [record.outcome for record in records] == ["passed"]
    assert records[0].tail.endswith("second")


@pytest.mark.asyncio
async def test_each_gate_sees_a_tree_that_nothing_has_run_in(tmp_path: Path) -> None:
    rig = await Rig.make(tmp_path)
    dirty = gate("echo broken > a.py; touch left; mkdir -p .cache/x", "dirty")
    records = await rig.verify(dirty, gate("cat a.py; ls -A", "clean"))
    assert records[1].tail == "x = 1\n.git\na.py"


@pytest.mark.asyncio
async def test_a_gate_reaches_neither_the_hub_nor_another_workspace_nor_the_target(
    tmp_path: Path,
) -> None:
    found = find_bubblewrap()
    if found is None:
        pytest.skip("bubblewrap is not installed")
    rig = await Rig.make(tmp_path, sandbox=found)
    before = fingerprint(rig.top), fingerprint(rig.hub.path)
    async with rig.workspaces.open("r1.work.1", rig.base) as workspace:
        place = tmp_path / "state" / "trees" / "r1.work.1" / "tree"
        targets = [place / "a.py", rig.hub.path / "config", rig.hub.path / "objects", rig.top]
        touched = " ".join(map(str, targets))
        attack = (
            f"for t in {touched}; do ls $t && echo seen; echo evil > $t || true; rm -rf $t; done;"
            " git init -q . || true; git config core.fsmonitor evil || true; echo evil > a.py"
        )
        record = await rig.one(gate(attack))
        assert "seen" not in record.tail
        assert await workspace.read("a.py", bytes_max=100) == b"x = 1\n"
    assert (fingerprint(rig.top), fingerprint(rig.hub.path)) == before
