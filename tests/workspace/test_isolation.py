"""What only an isolating sandbox promises: attacks from inside, looked at from outside."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import ExitCode, RepositoryError
from orchestrator.ports import Workspace
from orchestrator.workspace import sandbox as sandboxes
from orchestrator.workspace.bubblewrap import MOUNT_POINT, Bubblewrap, find_bubblewrap
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import NoSandbox, choose_sandbox
from orchestrator.workspace.selftest import problems_of
from orchestrator.workspace.toolchain import folders_of
from orchestrator.workspace.trees import Workspaces
from tests.support.repositories import git, make_repository

needs_bubblewrap = pytest.mark.skipif(
    find_bubblewrap() is None, reason="bubblewrap is not installed"
)
TOOLS = [str(Path(sys.executable).parent), "/usr/bin", "/bin"]


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[Workspace]:
    top = make_repository(tmp_path / "target", {"a.py": "x = 1\n"})
    hub = await Hub.open(tmp_path / "state" / "hub.git", await Repository.open(top))
    sandbox = find_bubblewrap()
    assert sandbox is not None
    workspaces = Workspaces(hub, tmp_path / "state" / "trees", sandbox, env={}, tool_path=TOOLS)
    async with workspaces.open("task", git(top, "rev-parse", "HEAD")) as workspace:
        yield workspace


async def shell(workspace: Workspace, script: str) -> tuple[int | None, str]:
    done = await workspace.run(["bash", "-c", script], timeout_s=30, output_bytes_max=100_000)
    return done.exit_status, done.output.decode(errors="replace")


@pytest.mark.asyncio
@needs_bubblewrap
async def test_W02_nothing_of_the_host_is_writable(tmp_path: Path) -> None:
    async with opened(tmp_path) as workspace:
        assert workspace.location == MOUNT_POINT
        places = ["/usr/x", "/etc/x", "/x", "/workspace/.git/x", "/proc/sys/kernel/core_pattern"]
        places += [f"{tmp_path}/x", f"{os.path.expanduser('~')}/x", "/proc/sysrq-trigger"]
        for place in places:
            status, output = await shell(workspace, f"echo x > {place}")
            assert status != 0, (place, output)
        for command in ("rm -f .git", "mv .git x", "ln -sf /x .git", "mount -t tmpfs x /mnt"):
            status, output = await shell(workspace, command)
            assert status != 0, (command, output)
    assert sorted(os.listdir(tmp_path)) == ["state", "target"]


@pytest.mark.asyncio
@needs_bubblewrap
async def test_secrets_of_the_host_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-TEST123")
    (tmp_path / "secret").write_text("sk-ant-TEST123", encoding="utf-8")
    async with opened(tmp_path) as workspace:
        script = "env; cat /proc/*/environ /etc/shadow ~/.netrc " + f"{tmp_path}/secret"
        _, output = await shell(workspace, script)
        assert "sk-ant-TEST123" not in output
        status, _ = await shell(workspace, f"ls {tmp_path} {os.path.expanduser('~')}/.ssh")
        assert status != 0
        _, output = await shell(workspace, "ls -A /home/agent; cat /etc/passwd | wc -l; whoami")
        assert output.split()[0] == "2"


@pytest.mark.asyncio
@needs_bubblewrap
async def test_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with opened(tmp_path) as workspace:
            status, _ = await shell(workspace, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            assert status != 0
            _, output = await shell(workspace, "cat /proc/net/dev")
            assert [line.split(":")[0].strip() for line in output.splitlines()[2:]] == ["lo"]


@pytest.mark.asyncio
@needs_bubblewrap
async def test_no_capabilities_and_no_processes_of_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as workspace:
        _, output = await shell(workspace, "grep CapEff /proc/self/status; ls -d /proc/[0-9]*")
        assert output.split()[1] == "0" * 16
        assert f"/proc/{os.getpid()}" not in output.split()
        assert len(output.split()) < 10
        assert (await shell(workspace, "unshare -U true"))[0] != 0


@pytest.mark.asyncio
@needs_bubblewrap
async def test_devices_are_no_place_to_write_and_shared_memory_is_capped(tmp_path: Path) -> None:
    async with opened(tmp_path) as workspace:
        assert (await shell(workspace, "touch /dev/new"))[0] != 0
        status, output = await shell(workspace, "touch /dev/shm/new; df -B1 --output=size /dev/shm")
        assert status == 0
        assert int(output.split()[-1]) <= 1 << 30
        assert (await shell(workspace, "echo x > /dev/null"))[0] == 0


@pytest.mark.asyncio
@needs_bubblewrap
async def test_the_orchestrators_death_ends_what_runs(tmp_path: Path) -> None:
    async with opened(tmp_path):
        place = tmp_path / "state" / "trees" / "task"
        sandbox = find_bubblewrap()
        assert sandbox is not None
        argv, env = sandbox.wrap(
            ["bash", "-c", "exec 9>lock; flock 9; touch held; setsid -f sleep 300; sleep 300"],
            place=place,
            env={"PATH": "/usr/bin:/bin"},
            tool_path=(),
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *argv],
            env=env,
            cwd=place,
            start_new_session=True,
        )
        with anyio.fail_after(20):
            while not (place / "tree" / "held").exists():
                await anyio.sleep(0.01)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        freed = ["flock", "-w", "10", str(place / "tree" / "lock"), "true"]
        assert subprocess.run(freed).returncode == 0


@pytest.mark.asyncio
@needs_bubblewrap
async def test_tools_of_the_tool_path_work(tmp_path: Path) -> None:
    script = "import sys, pytest, getpass, socket; print(getpass.getuser());"
    script += "print(socket.gethostbyname('localhost')); print(sys.prefix)"
    async with opened(tmp_path) as workspace:
        done = await workspace.run(
            [
                "python",
                "-c",
                script,
            ],
            timeout_s=30,
            output_bytes_max=10_000,
        )
        user = "root" if os.geteuid() == 0 else "agent"
        assert done.output.decode().split() == [user, "127.0.0.1", sys.prefix]
        assert (await shell(workspace, f"touch {sys.prefix}/x"))[0] != 0


@pytest.mark.asyncio
@needs_bubblewrap
async def test_this_machines_bubblewrap_passes_its_self_test() -> None:
    modes: tuple[sandboxes.Mode, ...] = ("auto", "required")
    for mode in modes:
        chosen = await choose_sandbox(mode)
        assert chosen.isolates
        assert chosen.describe().startswith("sandbox: bubblewrap")


@pytest.mark.asyncio
@needs_bubblewrap
async def test_an_older_bubblewrap_holds_too() -> None:
    found = find_bubblewrap()
    assert found is not None
    assert await problems_of(replace(found, modern=False)) == []


class Leaky(Bubblewrap):
    """Bubblewrap with the host's network, processes and `/proc/sys`."""

    def _namespaces(self) -> list[str]:
        dropped = {"--unshare-net", "--unshare-pid", "--as-pid-1", "--die-with-parent"}
        return [option for option in super()._namespaces() if option not in dropped]


@pytest.mark.asyncio
@needs_bubblewrap
async def test_the_self_test_finds_what_leaks() -> None:
    found = find_bubblewrap()
    assert found is not None
    problems = await problems_of(Leaky(found.program))
    assert "reaches the network" in problems
    assert "processes outlive their command" in problems


@pytest.mark.asyncio
async def test_the_self_test_finds_that_nothing_holds() -> None:
    problems = await problems_of(NoSandbox())
    assert "makes files of the host" in problems
    assert "reads files of the host" in problems
    assert "writes files of the host" in problems


@pytest.mark.asyncio
async def test_a_sandbox_that_does_not_start_is_a_problem() -> None:
    (problem,) = await problems_of(Bubblewrap("/bin/false"))
    assert problem.startswith("it does not start")


@pytest.mark.asyncio
async def test_without_bubblewrap_auto_warns_and_required_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    chosen = await choose_sandbox("auto")
    assert (chosen.name, chosen.isolates) == ("none", False)
    assert "bubblewrap is not installed" in chosen.describe()
    with pytest.raises(RepositoryError, match="apt install bubblewrap") as caught:
        await choose_sandbox("required")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert "\n" not in str(caught.value)


@pytest.mark.asyncio
async def test_off_is_off() -> None:
    assert await sandboxes.choose_sandbox("off") == NoSandbox()


def test_a_home_folder_is_never_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for folder in ("bin", ".local/bin", ".local/lib", ".local/share", ".ssh"):
        (home / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    paths = (str(home), str(home / "bin"), str(home / ".local" / "bin"), "/", "relative", "/none")
    shown = [folder for folder in folders_of(paths) if folder.startswith(str(tmp_path))]
    assert shown == [f"{home}/bin", f"{home}/.local/bin", f"{home}/.local/lib"]


def test_a_virtual_environment_brings_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "py" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {tmp_path}/py/bin\n", encoding="utf-8")
    shown = folders_of((str(tmp_path / "venv" / "bin"),))
    assert {str(tmp_path / "venv"), str(tmp_path / "py")} <= set(shown)


def test_a_folder_is_shown_by_its_own_name_and_its_real_one(tmp_path: Path) -> None:
    (tmp_path / "py-3.11.9" / "bin").mkdir(parents=True)
    (tmp_path / "py-3.11").symlink_to("py-3.11.9")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(
        f"home = {tmp_path}/py-3.11/bin\n", encoding="utf-8"
    )
    shown = folders_of((str(tmp_path / "venv" / "bin"),))
    assert {str(tmp_path / "py-3.11"), str(tmp_path / "py-3.11.9")} <= set(shown)
