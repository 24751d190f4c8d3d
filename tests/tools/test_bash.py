"""`Bash`: status, both streams in order, caps, time limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.tools.registry import TOOLS
from tests.tools.trees import bench_of


@pytest.mark.asyncio
async def test_output_and_status(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x\n"}, env={"COLOUR": "blue"}) as bench:
        assert await bench.use("Bash", command="cat a.txt; echo $COLOUR") == (
            "x\nblue\n[exit status 0]"
        )
        assert await bench.use("Bash", command="true") == "[no output, exit status 0]"
        both = await bench.error("Bash", command="echo one; echo two >&2; echo three; exit 3")
        assert both == "one\ntwo\nthree\n[exit status 3]"
        assert await bench.error("Bash", command="printf broken; kill -9 $$") == (
            "broken\n[exit status 137]"
        )


@pytest.mark.asyncio
async def test_it_is_a_plain_shell(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x\n"}) as bench:
        assert await bench.use("Bash", command="false; false | true; echo on") == (
            "on\n[exit status 0]"
        )
        assert await bench.use("Bash", command="cat") == "[no output, exit status 0]"


@pytest.mark.asyncio
async def test_a_flood_keeps_head_and_tail_and_says_what_is_gone(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        answer = await bench.use("Bash", command="seq 1 2000000")
        assert len(answer) <= 20_000
        assert answer.startswith("1\n2\n3\n")
        assert answer.endswith("1999999\n2000000\n[exit status 0]")
        assert "bytes more left out here: run again with less output" in answer


@pytest.mark.asyncio
async def test_A23_a_command_that_ran_out_of_time_keeps_its_output(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        answer = await bench.error("Bash", command="echo 'prompt? '; sleep 99", timeout=700)
        assert answer.startswith("prompt? \n[ended after 0.7 s, with all that it had started; ")
        assert "give a longer timeout" in answer


@pytest.mark.asyncio
async def test_A23_the_task_caps_the_time(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}, timeout_s=0.5) as bench:
        answer = await bench.error("Bash", command="echo on; sleep 99", timeout=600_000)
        assert "[ended after 0.5 s" in answer
        assert "0.5 s is the most here" in answer


@pytest.mark.asyncio
async def test_Z11_escape_sequences_are_gone(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        command = r"printf '\033]52;c;ZXZpbA==\007\033[31mred\033[0m\r\n10%%\r99%%\n'"
        assert await bench.use("Bash", command=command) == "red\n99%\n[exit status 0]"


@pytest.mark.asyncio
async def test_a_command_with_a_zero_byte_is_an_error(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        assert "wrong arguments: command" in await bench.error("Bash", command="echo \0")


def test_only_what_leaves_the_tree_alone_is_read_only() -> None:
    reading = {name for name, tool in TOOLS.items() if tool.read_only}
    assert reading == {"Glob", "Grep", "Read", "TodoWrite"}
