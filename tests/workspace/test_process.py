"""The process runner against real programs that misbehave."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import WorkspaceError
from orchestrator.ports import Completed
from orchestrator.workspace.process import run_process

ENV = {"PATH": os.defpath + ":/usr/local/bin"}


async def run(*argv: str, cwd: Path, timeout_s: float = 30, bytes_max: int = 10_000) -> Completed:
    return await run_process(
        argv, cwd=cwd, env=ENV, timeout_s=timeout_s, output_bytes_max=bytes_max
    )


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
            != "Z"
        )
    except FileNotFoundError:
        return False


async def wait_gone(pid: int) -> None:
    with anyio.fail_after(5):
        while is_running(pid):
            await anyio.sleep(0.01)


async def wait_for(path: Path) -> None:
    with anyio.fail_after(10):
        while not path.exists():
            await anyio.sleep(0.01)


@pytest.mark.asyncio
async def test_status_and_both_streams_in_order(tmp_path: Path) -> None:
    done = await run("sh", "-c", "echo a; echo b >&2; echo c; exit 3", cwd=tmp_path)
    assert (done.exit_status, done.output, done.dropped_bytes) == (3, b"a\nb\nc\n", 0)


@pytest.mark.asyncio
async def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    done = await run_process(
        ["/usr/bin/env"], cwd=tmp_path, env={"A": "1"}, timeout_s=30, output_bytes_max=1000
    )
    assert done.output == b"A=1\n"


@pytest.mark.asyncio
async def test_a_signal_is_128_and_its_number(tmp_path: Path) -> None:
    done = await run("sh", "-c", "kill -SEGV $$", cwd=tmp_path)
    assert done.exit_status == 128 + signal.SIGSEGV


@pytest.mark.asyncio
async def test_G02_a_background_child_does_not_hold_the_call(tmp_path: Path) -> None:
    done = await run("sh", "-c", "sleep 300 & echo $! > pid; echo ok", cwd=tmp_path)
    assert (done.exit_status, done.output) == (0, b"ok\n")
    assert done.seconds < 5
    await wait_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


@pytest.mark.asyncio
async def test_G06_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > pid; wait"
    done = await run("bash", "-c", script, cwd=tmp_path, timeout_s=1)
    assert done.timed_out
    assert not is_running(int((tmp_path / "pid").read_text(encoding="utf-8")))


@pytest.mark.asyncio
async def test_A23_a_time_limit_keeps_the_partial_output(tmp_path: Path) -> None:
    done = await run("sh", "-c", "echo prompt?; sleep 99", cwd=tmp_path, timeout_s=1)
    assert (done.exit_status, done.output) == (None, b"prompt?\n")


@pytest.mark.asyncio
async def test_X03_a_child_that_ignores_term_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ > pid; while :; do sleep 600; done"
    done = await run("bash", "-c", script, cwd=tmp_path, timeout_s=1)
    assert done.timed_out
    assert not is_running(int((tmp_path / "pid").read_text(encoding="utf-8")))


@pytest.mark.asyncio
async def test_X07_no_zombies(tmp_path: Path) -> None:
    for _ in range(20):
        await run("true", cwd=tmp_path)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.asyncio
async def test_S03_S07_cancelling_ends_the_group_before_the_call_returns(tmp_path: Path) -> None:
    script = "(sleep 60; touch late) & echo $! > pid; echo $$ > parent; wait"

    async def command() -> None:
        await run("bash", "-c", script, cwd=tmp_path)

    async with anyio.create_task_group() as group:
        group.start_soon(command)
        await wait_for(tmp_path / "parent")
        group.cancel_scope.cancel()
    assert not is_running(int((tmp_path / "parent").read_text(encoding="utf-8")))
    assert not is_running(int((tmp_path / "pid").read_text(encoding="utf-8")))
    assert not (tmp_path / "late").exists()


@pytest.mark.asyncio
async def test_G10_stdin_is_empty(tmp_path: Path) -> None:
    done = await run("cat", cwd=tmp_path)
    assert (done.exit_status, done.output) == (0, b"")


@pytest.mark.asyncio
async def test_stdin_may_be_bytes_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"from a file")
    for stdin, expected in ((b"x" * 200_000, b"200000\n"), (tmp_path / "f", b"11\n")):
        done = await run_process(
            ["wc", "-c"],
            cwd=tmp_path,
            env=ENV,
            timeout_s=30,
            output_bytes_max=1000,
            stdin=stdin,
        )
        assert done.output == expected


@pytest.mark.asyncio
async def test_a_missing_program_is_127_and_says_so(tmp_path: Path) -> None:
    done = await run("no-such-program", cwd=tmp_path)
    assert done.exit_status == 127
    assert b"no-such-program" in done.output


@pytest.mark.asyncio
async def test_a_file_that_is_no_program_is_126(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello", encoding="utf-8")
    done = await run("./notes", cwd=tmp_path)
    assert done.exit_status == 126


@pytest.mark.asyncio
async def test_W17_a_vanished_folder_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="gone"):
        await run("true", cwd=tmp_path / "nowhere")


@pytest.mark.asyncio
async def test_output_keeps_head_and_tail_and_counts_the_middle(tmp_path: Path) -> None:
    script = "printf HEAD; head -c 100000 /dev/zero; printf TAIL"
    done = await run("sh", "-c", script, cwd=tmp_path, bytes_max=1000)
    assert len(done.output) == 1000
    assert done.output.startswith(b"HEAD")
    assert done.output.endswith(b"TAIL")
    assert done.dropped_bytes == 100_008 - 1000


@pytest.mark.asyncio
async def test_output_is_bytes_whatever_they_are(tmp_path: Path) -> None:
    done = await run("printf", r"\377\376", cwd=tmp_path)
    assert done.output == b"\xff\xfe"


@pytest.mark.asyncio
async def test_200_megabytes_of_output_cost_little_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await run("head", "-c", "200000000", "/dev/zero", cwd=tmp_path, bytes_max=1_000_000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert done.dropped_bytes == 199_000_000
    assert grown_kib < 10_000


@pytest.mark.asyncio
async def test_a_thousand_tiny_writes_are_all_there(tmp_path: Path) -> None:
    script = "import os\nfor n in range(1000): os.write(1, b'%d,' % n)"
    done = await run(sys.executable, "-c", script, cwd=tmp_path)
    assert done.output == b"".join(b"%d," % n for n in range(1000))


@pytest.mark.asyncio
async def test_the_deadline_holds_within_a_second_or_two(tmp_path: Path) -> None:
    started = time.monotonic()
    await run("sleep", "600", cwd=tmp_path, timeout_s=0.2)
    assert time.monotonic() - started < 5
