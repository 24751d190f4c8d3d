"""`Edit`: exactly one place, every other byte as it was, nothing that no longer parses."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.edit import EditArguments, replaced
from tests.tools.trees import bench_of


@pytest.mark.asyncio
async def test_one_place_is_replaced(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\ntwo\nthree\n"}) as bench:
        said = await bench.use("Edit", file_path="a.txt", old_string="two\n", new_string="2\n2b\n")
        assert said == "Edited a.txt at line 2."
        assert await bench.content("a.txt") == b"one\n2\n2b\nthree\n"


@pytest.mark.asyncio
async def test_A15_two_places_are_named_and_the_file_is_untouched(tmp_path: Path) -> None:
    text = "x = 1\ny = 2\n\nx = 1\ny = 2\n"
    async with bench_of(tmp_path, {"a.py": text}) as bench:
        error = await bench.error("Edit", file_path="a.py", old_string="x = 1\n", new_string="")
        assert "occurs 2 times in a.py, at lines 1, 4: nothing was changed" in error
        assert await bench.content("a.py") == text.encode()
        said = await bench.use(
            "Edit", file_path="a.py", old_string="x = 1", new_string="x = 3", replace_all=True
        )
        assert said == "Edited a.py at 2 places."
        assert await bench.content("a.py") == text.replace("x = 1", "x = 3").encode()


@pytest.mark.asyncio
async def test_A15_white_space_that_differs_is_pointed_at(tmp_path: Path) -> None:
    text = "def f():\n    return 1\n"
    async with bench_of(tmp_path, {"a.py": text}) as bench:
        error = await bench.error(
            "Edit", file_path="a.py", old_string="\treturn  1\n", new_string="\treturn 2\n"
        )
        assert "occurs 0 times in a.py" in error
        assert "stands, but for white space, at 2" in error
        assert await bench.content("a.py") == text.encode()


@pytest.mark.asyncio
async def test_A15_places_that_overlap_are_two(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "aba\naaa\n"}) as bench:
        error = await bench.error("Edit", file_path="a.txt", old_string="aa", new_string="b")
        assert "occurs 2 times in a.txt, at lines 2, 2" in error


@pytest.mark.asyncio
async def test_A14_crlf_and_byte_order_mark_stay(tmp_path: Path) -> None:
    before = b"\xef\xbb\xbfusing A;\r\nusing B;\r\nclass C\r\n{\r\n}\r\n"
    async with bench_of(tmp_path, {"a.cs": before}) as bench:
        await bench.use(
            "Edit",
            file_path="a.cs",
            old_string="using B;\nclass C\n",
            new_string="using B;\nusing D;\nclass C\n",
        )
        assert await bench.content("a.cs") == before.replace(
            b"using B;\r\n", b"using B;\r\nusing D;\r\n"
        )


@pytest.mark.asyncio
async def test_A14_new_lines_get_the_ends_of_their_neighbours(tmp_path: Path) -> None:
    mixed = b"one\r\ntwo\r\nthree\r\nfour\nfive\n"
    async with bench_of(tmp_path, {"a.txt": mixed}) as bench:
        await bench.use("Edit", file_path="a.txt", old_string="two", new_string="2\n2b")
        await bench.use("Edit", file_path="a.txt", old_string="four", new_string="4\n4b")
        assert await bench.content("a.txt") == b"one\r\n2\r\n2b\r\nthree\r\n4\n4b\nfive\n"


@pytest.mark.asyncio
async def test_A14_a_piece_may_begin_or_end_with_a_line_end(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": b"one\r\ntwo\r\nthree\r\n"}) as bench:
        await bench.use("Edit", file_path="a.txt", old_string="\ntwo", new_string="\n2")
        assert await bench.content("a.txt") == b"one\r\n2\r\nthree\r\n"
        await bench.use("Edit", file_path="a.txt", old_string="2\n", new_string="")
        assert await bench.content("a.txt") == b"one\r\nthree\r\n"


@pytest.mark.asyncio
async def test_A14_a_piece_may_span_lines_that_end_differently(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": b"zero\r\none\ntwo\r\nthree\nfour\r\n"}) as bench:
        await bench.use("Edit", file_path="a.txt", old_string="one\ntwo\nthree", new_string="1\n2")
        assert await bench.content("a.txt") == b"zero\r\n1\n2\nfour\r\n"


@pytest.mark.asyncio
async def test_A14_text_given_with_crlf_fits_a_file_with_lf(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "one\ntwo\n"}) as bench:
        await bench.use(
            "Edit", file_path="a.txt", old_string="one\r\ntwo", new_string="1\r\n2\r\n3"
        )
        assert await bench.content("a.txt") == b"1\n2\n3\n"


@pytest.mark.asyncio
async def test_A18_bytes_that_are_no_utf8_stay(tmp_path: Path) -> None:
    latin = b"# caf\xe9 \xa9\nsize = 1\n"
    gbk = "# 注释\nsize = 1\n".encode("gbk")
    async with bench_of(tmp_path, {"latin.txt": latin, "gbk.txt": gbk}) as bench:
        for path, before in (("latin.txt", latin), ("gbk.txt", gbk)):
            await bench.use("Edit", file_path=path, old_string="size = 1", new_string="size = 2")
            assert await bench.content(path) == before.replace(b"= 1", b"= 2")
        await bench.use("Edit", file_path="latin.txt", old_string="café", new_string="thé")
        assert (await bench.content("latin.txt")).startswith(b"# th\xe9 \xa9\n")
        error = await bench.error(
            "Edit", file_path="latin.txt", old_string="size", new_string="größe…"
        )
        assert "latin.txt is not UTF-8 and '…' cannot be written in it" in error
        assert "0 times" in await bench.error(
            "Edit", file_path="latin.txt", old_string="…", new_string="x"
        )


@pytest.mark.asyncio
async def test_the_mode_stays(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"run.sh": "#!/bin/sh\necho 1\n"}) as bench:
        await bench.use("Bash", command="chmod 755 run.sh")
        await bench.use("Edit", file_path="run.sh", old_string="echo 1", new_string="echo 2")
        assert await bench.use("Bash", command="./run.sh; stat -c %a run.sh") == (
            "2\n755\n[exit status 0]"
        )
        path = Path(bench.workspace.location) / "run.sh"
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "good", "old", "new", "place"),
    [
        ("a.py", "def f():\n    return 1\n", "return 1", "return (1", "Python, line 2: "),
        ("a.json", '{"a": 1}\n', "1", "1,", "JSON, line 1: "),
        ("a.toml", "[a]\nb = 1\n", "b = 1", "b =", "TOML, line 2: "),
        ("a.yaml", "a:\n  - 1\n", "- 1", "- [1", "YAML, line "),
    ],
)
async def test_a_result_that_no_longer_parses_is_refused(
    tmp_path: Path, path: str, good: str, old: str, new: str, place: str
) -> None:
    async with bench_of(tmp_path, {path: good}) as bench:
        error = await bench.error("Edit", file_path=path, old_string=old, new_string=new)
        assert error.startswith(f"refused, {path} was left as it is")
        assert place in error
        assert await bench.content(path) == good.encode()


@pytest.mark.asyncio
async def test_a_file_that_was_broken_before_may_be_mended_step_by_step(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.py": "def f(:\n    return (1\n"}) as bench:
        said = await bench.use("Edit", file_path="a.py", old_string="f(:", new_string="f():")
        assert "Note that it does not parse: Python, line 2" in said
        said = await bench.use("Edit", file_path="a.py", old_string="(1", new_string="1")
        assert said == "Edited a.py at line 2."


@pytest.mark.asyncio
async def test_edits_that_make_no_sense_are_errors(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "x", "a.bin": b"a\0b"}) as bench:
        same = await bench.error("Edit", file_path="a.txt", old_string="x", new_string="x")
        assert "are the same" in same
        empty = await bench.error("Edit", file_path="a.txt", old_string="", new_string="x")
        assert "old_string is empty" in empty
        binary = await bench.error("Edit", file_path="a.bin", old_string="a", new_string="x")
        assert "is a binary file" in binary


@pytest.mark.asyncio
async def test_edits_of_one_reply_follow_one_another(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {"a.txt": "a b c\n"}) as bench:
        for old, new in (("a", "1"), ("b", "2"), ("1 2", "12")):
            await bench.use("Edit", file_path="a.txt", old_string=old, new_string=new)
        assert await bench.content("a.txt") == b"12 c\n"


@given(
    head=st.binary(max_size=30).filter(lambda data: b"needle" not in data and b"\0" not in data),
    tail=st.binary(max_size=30).filter(lambda data: b"needle" not in data and b"\0" not in data),
)
def test_A18_every_byte_around_the_place_stays(head: bytes, tail: bytes) -> None:
    args = EditArguments(file_path="a", old_string="needle", new_string="pin")
    after, lines = replaced(head + b"needle" + tail, args, "needle")
    assert after == head + b"pin" + tail
    assert lines == [head.count(b"\n") + 1]
