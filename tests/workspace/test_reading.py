"""Commits are read as git has them: names, sizes, contents, and what history changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.workspace.hub import Hub
from orchestrator.workspace.reading import CommitReader
from orchestrator.workspace.repository import Repository
from tests.support.repositories import Files, commit_files, git, make_repository, write_files

HOSTILE = ("line\nbreak", "tab\there", 'quote"d', "\u00e9", "-rf", "a b", "back\\slash")


async def readers(tmp_path: Path, files: Files) -> tuple[Path, str, list[CommitReader]]:
    """A repository of one commit, and both ways to read it."""
    top = make_repository(tmp_path / "target", files)
    repository = await Repository.open(top)
    hub = await Hub.open(tmp_path / "hub.git", repository)
    return top, git(top, "rev-parse", "HEAD"), [repository.reader, hub.reader]


@pytest.mark.asyncio
async def test_names_and_sizes_are_those_of_the_commit_whatever_they_are(tmp_path: Path) -> None:
    files = {name: name * 3 for name in HOSTILE} | {"d/e/f.py": "x = 1\n"}
    top, head, both = await readers(tmp_path, files)
    bad = os.fsencode(top) + b"/caf\xe9"
    Path(os.fsdecode(bad)).write_bytes(b"latin")
    (top / "link").symlink_to("d/e/f.py")
    head = commit_files(top, {})
    write_files(top, {"d/e/f.py": "changed since\n", "untracked": "x"})
    expected = {name: len(name.encode()) * 3 for name in HOSTILE}
    expected |= {"d/e/f.py": 6, "caf\udce9": 5, "link": len("d/e/f.py")}
    for reader in both:
        assert await reader.sizes(head) == expected
        assert await reader.files(head) == tuple(sorted(expected, key=os.fsencode))
        assert await reader.read(head, "d/e/f.py", 100) == b"x = 1\n"
        assert await reader.read(head, "link", 100) == b"x = 1\n"
        assert await reader.read(head, "caf\udce9", 100) == b"latin"


@pytest.mark.asyncio
async def test_a_submodule_is_no_file(tmp_path: Path) -> None:
    top, head, both = await readers(tmp_path, {"a": "1"})
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{head},inner")
    git(top, "commit", "-q", "-m", "a submodule")
    head = git(top, "rev-parse", "HEAD")
    for reader in both:
        assert await reader.files(head) == ("a",)


@pytest.mark.asyncio
async def test_changes_are_counted_by_commit(tmp_path: Path) -> None:
    top, _, both = await readers(tmp_path, {"a": "0", "b": "0", "old": "0"})
    for number in range(4):
        commit_files(top, {"a": str(number + 1), "line\nbreak": str(number)})
    git(top, "checkout", "-q", "-b", "side")
    commit_files(top, {"b": "side"})
    git(top, "checkout", "-q", "main")
    commit_files(top, {"old": None})
    git(top, "merge", "-q", "--no-ff", "-m", "merge", "side")
    head = git(top, "rev-parse", "HEAD")
    for reader in both:
        changes = await reader.changes(head, 100)
        assert changes.commits == 7, "the first, four, the side's, the deletion; not the merge"
        assert changes.counts == {"a": 4, "line\nbreak": 4, "b": 1, "old": 1}
        few = await reader.changes(git(top, "rev-parse", "HEAD~2"), 2)
        assert (few.commits, few.counts) == (2, {"a": 2, "line\nbreak": 2})


@pytest.mark.asyncio
async def test_a_shallow_clone_has_the_history_that_it_has(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "whole", {"a": "0", "b": "0"})
    for number in range(5):
        commit_files(top, {"a": str(number + 1)})
    git(tmp_path, "clone", "-q", "--depth=3", f"file://{top}", "shallow")
    repository = await Repository.open(tmp_path / "shallow")
    hub = await Hub.open(tmp_path / "hub.git", repository)
    for reader in (repository.reader, hub.reader):
        changes = await reader.changes(await repository.resolve("HEAD"), 100)
        assert (changes.commits, changes.counts) == (3, {"a": 2})
