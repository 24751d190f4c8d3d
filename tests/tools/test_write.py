"""`Write`: new files, and whole files that were seen whole."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator.ports import FileAccessError
from tests.tools.trees import bench_of


@pytest.mark.asyncio
async def test_a_new_file_is_made_with_its_folders(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        said = await bench.use("Write", file_path="src/new/a.py", content="x = 1\ny = 2")
        assert said == "Created src/new/a.py (2 lines, 11 bytes)."
        assert await bench.content("src/new/a.py") == b"x = 1\ny = 2"


@pytest.mark.asyncio
async def test_a_file_that_was_not_read_is_not_replaced(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\ntwo\n"}) as bench:
        error = await bench.error("Write", file_path="a.txt", content="new\n")
        assert "a.txt exists (2 lines) and was not read: nothing was changed" in error
        assert await bench.content("a.txt") == b"one\ntwo\n"
        await bench.use("Read", file_path=f"{bench.workspace.location}/./a.txt")
        assert "Replaced a.txt" in await bench.use("Write", file_path="a.txt", content="new\n")
        assert "Replaced a.txt" in await bench.use("Write", file_path="a.txt", content="newer\n")
        assert await bench.content("a.txt") == b"newer\n"


@pytest.mark.asyncio
async def test_a_part_is_not_enough_but_pages_add_up(tmp_path: Path) -> None:
    text = "".join(f"{number}\n" for number in range(10))
    async with bench_of(tmp_path, {"a.txt": text}) as bench:
        await bench.use("Read", file_path="a.txt", limit=4)
        await bench.use("Read", file_path="a.txt", offset=8)
        error = await bench.error("Write", file_path="a.txt", content="new\n")
        assert "only the first 4 lines of a.txt were read" in error
        await bench.use("Read", file_path="a.txt", offset=5, limit=3)
        await bench.use("Read", file_path="a.txt", offset=8)
        await bench.use("Write", file_path="a.txt", content="new\n")


@pytest.mark.asyncio
async def test_what_changed_since_must_be_read_again(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\n"}) as bench:
        await bench.use("Read", file_path="a.txt")
        await bench.use("Bash", command="echo two >> a.txt")
        error = await bench.error("Write", file_path="a.txt", content="new\n")
        assert "has changed since you saw it" in error
        await bench.use("Read", file_path="a.txt")
        await bench.use("Edit", file_path="a.txt", old_string="two", new_string="three")
        await bench.use("Write", file_path="a.txt", content="new\n")


@pytest.mark.asyncio
async def test_A14_a_replaced_file_keeps_its_conventions(tmp_path: Path) -> None:
    files = {"a.txt": b"\xef\xbb\xbfone\r\ntwo\r\n", "b.txt": b"caf\xe9\n"}
    async with bench_of(tmp_path, files) as bench:
        for path in files:
            await bench.use("Read", file_path=path)
        await bench.use("Write", file_path="a.txt", content="one\nthree\n")
        assert await bench.content("a.txt") == b"\xef\xbb\xbfone\r\nthree\r\n"
        await bench.use("Write", file_path="b.txt", content="thé\n")
        assert await bench.content("b.txt") == b"th\xe9\n"
        assert "not UTF-8" in await bench.error("Write", file_path="b.txt", content="…\n")


@pytest.mark.asyncio
async def test_a_whole_file_that_no_longer_parses_is_refused(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.py": "x = 1\n"}) as bench:
        await bench.use("Read", file_path="a.py")
        error = await bench.error("Write", file_path="a.py", content="x = (1\n")
        assert "it would no longer parse (Python, line 1: '(' was never closed" in error
        assert await bench.content("a.py") == b"x = 1\n"
        said = await bench.use("Write", file_path="fixture.py", content="x = (1\n")
        assert "Note that it does not parse" in said


@pytest.mark.asyncio
async def test_the_same_content_is_said_to_change_nothing(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\n"}) as bench:
        await bench.use("Read", file_path="a.txt")
        said = await bench.use("Write", file_path="a.txt", content="one\n")
        assert said == "a.txt already has this content: nothing was changed."


@pytest.mark.asyncio
async def test_places_outside_of_the_tree_are_refused(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        for path in ("../out.txt", str(tmp_path / "out.txt"), ".git/hooks/pre-commit"):
            with pytest.raises(FileAccessError):
                await bench.use("Write", file_path=path, content="x")
        assert not (tmp_path / "out.txt").exists()


@pytest.mark.asyncio
async def test_content_that_a_parser_cannot_cope_with_stops_nobody(tmp_path: Path) -> None:
    endless = "a" + ".a" * 250_000 + " = 1\n"  # minutes for the standard library's TOML parser
    async with bench_of(tmp_path, {}) as bench:
        said: list[str] = []

        async def write() -> None:
            said.append(await bench.use("Write", file_path="a.toml", content=endless))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            with anyio.fail_after(5):  # the event loop turns meanwhile
                for _ in range(20):
                    await anyio.sleep(0.001)
        assert "Whether it parses is not known" in said[0]
