"""Workspaces as folders: what killed runs leave, many at once, and that nothing leaks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.ports import Sealed
from orchestrator.workspace.bubblewrap import find_bubblewrap
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox
from orchestrator.workspace.strays import VARIABLE
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import (
    Files,
    commit_files,
    commit_on,
    fingerprint,
    git,
    git_succeeds,
    make_repository,
    shared_folder,
)

START: Files = {"a.py": "x = 1\n", "src/b.py": "y = 2\n"}


async def workspaces_on(tmp_path: Path, top: Path) -> Workspaces:
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    trees = tmp_path / "state" / "trees"
    return Workspaces(hub, trees, NoSandbox(), env={}, tool_path=["/usr/bin", "/bin"])


@pytest.mark.asyncio
async def test_W07_many_open_and_seal_at_once(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", START)
    base = git(top, "rev-parse", "HEAD")
    (top / ".git" / "config.lock").touch()  # a held lock of the target is nobody's business
    workspaces = await workspaces_on(tmp_path, top)
    sealed: dict[int, Sealed] = {}

    async def attempt(number: int) -> None:
        async with workspaces.open(f"t{number}", base) as workspace:
            await workspace.write("n", str(number).encode())
            result = await workspace.seal(message="m", date=1, writes=None, protect=())
            assert isinstance(result, Sealed)
            sealed[number] = result

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(attempt, number)
    hub = tmp_path / "state" / "hub.git"
    assert {
        number: git(hub, "show", f"{result.commit}:n") for number, result in sealed.items()
    } == {number: str(number) for number in range(12)}
    assert not (hub / "worktrees").exists()
    assert git_succeeds(hub, "fsck", "--strict")


@pytest.mark.asyncio
async def test_W03_W15_the_target_is_as_it_was(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", START)
    (top / "a.py").write_text("the user's own edit\n", encoding="utf-8")
    before = fingerprint(top)
    workspaces = await workspaces_on(tmp_path, top)
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        assert await workspace.read("a.py", bytes_max=100) == b"x = 1\n"
        await workspace.run(
            ["sh", "-c", "git add -A; git commit -qm x; git stash; git config core.bare true"],
            timeout_s=30,
            output_bytes_max=10_000,
        )
        await workspace.write("a.py", b"x = 2\n")
        await workspace.seal(message="m", date=1, writes=None, protect=())
    assert fingerprint(top) == before


@pytest.mark.asyncio
async def test_W11_what_a_killed_run_left_is_out_of_the_way(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", START)
    workspaces = await workspaces_on(tmp_path, top)
    left = tmp_path / "state" / "trees" / "task"
    (left / "tree" / "deep").mkdir(parents=True)
    (left / "tree" / "a.py").write_text("half done\n", encoding="utf-8")
    (left / "git").mkdir()
    (left / "git" / "index.lock").touch()
    (left / "tree" / "deep").chmod(0)
    for _ in range(2):
        async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
            assert [entry.path for entry in await workspace.files()] == ["a.py", "src/b.py"]
            assert await workspace.read("a.py", bytes_max=100) == b"x = 1\n"
    assert os.listdir(tmp_path / "state" / "trees" / ".trash") == []


@pytest.mark.asyncio
async def test_S07_a_cancelled_block_removes_its_folder(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", START)
    workspaces = await workspaces_on(tmp_path, top)
    ready = anyio.Event()

    async def attempt() -> None:
        async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
            ready.set()
            await workspace.run(["sleep", "300"], timeout_s=300, output_bytes_max=100)

    async with anyio.create_task_group() as group:
        group.start_soon(attempt)
        await ready.wait()
        group.cancel_scope.cancel()
    assert os.listdir(tmp_path / "state" / "trees") == [".trash"]
    assert os.listdir(tmp_path / "state" / "trees" / ".trash") == []


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".trash", "x" * 300])
async def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    top = make_repository(tmp_path / "target", START)
    workspaces = await workspaces_on(tmp_path, top)
    with pytest.raises(InfrastructureError):
        async with workspaces.open(name, git(top, "rev-parse", "HEAD")):
            pass


@pytest.mark.asyncio
async def test_any_commit_of_hub_or_target_can_be_opened(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", START)
    base = git(top, "rev-parse", "HEAD")
    other = commit_on(top, base, {"a.py": None, "new": "1"})
    workspaces = await workspaces_on(tmp_path, top)
    async with workspaces.open("task", other) as workspace:
        assert [entry.path for entry in await workspace.files()] == ["new", "src/b.py"]


@pytest.mark.asyncio
async def test_W20_W21_submodules_and_filters_without_their_programs(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "target", {".gitattributes": "*.bin filter=lfs -text\n"})
    pointer = "version https://git-lfs.github.com/spec/v1\n"
    base = commit_files(top, {"x.bin": pointer})
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{base},sub")
    git(top, "commit", "-q", "-m", "submodule")
    git(top, "config", "filter.lfs.smudge", "no-such-program")
    git(top, "config", "filter.lfs.required", "true")
    workspaces = await workspaces_on(tmp_path, top)
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        assert await workspace.read("x.bin", bytes_max=100) == pointer.encode()
        sealed = await workspace.seal(message="m", date=1, writes=None, protect=())
        assert isinstance(sealed, Sealed)
        assert sealed.changed == ()


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["with space", "co:lon", "com,ma", "qu'ote", "é"])
async def test_odd_places(tmp_path: Path, name: str) -> None:
    top = make_repository(tmp_path / name / "target", START)
    workspaces = await workspaces_on(tmp_path / name, top)
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        await workspace.write("new", b"1")
        sealed = await workspace.seal(message="m", date=1, writes=None, protect=())
        assert isinstance(sealed, Sealed)
        assert sealed.changed == ("new",)


ORDINARY_USER = """
import anyio, os, sys
from pathlib import Path
from orchestrator.ports import Sealed
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import choose_sandbox
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import git, make_repository

async def main(work):
    top = make_repository(work / "target", {"a": "1"})
    hub = await Hub.open(work / "hub.git", await Repository.open(top))
    for mode in ("off", "auto"):
        sandbox = await choose_sandbox(mode)
        made = Workspaces(hub, work / "trees", sandbox, env={}, tool_path=["/usr/bin", "/bin"])
        async with made.open("task", git(top, "rev-parse", "HEAD")) as workspace:
            script = "echo 2 > a; mkdir -p d/e; id -u; chmod 000 d/e d"
            done = await workspace.run(["sh", "-c", script], timeout_s=30, output_bytes_max=1000)
            refused = await workspace.seal(message="m", date=1, writes=None, protect=())
            await workspace.run(["chmod", "755", "d"], timeout_s=30, output_bytes_max=1000)
            await workspace.run(["chmod", "755", "d/e"], timeout_s=30, output_bytes_max=1000)
            sealed = await workspace.seal(message="m", date=1, writes=None, protect=())
            await workspace.run(["chmod", "000", "d"], timeout_s=30, output_bytes_max=1000)
            assert isinstance(sealed, Sealed), sealed
        print(sandbox.name, done.output.decode().strip(), refused.problems[0], sealed.changed)
        print(os.listdir(work / "trees" / ".trash"))

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_whole_path_as_an_ordinary_user() -> None:
    """Run apart from root: what root may read and remove, others must first be able to."""
    python = shutil.which(f"python3.{sys.version_info[1]}", path="/usr/bin:/usr/local/bin")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    root = Path(__file__).parents[2]
    with shared_folder() as place:
        work, code = place / "work", place / "code"
        work.mkdir()
        os.chown(work, 65534, 65534)
        shutil.copytree(root / "orchestrator", code / "orchestrator")
        shutil.copytree(root / "tests" / "support", code / "tests" / "support")

        def as_user(*args: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python or "", *args],
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{code}:{packages}"},
                cwd=work,
                capture_output=True,
                text=True,
                user=65534,
                group=65534,
                extra_groups=[],
            )

        imports = "import anyio, git, pydantic, pathspec"
        if python is None or as_user("-c", imports).returncode != 0:
            pytest.skip("Python and the libraries are not installed for everybody")
        done = as_user("-c", ORDINARY_USER, str(work))
    assert done.stderr == ""
    names = ["none"] + (["bubblewrap"] if find_bubblewrap() else ["none"])
    refused = "65534 d: Permission denied; make the folder readable or delete it ('a',)"
    expected = [line for name in names for line in (f"{name} {refused}", "[]")]
    assert done.stdout.splitlines() == expected


@pytest.mark.asyncio
async def test_a_sweep_ends_and_removes_what_a_dead_process_of_that_run_left(
    tmp_path: Path,
) -> None:
    workspaces = await workspaces_on(tmp_path, make_repository(tmp_path / "target", START))
    trees = tmp_path / "state" / "trees"
    left = {}
    for name in ("run.task.1", "running.task.1"):
        (trees / name / "tree").mkdir(parents=True)
        (trees / ".trash" / f"{name}.0a").mkdir(parents=True)
        environment = {"PATH": "/usr/bin:/bin", VARIABLE: f"{name}.0a1b"}
        left[name] = subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True)
    try:
        await workspaces.sweep("run.")
        assert left["run.task.1"].wait(20) == -signal.SIGKILL
        assert left["running.task.1"].poll() is None
    finally:
        for process in left.values():
            process.kill()
            process.wait()
    assert sorted(path.name for path in trees.iterdir()) == [".trash", "running.task.1"]
    assert [path.name for path in (trees / ".trash").iterdir()] == ["running.task.1.0a"]
