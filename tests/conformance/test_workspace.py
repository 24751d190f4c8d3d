"""What every workspace must do, whatever its sandbox: the promises of `ports.Workspace`.

Rows of parameters are sandboxes. What only an isolating one promises is in
`tests/workspace/test_isolation.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import WorkspaceError
from orchestrator.ports import Completed, FileAccessError, Sealed, SealRefused, Workspace
from orchestrator.workspace.bubblewrap import find_bubblewrap
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox, Sandbox
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import Files, git, make_repository

START: Files = {"a.py": "x = 1\n", "src/b.py": "y = 2\n", "run.sh": "#!/bin/sh\necho hello\n"}
TOOLS = (*(str(Path(sys.executable).parent),), "/usr/local/bin", "/usr/bin", "/bin")
DATE = 1_700_000_000


@pytest.fixture(params=["none", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "none":
        return NoSandbox()
    found = find_bubblewrap()
    if found is None:
        pytest.skip("bubblewrap is not installed")
    return found


@asynccontextmanager
async def opened(
    tmp_path: Path, sandbox: Sandbox, files: Files = START
) -> AsyncIterator[Workspace]:
    """A workspace on a new repository of `files`."""
    top = make_repository(tmp_path / "target", files)
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    workspaces = Workspaces(
        hub, tmp_path / "state" / "trees", sandbox, env={"PLAN": "1"}, tool_path=TOOLS
    )
    async with workspaces.open("task.1", git(top, "rev-parse", "HEAD")) as workspace:
        yield workspace


async def run(workspace: Workspace, *argv: str, timeout_s: float = 30) -> Completed:
    return await workspace.run(argv, timeout_s=timeout_s, output_bytes_max=100_000)


async def seal(workspace: Workspace) -> Sealed | SealRefused:
    return await workspace.seal(message="work\n", date=DATE, writes=None, protect=())


@pytest.mark.asyncio
async def test_commands_run_at_the_root_and_see_the_files(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        done = await run(workspace, "sh", "-c", "pwd; cat a.py src/b.py")
        assert done.output.decode() == f"{workspace.location}\nx = 1\ny = 2\n"
        assert done.argv == ("sh", "-c", "pwd; cat a.py src/b.py")


@pytest.mark.asyncio
async def test_what_a_command_writes_is_read_and_what_is_written_is_run(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        await run(workspace, "sh", "-c", "mkdir d; echo one > d/made")
        assert await workspace.read("d/made", bytes_max=100) == b"one\n"
        await workspace.write("new/two.sh", b"echo two\n")
        assert (await run(workspace, "sh", "new/two.sh")).output == b"two\n"


@pytest.mark.asyncio
async def test_exit_statuses(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        assert (await run(workspace, "sh", "-c", "exit 3")).exit_status == 3
        assert (await run(workspace, "no-such-program")).exit_status == 127
        assert (await run(workspace, "./a.py")).exit_status == 126
        assert (await run(workspace, "sh", "-c", "kill -9 $$")).exit_status == 137


@pytest.mark.asyncio
async def test_arguments_arrive_as_they_are(tmp_path: Path, sandbox: Sandbox) -> None:
    odd = ["", "a b", "$(id)", "`id`", "--", "-n", "*", "é", "a\nb", "\\", "'"]
    async with opened(tmp_path, sandbox) as workspace:
        script = "import sys; print(sys.argv[1:])"
        done = await run(workspace, sys.executable, "-c", script, *odd)
        assert done.output.decode() == f"{odd}\n"
        assert (await run(workspace, "echo", r"a\tb")).output == b"a\\tb\n"


@pytest.mark.asyncio
async def test_G10_stdin_is_empty_and_there_is_no_terminal(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        assert (await run(workspace, "cat")).output == b""
        assert (await run(workspace, "sh", "-c", "echo x > /dev/tty")).exit_status != 0


@pytest.mark.asyncio
async def test_G02_what_a_command_leaves_behind_ends_with_it(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        script = "setsid -f sh -c 'flock 9; touch held; sleep 300' 9> lock\n"
        script += "while ! test -e held; do :; done; rm held; echo ok"
        done = await run(workspace, "sh", "-c", script)
        assert (done.exit_status, done.output) == (0, b"ok\n")
        assert done.seconds < 10
        assert (await run(workspace, "flock", "-n", "lock", "true")).exit_status == 0


@pytest.mark.asyncio
async def test_A23_G06_the_time_limit_keeps_output_and_ends_all(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        script = "echo prompt?; (flock 9; sleep 300) 9> lock & wait"
        done = await run(workspace, "sh", "-c", script, timeout_s=1)
        assert (done.exit_status, done.timed_out, done.output) == (None, True, b"prompt?\n")
        assert (await run(workspace, "flock", "-n", "lock", "true")).exit_status == 0


@pytest.mark.asyncio
async def test_cancelling_a_command_leaves_the_workspace_usable(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        async with anyio.create_task_group() as group:
            group.start_soon(run, workspace, "sh", "-c", "touch started; sleep 300")
            with anyio.fail_after(10):
                while "started" not in {entry.path for entry in await workspace.files()}:
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert (await run(workspace, "echo", "still here")).output == b"still here\n"


@pytest.mark.asyncio
async def test_output_is_capped(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        done = await workspace.run(
            ["head", "-c", "1000000", "/dev/zero"], timeout_s=30, output_bytes_max=1000
        )
        assert (len(done.output), done.dropped_bytes) == (1000, 999_000)


@pytest.mark.asyncio
async def test_Z01_the_environment_holds_no_credentials(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-TEST123")
    monkeypatch.setenv("PRIVATE_THING", "sk-ant-TEST123")
    async with opened(tmp_path, sandbox) as workspace:
        done = await workspace.run(
            ["env"],
            timeout_s=30,
            output_bytes_max=100_000,
            env={"TASK": "2", "GITHUB_TOKEN": "sk-ant-TEST123", "AWS_REGION": "sk-ant-TEST123"},
        )
        assert b"sk-ant-TEST123" not in done.output
        lines = done.output.decode().splitlines()
        names = {line.partition("=")[0] for line in lines}
        assert {"PLAN=1", "TASK=2", "LANG=C.UTF-8", f"PATH={':'.join(TOOLS)}"} <= set(lines)
        assert {"HOME", "TMPDIR"} <= names
        assert not names & {"ANTHROPIC_API_KEY", "PRIVATE_THING", "GITHUB_TOKEN", "AWS_REGION"}


@pytest.mark.asyncio
async def test_home_and_temporary_folder_are_private_and_writable(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        done = await run(
            workspace, "sh", "-c", 'touch "$HOME/h" "$TMPDIR/t" && echo "$HOME $TMPDIR"'
        )
        assert done.exit_status == 0
        assert os.path.expanduser("~") not in done.output.decode().split()
        assert isinstance(sealed := await seal(workspace), Sealed)
        assert sealed.changed == ()


@pytest.mark.asyncio
async def test_git_inside_finds_no_repository_further_up(tmp_path: Path, sandbox: Sandbox) -> None:
    make_repository(tmp_path / "state", {"outer": "1"})
    async with opened(tmp_path, sandbox) as workspace:
        assert (await run(workspace, "git", "status")).exit_status != 0
        assert (await run(workspace, "git", "init")).exit_status != 0


@pytest.mark.asyncio
async def test_files_lists_tracked_and_new_ones_without_ignored_ones(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    files: Files = {**START, ".gitignore": "*.log\n", "node_modules/tracked": "1"}
    async with opened(tmp_path, sandbox, files) as workspace:
        await run(workspace, "sh", "-c", "echo hi > new; echo no > x.log; rm a.py; ln -s new link")
        await run(workspace, "sh", "-c", "mkdir .venv; touch .venv/x node_modules/y; mkfifo pipe")
        entries = await workspace.files()
        assert [entry.path for entry in entries] == [
            ".gitignore",
            "new",
            "node_modules/tracked",
            "run.sh",
            "src/b.py",
        ]
        assert {entry.path: entry.size_bytes for entry in entries}["new"] == 3


@pytest.mark.asyncio
async def test_absolute_paths_are_those_that_commands_see(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        path = f"{workspace.location}/src/b.py"
        assert (await run(workspace, "cat", path)).output == b"y = 2\n"
        assert await workspace.read(path, bytes_max=100) == b"y = 2\n"
        await workspace.write(path, b"y = 3\n")
        assert (await run(workspace, "cat", "src/b.py")).output == b"y = 3\n"


@pytest.mark.asyncio
async def test_A06_files_planted_by_a_command_lead_nowhere(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret", encoding="utf-8")
    async with opened(tmp_path, sandbox) as workspace:
        script = f"ln -s {outside} folder; ln -s {outside}/secret file; ln -s {outside}/new gone"
        await run(workspace, "sh", "-c", script)
        for path in ("folder/secret", "file", "gone", f"{outside}/secret", "../outside/secret"):
            with pytest.raises(FileAccessError):
                await workspace.read(path, bytes_max=100)
            with pytest.raises(FileAccessError):
                await workspace.write(path, b"overwritten")
    assert sorted(os.listdir(outside)) == ["secret"]
    assert (outside / "secret").read_text(encoding="utf-8") == "secret"


@pytest.mark.asyncio
async def test_sealing_makes_a_commit_of_what_is_there(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        await run(workspace, "sh", "-c", "echo 'x = 9' > a.py; rm src/b.py; chmod +x run.sh")
        await workspace.write("docs/n.md", b"new\n")
        sealed = await seal(workspace)
        assert isinstance(sealed, Sealed)
        assert sealed.changed == ("a.py", "docs/n.md", "run.sh", "src/b.py")
        hub = tmp_path / "state" / "hub.git"
        listing = git(hub, "ls-tree", "-r", sealed.commit).splitlines()
        assert [(line[:6], line.partition("\t")[2]) for line in listing] == [
            ("100644", "a.py"),
            ("100644", "docs/n.md"),
            ("100755", "run.sh"),
        ]
        assert git(hub, "show", f"{sealed.commit}:a.py") == "x = 9"
        parent = git(tmp_path / "target", "rev-parse", "HEAD")
        assert git(hub, "log", "-1", "--format=%P %at %ct %s", sealed.commit) == (
            f"{parent} {DATE} {DATE} work"
        )


@pytest.mark.asyncio
async def test_an_unchanged_tree_seals_to_the_parent(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        await run(workspace, "sh", "-c", "cp a.py b; cat b > a.py; rm b; touch run.sh")
        sealed = await seal(workspace)
        top = tmp_path / "target"
        assert sealed == Sealed(
            git(top, "rev-parse", "HEAD"), git(top, "rev-parse", "HEAD^{tree}"), (), ()
        )


@pytest.mark.asyncio
async def test_W17_a_workspace_that_vanished_is_an_error(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        (tmp_path / "state" / "trees" / "task.1").rename(tmp_path / "moved")
        with pytest.raises(WorkspaceError):
            await run(workspace, "true")
        with pytest.raises(WorkspaceError):
            await seal(workspace)
        with pytest.raises(WorkspaceError):
            await workspace.write("a", b"")


@pytest.mark.asyncio
async def test_nothing_is_left_when_the_block_is_left(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox) as workspace:
        await run(workspace, "sh", "-c", "mkdir -p d/e; touch d/e/f; chmod 0 d/e d")
    assert os.listdir(tmp_path / "state" / "trees") == [".trash"]
    assert os.listdir(tmp_path / "state" / "trees" / ".trash") == []
