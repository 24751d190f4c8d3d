"""Sealing: what becomes a commit, what stays out, what goes back to the agent."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.core.plan import PROTECTED_DEFAULT
from orchestrator.errors import InfrastructureError
from orchestrator.ports import Sealed, SealRefused
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox
from orchestrator.workspace.trees import TreeWorkspace, Workspaces
from tests.support.repositories import (
    Files,
    commit_on,
    git,
    git_succeeds,
    make_repository,
    write_files,
)

START: Files = {"a.py": "x = 1\n", "src/b.py": "y = 2\n", "tests/test_a.py": "assert True\n"}
DATE = 1_700_000_000


@dataclass(frozen=True)
class Bench:
    """A workspace, and where its files and its hub lie."""

    workspace: TreeWorkspace
    tree: Path
    top: Path
    hub: Path

    async def seal(
        self, *, writes: Sequence[str] | None = None, protect: Sequence[str] = ()
    ) -> Sealed | SealRefused:
        return await self.workspace.seal(
            message="work\n", date=DATE, writes=writes, protect=protect
        )

    async def sealed(self, *, writes: Sequence[str] | None = None) -> Sealed:
        result = await self.seal(writes=writes)
        assert isinstance(result, Sealed), result
        return result

    async def problems(
        self, *, writes: Sequence[str] | None = None, protect: Sequence[str] = ()
    ) -> tuple[str, ...]:
        result = await self.seal(writes=writes, protect=protect)
        assert isinstance(result, SealRefused), result
        return result.problems

    def paths(self, commit: str) -> list[str]:
        return git(self.hub, "ls-tree", "-r", "--name-only", commit).splitlines()


@asynccontextmanager
async def bench(
    tmp_path: Path, files: Files = START, *, object_format: str = "sha1"
) -> AsyncIterator[Bench]:
    top = make_repository(tmp_path / "target", files, object_format=object_format)
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    trees = tmp_path / "state" / "trees"
    workspaces = Workspaces(hub, trees, NoSandbox(), env={}, tool_path=["/usr/bin", "/bin"])
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        yield Bench(workspace, trees / "task" / "tree", top, hub.path)


@pytest.mark.asyncio
async def test_W09_artefacts_keys_and_huge_files_stay_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(
            b.tree,
            {".venv/x": "1", "node_modules/a": "1", "id_rsa": "key", "a.py": "x = 2\n"},
        )
        with (b.tree / "big.bin").open("wb") as file:
            file.truncate(60_000_000)
        (problem,) = await b.problems()
        assert problem.startswith("id_rsa: a private key")
        (b.tree / "id_rsa").unlink()
        sealed = await b.sealed()
        assert sealed.changed == ("a.py",)
        assert git(b.hub, "show", f"{sealed.commit}:a.py") == "x = 2"
        assert sealed.left_out == (
            ".venv: artefact folder",
            "node_modules: artefact folder",
            "big.bin: 60000000 bytes, the cap is 10000000",
        )


@pytest.mark.asyncio
async def test_artefacts_that_are_tracked_are_sealed(tmp_path: Path) -> None:
    start: Files = {"node_modules/kept.js": "1\n", "data.pyc": "1\n"}
    async with bench(tmp_path, start) as b:
        write_files(b.tree, {"node_modules/kept.js": "2\n", "data.pyc": "2\n", "new.pyc": "1"})
        sealed = await b.sealed()
        assert sealed.changed == ("data.pyc", "node_modules/kept.js")
        assert "new.pyc: artefact" in sealed.left_out


@pytest.mark.asyncio
async def test_many_artefact_folders_are_one_line(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {f"p{n}/__pycache__/m.pyc": "1" for n in range(200)})
        sealed = await b.sealed()
        assert sealed.left_out == ("p0/__pycache__: artefact folder, and 199 more",)


@pytest.mark.asyncio
async def test_the_same_work_seals_to_the_same_commit(tmp_path: Path) -> None:
    commits = []
    for name in ("one", "two"):
        async with bench(tmp_path / name) as b:
            write_files(b.tree, {"new": "1", "a.py": "x = 3\n"})
            commits.append((await b.sealed()).commit)
            commits.append((await b.sealed()).commit)
    assert len(set(commits)) == 1


@pytest.mark.asyncio
async def test_a_sealed_commit_is_whole_in_the_hub(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {"new": "1"})
        sealed = await b.sealed()
    assert git_succeeds(b.hub, "fsck", "--strict", "--full")
    assert git(b.hub, "rev-parse", f"{sealed.commit}^{{tree}}") == sealed.tree
    assert not git_succeeds(b.top, "cat-file", "-e", sealed.commit)
    author = git(b.hub, "log", "-1", "--format=%an <%ae> %cn <%ce>", sealed.commit)
    assert author == "orchestrate <orchestrate@localhost> orchestrate <orchestrate@localhost>"


@pytest.mark.asyncio
async def test_a_refusal_leaves_nothing_in_the_hub(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        before = git(b.hub, "count-objects", "-v")
        write_files(b.tree, {"tests/test_a.py": "assert False\n"})
        await b.problems(protect=["tests/"])
        assert git(b.hub, "count-objects", "-v") == before


@pytest.mark.asyncio
async def test_a_same_size_edit_right_after_checkout_is_seen(tmp_path: Path) -> None:
    for n in range(5):  # within the second in which git wrote its index
        async with bench(tmp_path / str(n)) as b:
            write_files(b.tree, {"a.py": "x = 7\n"})
            assert (await b.sealed()).changed == ("a.py",)


@pytest.mark.asyncio
async def test_an_edit_with_its_time_put_back_is_seen(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        before = (b.tree / "a.py").stat()
        write_files(b.tree, {"a.py": "x = 8\n"})
        os.utime(b.tree / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (await b.sealed()).changed == ("a.py",)


@pytest.mark.asyncio
async def test_files_folders_and_links_may_change_places(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        (b.tree / "a.py").unlink()
        write_files(b.tree, {"a.py/inner": "1"})
        (b.tree / "src" / "b.py").unlink()
        (b.tree / "src").rmdir()
        (b.tree / "src").symlink_to("tests")
        sealed = await b.sealed()
        assert sealed.changed == ("a.py", "a.py/inner", "src", "src/b.py")
        assert b.paths(sealed.commit) == ["a.py/inner", "src", "tests/test_a.py"]


@pytest.mark.asyncio
async def test_G03_protected_paths_however_they_change(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {"tests/test_a.py": "assert 1\n"})
        assert (await b.problems(protect=PROTECTED_DEFAULT))[0].startswith("tests/test_a.py: prot")
        (b.tree / "tests" / "test_a.py").rename(b.tree / "moved.py")
        assert (await b.problems(protect=PROTECTED_DEFAULT))[0].startswith("tests/test_a.py: prot")
        (b.tree / "moved.py").unlink()
        assert len(await b.problems(protect=PROTECTED_DEFAULT)) == 1
        write_files(b.tree, {"tests/test_a.py": START["tests/test_a.py"], "conftest.py": "1\n"})
        assert (await b.problems(protect=PROTECTED_DEFAULT))[0].startswith("conftest.py: prot")


@pytest.mark.asyncio
async def test_writes_allow_what_they_name_and_nothing_else(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {"src/b.py": "y = 3\n", "tests/test_a.py": "assert 1\n"})
        (problem,) = await b.problems(writes=["src/"], protect=PROTECTED_DEFAULT)
        assert problem.startswith("tests/test_a.py: outside")
        allowed = await b.seal(writes=["src/", "tests/"], protect=PROTECTED_DEFAULT)
        assert isinstance(allowed, Sealed)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [".git", ".GIT", ".g\u200cit", "git~1"])
async def test_nested_repositories_are_refused_before_git_looks(tmp_path: Path, name: str) -> None:
    async with bench(tmp_path) as b:
        marker = tmp_path / "marker"
        nested = make_repository(b.tree / "nested", {"f": "1"})
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
        program.chmod(0o755)
        git(nested, "config", "core.fsmonitor", str(program))
        git(nested, "config", "filter.x.clean", str(program))
        write_files(nested, {".gitattributes": "* filter=x\n", "f": "2"})
        if name != ".git":
            (nested / ".git").rename(nested / name)
        (problem,) = await b.problems()
        assert problem.startswith(f"nested/{name}: a git folder")
        assert not marker.exists()


@pytest.mark.asyncio
async def test_Z10_a_git_file_that_points_elsewhere_has_no_say(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        other = make_repository(tmp_path / "other", {"f": "1"})
        (b.tree / ".git").write_text(f"gitdir: {other}/.git\n", encoding="utf-8")
        (problem,) = await b.problems()
        assert problem.startswith(".git: ")
        (b.tree / ".git").unlink()
        write_files(b.tree, {"a.py": "x = 2\n"})
        assert (await b.sealed()).changed == ("a.py",)


@pytest.mark.asyncio
async def test_Z02_attributes_start_no_program(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {".gitattributes": "* filter=lfs diff=x merge=y\n", "a.py": "1\n"})
        assert (await b.sealed()).changed == (".gitattributes", "a.py")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("links", "word"),
    [
        ({"x": "/etc/passwd"}, "absolute"),
        ({"x": "../outside"}, "out of the tree"),
        ({"d": ".", "x": "d/../../outside"}, "out of the tree"),
        ({"d": "src", "x": "d/../../outside"}, "out of the tree"),
        ({"x": ".git/config"}, "git's own"),
    ],
)
async def test_links_that_leave_the_tree(tmp_path: Path, links: dict[str, str], word: str) -> None:
    async with bench(tmp_path) as b:
        for name, target in links.items():
            (b.tree / name).symlink_to(target)
        (problem,) = await b.problems()
        assert problem.startswith("x: a link")
        assert word in problem


@pytest.mark.asyncio
async def test_links_inside_the_tree_are_sealed(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        (b.tree / "src" / "link").symlink_to("../a.py")
        (b.tree / "dangling").symlink_to("later")
        assert (await b.sealed()).changed == ("dangling", "src/link")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "content", "secret"),
    [
        ("deploy.pem", "-----BEGIN RSA PRIVATE KEY-----\n", True),
        ("cert.pem", "-----BEGIN CERTIFICATE-----\n", False),
        (".env", "KEY=value\n", True),
        (".env", "# KEY=value\nKEY=\n", False),
        (".env.example", "KEY=value\n", False),
        ("conf/.env.production", "export KEY=value\n", True),
        (".netrc", "", True),
        ("store.p12", "", True),
        (".npmrc", "//r/:_authToken=abc\n", True),
        (".npmrc", "//r/:_authToken=${TOKEN}\n", False),
        ("id_rsa.pub", "ssh-rsa AAAA\n", False),
        ("deploy.txt", "# mine\n-----BEGIN PRIVATE KEY-----\nMC4\n", True),
        ("lib/tests/made_up.txt", "-----BEGIN PRIVATE KEY-----\nMC4\n", False),
        ("find.py", 'MARK = "-----BEGIN PRIVATE KEY-----"\n', False),
    ],
)
async def test_W09_secrets(tmp_path: Path, path: str, content: str, secret: bool) -> None:
    async with bench(tmp_path) as b:
        write_files(b.tree, {path: content})
        result = await b.seal()
        assert isinstance(result, SealRefused) == secret
        if isinstance(result, SealRefused):
            assert result.problems[0].startswith(f"{path}: ")


@pytest.mark.asyncio
async def test_odd_files_are_refused_and_named(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        os.mkfifo(b.tree / "pipe")
        assert (await b.problems())[0].startswith("pipe: a pipe")
        (b.tree / "pipe").unlink()
        (b.tree / "line\nbreak").touch()
        assert "rename it" in (await b.problems())[0]
        (b.tree / "line\nbreak").unlink()
        Path(os.fsdecode(os.fsencode(b.tree) + b"/\xff")).touch()
        assert "rename it" in (await b.problems())[0]


@pytest.mark.asyncio
async def test_a_tracked_file_must_not_become_huge(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        with (b.tree / "a.py").open("wb") as file:
            file.truncate(20_000_000)
        assert "the cap is" in (await b.problems())[0]


@pytest.mark.asyncio
async def test_submodules_cannot_be_added_or_changed(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", START)
    base = git(top, "rev-parse", "HEAD")
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{base},sub")
    git(top, "commit", "-q", "-m", "submodule")
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    trees = tmp_path / "trees"
    workspaces = Workspaces(hub, trees, NoSandbox(), env={}, tool_path=["/usr/bin"])
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        write_files(trees / "task" / "tree", {"a.py": "x = 2\n"})
        kept = await workspace.seal(message="m", date=DATE, writes=None, protect=())
        assert isinstance(kept, Sealed)
        assert kept.changed == ("a.py",)
        (trees / "task" / "tree" / "sub").rmdir()
        write_files(trees / "task" / "tree", {"sub": "a file now\n"})
        result = await workspace.seal(message="m", date=DATE, writes=None, protect=())
        assert isinstance(result, SealRefused)
        assert "submodule" in result.problems[0]


@pytest.mark.asyncio
async def test_content_that_attacks_git_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        hostile = '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'
        write_files(b.tree, {".gitmodules": hostile})
        assert "malformed" in (await b.problems())[0]
        (b.tree / ".gitmodules").unlink()
        (b.tree / ".gitmodules").symlink_to("a.py")
        assert "Ignoring path .gitmodules" in (await b.problems())[0]


@pytest.mark.asyncio
async def test_ignored_files_stay_out(tmp_path: Path) -> None:
    async with bench(tmp_path, {**START, ".gitignore": "*.log\nbuild/\n"}) as b:
        write_files(b.tree, {"x.log": "1", "build/out": "1", "kept": "1"})
        sealed = await b.sealed()
        assert (sealed.changed, sealed.left_out) == (("kept",), ())


@pytest.mark.asyncio
async def test_line_endings_are_kept_as_the_target_has_them(tmp_path: Path) -> None:
    async with bench(tmp_path, {"dos.txt": b"a\r\nb\r\n"}) as b:
        assert (b.tree / "dos.txt").read_bytes() == b"a\r\nb\r\n"
        write_files(b.tree, {"dos.txt": b"a\r\nc\r\n"})
        sealed = await b.sealed()
        assert git(b.hub, "cat-file", "-s", f"{sealed.commit}:dos.txt") == "6"


@pytest.mark.asyncio
async def test_a_sha256_tree_is_sealed(tmp_path: Path) -> None:
    async with bench(tmp_path, object_format="sha256") as b:
        write_files(b.tree, {"a.py": "x = 2\n"})
        assert len((await b.sealed()).commit) == 64


@pytest.mark.asyncio
async def test_work_goes_on_from_another_tree_on_the_same_parent(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", START)
    parent = git(top, "rev-parse", "HEAD")
    before = commit_on(top, parent, {"a.py": "x = 2\n", "more": "1"})
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    workspaces = Workspaces(hub, tmp_path / "trees", NoSandbox(), env={}, tool_path=["/usr/bin"])
    async with workspaces.open("task", parent, tree_from=before) as workspace:
        assert await workspace.read("more", bytes_max=10) == b"1"
        sealed = await workspace.seal(message="m", date=DATE, writes=None, protect=())
        assert isinstance(sealed, Sealed)
        assert sealed.changed == ("a.py", "more")
        assert sealed.tree == git(top, "rev-parse", f"{before}^{{tree}}")
        assert git(hub.path, "log", "-1", "--format=%P", sealed.commit) == parent


@pytest.mark.asyncio
async def test_an_unknown_commit_is_an_infrastructure_error(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", START)
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    workspaces = Workspaces(hub, tmp_path / "trees", NoSandbox(), env={}, tool_path=["/usr/bin"])
    for commit in ("1" * 40, "HEAD"):
        with pytest.raises(InfrastructureError):
            async with workspaces.open("task", commit):
                pass
    assert not (tmp_path / "trees" / "task").exists()
