"""The hub: merges against git's own merges, conflicts of every kind, sending, keeping."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import DiskFullError, InfrastructureError, RepositoryError
from orchestrator.workspace.git import GitResult, git_failure
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.merge import Conflict, Merged
from orchestrator.workspace.repository import Repository
from tests.support.repositories import (
    Files,
    commit_files,
    commit_on,
    fingerprint,
    git,
    git_succeeds,
    make_repository,
)

DATE = 1_700_000_000


async def open_hub(tmp_path: Path, top: Path) -> Hub:
    return await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))


async def merge(hub: Hub, base: str, *commits: str) -> Merged | Conflict:
    return await hub.merge(base, commits, message="merge\n", date=DATE)


@pytest.mark.asyncio
async def test_no_inputs_give_the_base_and_one_is_handed_on(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    base = git(top, "rev-parse", "HEAD")
    one = commit_on(top, base, {"b": "2"})
    hub = await open_hub(tmp_path, top)
    assert await merge(hub, base) == Merged(base, git(top, "rev-parse", f"{base}^{{tree}}"))
    assert await merge(hub, base, one) == Merged(one, git(top, "rev-parse", f"{one}^{{tree}}"))
    assert await merge(hub, base, one, one) == await merge(hub, base, one)


@pytest.mark.asyncio
async def test_inputs_that_another_one_contains_are_dropped(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    base = git(top, "rev-parse", "HEAD")
    one = commit_on(top, base, {"b": "2"})
    two = commit_on(top, one, {"c": "3"})
    hub = await open_hub(tmp_path, top)
    merged = await merge(hub, base, base, one, two)
    assert isinstance(merged, Merged)
    assert merged.commit == two


@pytest.mark.asyncio
async def test_three_commits_merge_to_what_git_merges_them_to(tmp_path: Path) -> None:
    lines = "".join(f"{n}\n" for n in range(30))
    top = make_repository(tmp_path / "r", {"a": lines})
    base = git(top, "rev-parse", "HEAD")
    commits = [
        commit_on(top, base, {"a": lines.replace("2\n", "two\n", 1)}),
        commit_on(top, base, {"a": lines.replace("28\n", "b\n", 1), "new": "x"}),
        commit_on(top, base, {"other": "y"}),
    ]
    hub = await open_hub(tmp_path, top)
    merged = await merge(hub, base, *commits)
    assert isinstance(merged, Merged)

    git(top, "checkout", "-q", "--detach", commits[0])
    for commit in commits[1:]:
        git(top, "merge", "-q", "--no-edit", commit)
    assert merged.tree == git(top, "rev-parse", "HEAD^{tree}")
    shown = git(hub.path, "log", "-1", "--format=%P %an <%ae> %at %ct %s", merged.commit).split(" ")
    assert shown[1] == commits[2]
    assert shown[2:] == ["orchestrate", "<orchestrate@localhost>", str(DATE), str(DATE), "merge"]
    assert git_succeeds(hub.path, "fsck", "--strict")


@pytest.mark.asyncio
async def test_a_merge_is_a_function_of_its_inputs(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    base = git(top, "rev-parse", "HEAD")
    commits = [commit_on(top, base, {name: name}) for name in "bcd"]
    first = await merge(await open_hub(tmp_path, top), base, *commits)
    shutil.rmtree(tmp_path / "state")
    assert await merge(await open_hub(tmp_path, top), base, *commits) == first


BIG = "".join(f"line {n}\n" for n in range(20))
KINDS: dict[str, tuple[Files, Files, Files, str, str]] = {
    "contents": ({"f": "1\n"}, {"f": "2\n"}, {"f": "3\n"}, "f", "contents"),
    "add/add": ({"k": "k"}, {"f": "2\n"}, {"f": "3\n"}, "f", "add/add"),
    "modify/delete": ({"f": "1\n", "k": "k"}, {"f": "2\n"}, {"f": None}, "f", "modify/delete"),
    "rename/rename": (
        {"f": BIG},
        {"f": None, "g": BIG},
        {"f": None, "h": BIG},
        "f",
        "rename/rename",
    ),
    "binary": ({"f": b"\0\1"}, {"f": b"\0\2"}, {"f": b"\0\3"}, "f", "binary"),
    "file/directory": ({"k": "k"}, {"f": "2\n"}, {"f/g": "3\n"}, "f", "file/directory"),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", KINDS)
async def test_M08_a_conflict_names_path_and_kind(tmp_path: Path, kind: str) -> None:
    start, ours, theirs, path, expected = KINDS[kind]
    top = make_repository(tmp_path / "r", start)
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, ours), commit_on(top, base, theirs)
    conflict = await merge(await open_hub(tmp_path, top), base, a, b)
    assert isinstance(conflict, Conflict)
    assert (conflict.ours, conflict.theirs) == (a, b)
    found = {entry.path.partition("~")[0]: entry for entry in conflict.entries}
    assert found[path].kind == expected
    assert found[path].is_text == (kind != "binary")


@pytest.mark.asyncio
async def test_M08_the_stages_are_those_of_an_index(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"f": "1\n"})
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, {"f": "2\n"}), commit_on(top, base, {"f": "3\n"})
    conflict = await merge(await open_hub(tmp_path, top), base, a, b)
    assert isinstance(conflict, Conflict)
    (entry,) = conflict.entries
    assert [(stage.number, stage.mode) for stage in entry.stages] == [
        (1, "100644"),
        (2, "100644"),
        (3, "100644"),
    ]
    for stage, commit in zip(entry.stages, (base, a, b), strict=True):
        assert stage.object_id == git(top, "rev-parse", f"{commit}:f")


@pytest.mark.asyncio
async def test_M08_links_and_submodules_are_no_text(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"k": "k"})
    base = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-q", "--detach")
    (top / "f").symlink_to("k")
    a = commit_files(top, {})
    git(top, "checkout", "-q", "main")
    b = commit_on(top, base, {"f": "text\n"})
    conflict = await merge(await open_hub(tmp_path, top), base, a, b)
    assert isinstance(conflict, Conflict)
    assert not any(entry.is_text for entry in conflict.entries if len(entry.stages) == 2)
    assert {stage.mode for entry in conflict.entries for stage in entry.stages} == {
        "100644",
        "120000",
    }


@pytest.mark.asyncio
async def test_M01_a_merge_that_is_only_textually_clean_is_no_conflict(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"m.py": "def area(): ...\n", "u.py": "x = 1\n"})
    base = git(top, "rev-parse", "HEAD")
    a = commit_on(top, base, {"m.py": "def rect_area(): ...\n"})
    b = commit_on(top, base, {"u.py": "import m\nm.area()\n"})
    assert isinstance(await merge(await open_hub(tmp_path, top), base, a, b), Merged)


@pytest.mark.asyncio
async def test_merge_attributes_of_the_tree_have_no_say(tmp_path: Path) -> None:
    start: Files = {"f": "1\n", ".gitattributes": "* merge=union\n"}
    top = make_repository(tmp_path / "r", start)
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, {"f": "2\n"}), commit_on(top, base, {"f": "3\n"})
    assert isinstance(await merge(await open_hub(tmp_path, top), base, a, b), Conflict)


@pytest.mark.asyncio
async def test_M18_a_git_that_fails_is_no_conflict(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    base = git(top, "rev-parse", "HEAD")
    git(top, "checkout", "-q", "--orphan", "island")
    island = commit_files(top, {"b": "2"})
    hub = await open_hub(tmp_path, top)
    with pytest.raises(InfrastructureError, match="unrelated histories"):
        await merge(hub, base, base, island)
    with pytest.raises(InfrastructureError):
        await merge(hub, base, base, "1" * 40)


@pytest.mark.asyncio
@pytest.mark.parametrize("hostile", ["HEAD", "--output=x", "main", "1234", ""])
async def test_only_full_ids_reach_git(tmp_path: Path, hostile: str) -> None:
    hub = await open_hub(tmp_path, make_repository(tmp_path / "r", {"a": "1"}))
    with pytest.raises(InfrastructureError, match="no full object id"):
        await merge(hub, hostile, hostile)
    with pytest.raises(InfrastructureError, match="no full object id"):
        await hub.diff(hostile, hostile, bytes_max=10)


@pytest.mark.asyncio
async def test_the_hub_is_made_once_by_many_at_once(tmp_path: Path) -> None:
    repository = await Repository.open(make_repository(tmp_path / "r", {"a": "1"}))
    path = tmp_path / "state" / "hub.git"
    hubs: list[Hub] = []

    async def one() -> None:
        hubs.append(await Hub.open(path, repository))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(one)
    assert len(hubs) == 8
    assert sorted(os.listdir(path.parent)) == ["hub.git", "hub.git.lock"]
    assert git_succeeds(path, "fsck", "--strict")


@pytest.mark.asyncio
async def test_alternates_are_flattened_and_follow_a_moved_target(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"a": "1"})
    git(tmp_path, "clone", "-q", "--shared", str(origin), "clone")
    head = git(origin, "rev-parse", "HEAD")
    hub = await open_hub(tmp_path, tmp_path / "clone")
    listing = hub.path / "objects" / "info" / "alternates"
    assert listing.read_text(encoding="utf-8").splitlines() == [
        str(tmp_path / "clone" / ".git" / "objects"),
        str(origin / ".git" / "objects"),
    ]
    (tmp_path / "clone").rename(tmp_path / "moved")
    hub = await open_hub(tmp_path, tmp_path / "moved")
    assert git(hub.path, "ls-tree", "-r", "--name-only", head) == "a"


@pytest.mark.asyncio
async def test_an_alternate_that_is_gone_is_one_line(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    info = top / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text("/no/where\n", encoding="utf-8")
    with pytest.raises(RepositoryError, match="/no/where"):
        await open_hub(tmp_path, top)


@pytest.mark.asyncio
async def test_W22_a_shallow_target_merges(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"a": "1"})
    commit_files(origin, {"a": "2"})
    git(tmp_path, "clone", "-q", "--depth=1", origin.as_uri(), "clone")
    top = tmp_path / "clone"
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, {"b": "1"}), commit_on(top, base, {"c": "1"})
    hub = await open_hub(tmp_path, top)
    merged = await merge(hub, base, a, b)
    assert isinstance(merged, Merged)
    listed = git(hub.path, "ls-tree", "-r", "--name-only", merged.commit)
    assert listed.split() == ["a", "b", "c"]


@pytest.mark.asyncio
async def test_a_sha256_target_merges(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"}, object_format="sha256")
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, {"b": "1"}), commit_on(top, base, {"c": "1"})
    merged = await merge(await open_hub(tmp_path, top), base, a, b)
    assert isinstance(merged, Merged)
    assert len(merged.commit) == 64


@pytest.mark.asyncio
async def test_another_object_format_is_refused(tmp_path: Path) -> None:
    await open_hub(tmp_path, make_repository(tmp_path / "r", {"a": "1"}))
    other = make_repository(tmp_path / "s", {"a": "1"}, object_format="sha256")
    with pytest.raises(RepositoryError, match="sha256"):
        await open_hub(tmp_path, other)


@pytest.mark.asyncio
async def test_keeping_makes_a_ref_and_overwrites_a_lost_try(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    first = git(top, "rev-parse", "HEAD")
    second = commit_files(top, {"a": "2"})
    hub = await open_hub(tmp_path, top)
    await hub.keep("r1", "build", 1, first)
    await hub.keep("r1", "build", 1, second)
    await hub.keep("r1", "build", 1, first, rejected=True)
    refs = git(hub.path, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert refs == [
        f"refs/orchestrate/r1/build/1 {second}",
        f"refs/orchestrate/r1/rejected/build/1 {first}",
    ]
    assert git(top, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.asyncio
async def test_a_diff_shows_what_attributes_would_hide(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"f": "1\n", ".gitattributes": "* -diff\n"})
    base = git(top, "rev-parse", "HEAD")
    after = commit_files(top, {"f": "changed\n", "new": "x\n"})
    hub = await open_hub(tmp_path, top)
    text = await hub.diff(base, after, bytes_max=10_000)
    assert "-1\n+changed\n" in text
    assert await hub.diff(base, after, bytes_max=20) == text[:20]


@pytest.mark.asyncio
async def test_reading_files_of_a_commit(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"d/f": "content\n", "é": "e"})
    (top / "link").symlink_to("d/f")
    (top / "out").symlink_to("/etc/passwd")
    head = commit_files(top, {})
    hub = await open_hub(tmp_path, top)
    assert await hub.read_file(head, "d/f", 100) == b"content\n"
    assert await hub.read_file(head, "d/f", 3) == b"con"
    assert await hub.read_file(head, "é", 100) == b"e"
    assert await hub.read_file(head, "link", 100) == b"content\n"
    for path in ("out", "d", "none", "", "a\nb", "../r/d/f"):
        assert await hub.read_file(head, path, 100) is None


@pytest.mark.asyncio
async def test_sending_brings_objects_and_no_refs(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1", "b": "1"})
    base = git(top, "rev-parse", "HEAD")
    a, b = commit_on(top, base, {"a": "2"}), commit_on(top, base, {"b": "2"})
    repository = await Repository.open(top)
    hub = await open_hub(tmp_path, top)
    merged = await merge(hub, base, a, b)
    assert isinstance(merged, Merged)
    before = fingerprint(top)
    for _ in range(2):
        await hub.send(repository, merged.commit)
    assert fingerprint(top) == before
    shutil.rmtree(hub.path)
    assert git(top, "rev-parse", f"{merged.commit}^{{tree}}") == merged.tree
    await repository.create_branch("r1", merged.commit)
    assert git_succeeds(top, "fsck", "--strict", "--connectivity-only")
    assert git(top, "show", "orchestrate/r1:a") == "2"


def test_a_full_disk_is_told_apart_from_a_git_that_fails(tmp_path: Path) -> None:
    full = GitResult(128, b"", "error: unable to write file: No space left on device\n")
    assert isinstance(git_failure("write-tree", tmp_path, full), DiskFullError)
    broken = GitResult(128, b"", "fatal: not a tree object\n")
    failure = git_failure("write-tree", tmp_path, broken)
    assert isinstance(failure, InfrastructureError)
    assert "fatal: not a tree object" in str(failure)
