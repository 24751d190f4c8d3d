"""`Grep` and `Glob`: what is found, what is left out and said so, and hostile patterns."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.support.repositories import Files
from tests.tools.trees import bench_of

FILES: Files = {
    "src/a.py": "def search(query):\n    return Search(query)\n",
    "src/deep/b.py": "import a\n\n# search here too\n",
    "docs/a.md": "Search the docs.\r\nThen stop.\r\n",
    "logo.png": b"search\0\1",
    ".gitignore": "build/\n",
}


@pytest.mark.asyncio
async def test_the_three_modes(tmp_path: Path) -> None:
    async with bench_of(tmp_path, FILES) as bench:
        await bench.use("Bash", command="mkdir build; echo search > build/x; echo search > new.txt")
        assert await bench.grep(pattern="search") == "new.txt\nsrc/a.py\nsrc/deep/b.py"
        assert await bench.grep(pattern="search", output_mode="content") == (
            "new.txt:1:search\nsrc/a.py:1:def search(query):\nsrc/deep/b.py:3:# search here too"
        )
        assert await bench.grep(pattern="search", output_mode="count", i=True) == (
            "docs/a.md:1\nnew.txt:1\nsrc/a.py:2\nsrc/deep/b.py:1"
        )
        without = await bench.grep(pattern=r"^Then \w+\.$", output_mode="content", n=False)
        assert without == "docs/a.md:Then stop."


@pytest.mark.asyncio
async def test_path_and_glob_narrow_it(tmp_path: Path) -> None:
    async with bench_of(tmp_path, FILES) as bench:
        assert await bench.grep(pattern="search", path="src/deep") == "src/deep/b.py"
        assert await bench.grep(pattern="search", path="src/a.py") == "src/a.py"
        assert await bench.grep(pattern="earch", glob="*.md") == "docs/a.md"
        assert await bench.grep(pattern="earch", path="src", glob="deep/*.{py,md}") == (
            "src/deep/b.py"
        )
        assert await bench.grep(pattern="nowhere", path="src") == "No match in 2 files."
        assert "no file or folder srcs" in await bench.error("Grep", pattern="x", path="srcs")


@pytest.mark.asyncio
async def test_what_was_left_out_is_counted(tmp_path: Path) -> None:
    files = {f"f{number}.txt": "hit\n" * 3 for number in range(5)}
    async with bench_of(tmp_path, files) as bench:
        lines = (await bench.grep(pattern="hit", output_mode="content", head_limit=4)).split("\n")
        assert lines[:4] == ["f0.txt:1:hit", "f0.txt:2:hit", "f0.txt:3:hit", "f1.txt:1:hit"]
        assert lines[4].startswith("[4 of 15 matching lines in 5 files shown, 11 left out: ")
        paths = (await bench.grep(pattern="hit", head_limit=2)).split("\n")
        assert paths[:2] == ["f0.txt", "f1.txt"]
        assert paths[2].startswith("[2 of 5 files shown, 3 left out: ")


@pytest.mark.asyncio
async def test_a_flood_stays_within_the_cap(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": ("x" * 400 + "\n") * 2_000}) as bench:
        answer = await bench.grep(pattern="x", output_mode="content", head_limit=5_000)
        assert len(answer) <= 20_000
        assert " of 2,000 matching lines in 1 files shown, " in answer


@pytest.mark.asyncio
async def test_a_long_line_is_shown_around_its_match(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.js": "x" * 2_000 + "needle" + "y" * 9_000}) as bench:
        answer = await bench.grep(pattern="needle", output_mode="content")
        assert "needle" in answer
        assert len(answer) < 700


@pytest.mark.asyncio
async def test_a_faulty_pattern_says_what_is_wrong(tmp_path: Path) -> None:
    async with bench_of(tmp_path, FILES) as bench:
        error = await bench.error("Grep", pattern="search(")
        assert "no regular expression: missing ), unterminated subpattern at position 6" in error


@pytest.mark.asyncio
async def test_a_pattern_that_backtracks_for_ever_is_ended_and_holds_nobody_up(
    tmp_path: Path,
) -> None:
    order: list[str] = []
    async with bench_of(tmp_path, {"a.txt": "a" * 60 + "!\n"}, timeout_s=2) as bench:

        async def hang() -> None:
            error = await bench.error("Grep", pattern="(a+)+$")
            assert "took more than 2 s and was ended: use a simpler pattern" in error
            order.append("hanging search")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            for _ in range(20):
                await bench.use("Read", file_path="a.txt")
            order.append("reads")
        assert order == ["reads", "hanging search"]
        assert await bench.grep(pattern="a!") == "a.txt"


@pytest.mark.asyncio
async def test_Z11_control_characters_in_matches_are_shown(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "evil \x1b[2J\x07\n"}) as bench:
        assert await bench.grep(pattern="evil", output_mode="content") == (
            "a.txt:1:evil \\x1b[2J\\x07"
        )


@pytest.mark.asyncio
async def test_glob_lists_the_newest_first(tmp_path: Path) -> None:
    async with bench_of(tmp_path, FILES) as bench:
        root = Path(bench.workspace.location)
        for age, path in enumerate(["src/deep/b.py", "src/a.py", "docs/a.md"]):
            os.utime(root / path, (2_000_000_000 - age, 2_000_000_000 - age))
        assert await bench.use("Glob", pattern="*.py") == "src/deep/b.py\nsrc/a.py"
        assert await bench.use("Glob", pattern="*.{md,py}", path="docs") == "docs/a.md"
        assert await bench.use("Glob", pattern=f"{root}/src/*.py") == "src/a.py"
        none = await bench.use("Glob", pattern="*.rs")
        assert none == "No file matches *.rs (5 files, ignored ones not among them)."


@pytest.mark.asyncio
async def test_glob_says_how_many_are_left_out(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {f"f{number:03}": "x" for number in range(250)}) as bench:
        lines = (await bench.use("Glob", pattern="f*")).split("\n")
        assert len(lines) == 201
        assert lines[-1].startswith("[the newest 200 of 250, 50 left out: ")
