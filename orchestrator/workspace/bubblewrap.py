"""The bubblewrap level of the sandbox: a command becomes a `bwrap` command line.

What it guarantees, as root and as an ordinary user:

- the only writable places are the workspace, mounted at `/workspace`, and temporary file systems;
- system folders and the interpreters of the tool path are there read-only; no home folder, no
  state folder, no other workspace, no repository, no `/etc` of the host;
- no network, no processes of others, no capabilities, a host name of its own;
- everything in it dies with the command, and with the orchestrator;
- bwrap itself starts with an empty environment, so `/proc/1/environ` tells nothing.

It does not limit memory, processes or the size of the workspace. As root the kernel's user id stays
0, so the parts of `/proc` that root may write are mounted read-only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestrator.workspace.environment import TREE
from orchestrator.workspace.toolchain import folders_of

MOUNT_POINT = "/workspace"
"""Where a sandboxed command finds its workspace: the same place for every task and machine."""

_HOME = "/home/agent"
_TMP = "/tmp"  # noqa: S108 - a file system of the command's own
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the same
_ETC = "etc"
_EMPTY = "empty"
_TMPFS_BYTES_MAX = 1 << 30

_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# The namespace's first process. It says 127 and 126 where bubblewrap would say 1, and since
# bubblewrap waits for it, and the kernel lets it end only after all others, nothing of a command
# is left when bubblewrap returns (with its own first process, what is left dies a little later).
_FIRST_PROCESS = '(exec "$@"); exit $?'

_ETC_OF_THE_HOST = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
)
# Files under /proc that kernel user id 0 may write whatever its capabilities are: through
# sys/kernel/core_pattern alone the host would run a program of the sandbox's choice.
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Commands run in namespaces of their own."""

    program: str
    """Path of `bwrap`."""
    modern: bool = True
    """Whether to use the options of 0.8: capped file systems, no user namespaces inside."""
    name: str = "bubblewrap"
    isolates: bool = True

    def describe(self) -> str:
        """One line for people."""
        root = "; started as root, an ordinary user is safer" if os.geteuid() == 0 else ""
        return f"sandbox: bubblewrap, no network{root}"

    def prepare(self, place: Path) -> dict[str, str]:
        """A small `/etc`; home and temporary files are file systems of each command's own."""
        etc = place / _ETC
        etc.mkdir()
        for name, content in _made_etc().items():
            (etc / name).write_text(content, encoding="ascii")
        (etc / _EMPTY).touch()
        return {"HOME": _HOME, "TMPDIR": _TMP}

    def location(self, place: Path) -> str:
        """The mount point, whatever the folder."""
        del place
        return MOUNT_POINT

    def wrap(
        self, argv: Sequence[str], *, place: Path, env: Mapping[str, str], tool_path: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """The bubblewrap command line."""
        options = [
            *self._namespaces(),
            *self._own_file_systems(place),
            *_mounts_of_the_host(),
            *_read_only(folders_of(tuple(tool_path))),
            *("--bind", str(place / TREE), MOUNT_POINT),
            *("--ro-bind", str(place / _ETC / _EMPTY), f"{MOUNT_POINT}/.git"),
            *("--remount-ro", "/"),
            *("--chdir", MOUNT_POINT),
        ]
        for variable, value in env.items():
            options += ["--setenv", variable, value]
        command = ["/bin/sh", "-c", _FIRST_PROCESS, "sh", *argv]
        return [self.program, *options, "--", *command], {}

    def _namespaces(self) -> list[str]:
        options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        options += ["--unshare-net", "--unshare-cgroup-try", "--hostname", "workspace"]
        options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--as-pid-1"]
        if self.modern:
            options.append("--disable-userns")
        return options

    def _own_file_systems(self, place: Path) -> list[str]:
        options = ["--proc", "/proc", "--dev", "/dev"]
        for name in _PROC_READ_ONLY:
            options += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        for folder in (_TMP, _HOME, _SHARED_MEMORY):
            if self.modern:
                options += ["--size", str(_TMPFS_BYTES_MAX)]
            options += ["--tmpfs", folder]
        options += ["--remount-ro", "/dev"]
        options += ["--symlink", "../tmp", f"/var{_TMP}"]
        for name in _made_etc():
            options += ["--ro-bind", str(place / _ETC / name), f"/etc/{name}"]
        return options


def find_bubblewrap() -> Bubblewrap | None:
    """The `bwrap` of this machine; None when there is none. Whether it holds is for a self-test."""
    program = shutil.which("bwrap")
    return Bubblewrap(program) if program else None


def _made_etc() -> dict[str, str]:
    """The files of a small `/etc`: who one is and what `localhost` means; no resolver."""
    uid, gid = os.geteuid(), os.getegid()
    user = "root" if uid == 0 else "agent"
    return {
        "passwd": f"{user}:x:{uid}:{gid}:{user}:{_HOME}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "group": f"{user}:x:{gid}:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


@lru_cache(maxsize=1)
def _mounts_of_the_host() -> tuple[str, ...]:
    """System folders, read-only, links as links; of `/etc` only what programs cannot do without."""
    options: list[str] = []
    for name in _SYSTEM_FOLDERS:
        folder = Path(name)
        if folder.is_symlink():
            options += ["--symlink", os.readlink(folder), name]
        elif folder.is_dir():
            options += ["--ro-bind", name, name]
    for name in _ETC_OF_THE_HOST:
        options += ["--ro-bind-try", name, name]
    return tuple(options)


def _read_only(folders: Sequence[str]) -> list[str]:
    return [part for folder in folders for part in ("--ro-bind", folder, folder)]
