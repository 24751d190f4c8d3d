"""`Read`: windows, totals, the way to the rest, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.ports import FileAccessError
from tests.support.repositories import Files
from tests.tools.trees import bench_of


@pytest.mark.asyncio
async def test_lines_are_numbered_and_the_end_is_said(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\n\ttwo\n\nfour"}) as bench:
        shown = await bench.use("Read", file_path="a.txt")
        assert (
            shown == "     1\tone\n     2\t\ttwo\n     3\t\n     4\tfour\n[lines 1-4 of 4, the end]"
        )
        absolute = f"{bench.workspace.location}/a.txt"
        assert await bench.use("Read", file_path=absolute) == shown


@pytest.mark.asyncio
async def test_a_window_says_how_to_go_on(tmp_path: Path) -> None:
    text = "".join(f"{number}\n" for number in range(1, 11))
    async with bench_of(tmp_path, {"a.txt": text}) as bench:
        middle = await bench.use("Read", file_path="a.txt", offset=4, limit=3)
        assert middle == (
            "     4\t4\n     5\t5\n     6\t6\n[lines 4-6 of 10 (21 bytes); go on with offset=7]"
        )
        error = await bench.error("Read", file_path="a.txt", offset=11)
        assert error == "offset 11 is past the end: a.txt has 10 lines"


@pytest.mark.asyncio
async def test_A22_a_file_of_megabytes_is_paged_to_its_end(tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(1, 100_001)]
    text = "\n".join(lines) + "\n"
    assert len(text) > 5_000_000
    async with bench_of(tmp_path, {"big.log": text}) as bench:
        first = await bench.use("Read", file_path="big.log")
        assert len(first) <= 20_000
        assert f"of 100,000 ({len(text):,} bytes); go on with offset=" in first
        seen: list[str] = []
        offset = 99_000
        while True:
            page = await bench.use("Read", file_path="big.log", offset=offset)
            *body, footer = page.split("\n")
            seen += [line.partition("\t")[2] for line in body]
            further = re.search(r"offset=(\d+)", footer)
            if further is None:
                break
            offset = int(further[1])
        assert seen == lines[98_999:]
        assert footer == f"[lines {offset}-100000 of 100,000, the end]"


@pytest.mark.asyncio
async def test_A22_one_endless_line_is_cut(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"min.js": "x" * 3_000_000}) as bench:
        shown = await bench.use("Read", file_path="min.js")
        assert len(shown) < 3_000
        assert "[... cut: the line has 3,000,000 bytes]" in shown


@pytest.mark.asyncio
async def test_binary_files_are_refused(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.png": b"\x89PNG\0\1\2"}) as bench:
        assert "a.png is a binary file (7 bytes read)" in await bench.error(
            "Read", file_path="a.png"
        )


@pytest.mark.asyncio
async def test_how_a_file_is_written_is_said(tmp_path: Path) -> None:
    files: Files = {
        "crlf.txt": b"\xef\xbb\xbfone\r\ntwo\r\n",
        "latin.txt": b"caf\xe9\n",
        "empty.txt": b"",
        "feed.txt": "a\x0cb\u2028c\n",
    }
    async with bench_of(tmp_path, files) as bench:
        crlf = await bench.use("Read", file_path="crlf.txt")
        assert crlf.startswith("     1\tone\n     2\ttwo\n")
        assert "lines end with CR LF, starts with a byte order mark" in crlf
        latin = await bench.use("Read", file_path="latin.txt")
        assert latin == "     1\tcafé\n[lines 1-1 of 1, the end; not UTF-8, shown as Latin-1]"
        assert await bench.use("Read", file_path="empty.txt") == "[the file is empty]"
        assert "     1\ta\\x0cb\\u2028c\n" in await bench.use("Read", file_path="feed.txt")


@pytest.mark.asyncio
async def test_Z11_escape_sequences_in_files_are_shown_as_text(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "\x1b]52;c;ZXZpbA==\x07"}) as bench:
        assert "\\x1b]52;c;ZXZpbA==\\x07" in await bench.use("Read", file_path="a.txt")


@pytest.mark.asyncio
async def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        for path in ("b.txt", "../target/a.txt", ".git/config", "/etc/passwd"):
            with pytest.raises(FileAccessError):
                await bench.use("Read", file_path=path)
        assert "file_path: String should match" in await bench.error("Read", file_path="a\0b")


@pytest.mark.asyncio
async def test_wrong_arguments_name_the_right_ones(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x"}) as bench:
        error = await bench.error("Read", path="a.txt", offset="many")
        assert "file_path: Field required" in error
        assert "path: Extra inputs are not permitted" in error
        assert "offset: " in error
        assert error.endswith("The arguments are: file_path, offset, limit.")
