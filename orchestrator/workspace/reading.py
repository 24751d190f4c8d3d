"""Commits as they lie in an object store: names, sizes and contents of files, what changed often.

No checkout, no index, no workspace: nothing that an agent or a person does to a tree while a run
goes on changes what is read here. The same commit gives the same answers, from the hub as from the
user's own repository. Names that are no UTF-8 come with surrogates, as `os.fsdecode` makes them.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from orchestrator.workspace.git import HostGit, full_id

_CHANGES_BYTES_MAX = 8_000_000
"""Most that is read of the names that history touches; a commit may touch every file there is."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How often files changed lately."""

    commits: int
    """How many commits were looked at, merges left out."""
    counts: dict[str, int]
    """In how many of them each path was added, changed or deleted."""


@dataclass(frozen=True, slots=True)
class CommitReader:
    """Reads commits by their full ids. A value, safe to use from many tasks at once."""

    git: HostGit

    async def files(self, commit: str) -> tuple[str, ...]:
        """Paths of all files and links of `commit`, sorted as git does; submodules are left out."""
        return tuple(await self.sizes(commit, measure=False))

    async def sizes(self, commit: str, *, measure: bool = True) -> dict[str, int]:
        """The same with their sizes in bytes (0 unless `measure`, which opens every object)."""
        long = ("--long",) if measure else ()
        listed = await self.git("ls-tree", "-r", "-z", *long, "--full-tree", full_id(commit))
        found: dict[str, int] = {}
        for entry in listed.fields:
            facts, _, path = entry.partition("\t")
            _, kind, _, *size = facts.split()
            if kind == "blob":
                found[path] = int(size[0]) if size and size[0].isdecimal() else 0  # else: missing
        return found

    async def read(self, commit: str, path: str, bytes_max: int) -> bytes | None:
        """The first `bytes_max` bytes of a file of `commit`; None when there is no such file.

        Links are followed as long as they stay in the tree.
        """
        if "\n" in path or not path or path.startswith(("/", "./", "../")):
            return None
        name = b"%s:%s\n" % (full_id(commit).encode(), os.fsencode(path))
        result = await self.git(
            "cat-file", "--batch", "--follow-symlinks", stdin=name, bytes_max=bytes_max + 1000
        )
        header, _, content = result.output.partition(b"\n")
        words = header.split(b" ")
        if len(words) != 3 or words[1] != b"blob":
            return None
        return content[: min(int(words[2]), bytes_max)]

    async def changes(self, commit: str, commits_max: int) -> Changes:
        """What the last `commits_max` commits up to `commit` changed.

        A first commit counts as no change of the files that it brings, nor does the one where a
        shallow history ends.
        """
        commits = await self.git(
            "rev-list", "--no-merges", f"--max-count={commits_max}", full_id(commit)
        )
        changed = await self.git(
            *("diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-commit-id", "--no-renames"),
            stdin=commits.output,
            bytes_max=_CHANGES_BYTES_MAX,
        )
        return Changes(commits.output.count(b"\n"), dict(Counter(changed.fields)))
