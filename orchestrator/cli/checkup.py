"""Looks at everything that a run will need, one finding each. What is told of it is `doctor`.

    ok        works
    warning   works, or is not needed by every run, and is worth knowing
    problem   no run can work before it is mended

Each look stands alone: one that fails is a finding, and the others go on. No finding holds a
secret: of keys it is said whether they are set. Nothing is left behind.
"""

from __future__ import annotations

import importlib
import locale
import os
import platform
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from anyio import to_thread

from orchestrator.cli.lookup import common_dir, known_runs
from orchestrator.data import builtin
from orchestrator.errors import OrchestratorError, PlanError, UsageError
from orchestrator.journal import holder_of
from orchestrator.models.prices import price_table
from orchestrator.models.servers import key_of, server_of
from orchestrator.observers.text import plural
from orchestrator.roles import Origin, find_roles, role_sources
from orchestrator.state_folder import HOME_VARIABLE, StateFolder, state_home
from orchestrator.workspace import probe, strays
from orchestrator.workspace.git import require_git
from orchestrator.workspace.repository import Repository
from orchestrator.workspace.sandbox import choose_sandbox

State = Literal["ok", "warning", "problem"]

FREE_BYTES_LOW = 1_000_000_000
"""Below this much room on the disk of the state folder a person is warned."""
FREE_BYTES_MIN = 100_000_000
"""Below this a run would soon end with a full disk."""
PRICES_MONTHS_MAX = 6
"""Prices that are older may have changed."""
NAMED_MAX = 3
"""Most names in one finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    text: str
    mend: str = ""
    """What to do; empty where nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be looked at."""

    repo: Path | None = None
    """A folder in the repository; None is the working folder, which may be in none."""
    roles: Path | None = None
    base_url: str | None = None
    online: bool = False
    """Whether the model server is asked."""
    repository: Repository | None = None
    """The repository, once it was found good."""


async def checkup(asked: Asked) -> list[Finding]:
    """Everything, in the order in which a run needs it."""
    found: list[Finding] = []
    for name, look in _MACHINE.items():
        found += await _told(name, look, asked)
    try:
        asked, about = await _open(asked)
        found.append(about)
    except OrchestratorError as error:
        found.append(_finding("repository", "problem", error))
    for name, look in _HERE.items():
        found += await _told(name, look, asked)
    return found


Look = Callable[[Asked], Awaitable[list[Finding]]]


async def _told(name: str, look: Look, asked: Asked) -> list[Finding]:
    """What a look finds; an error that ends it is a problem."""
    try:
        return await look(asked)
    except OrchestratorError as error:
        return [_finding(name, "problem", error)]
    except OSError as error:
        where = error.filename or "this machine"
        text = f"{where}: cannot be looked at ({error.strerror or error})"
        return [Finding(name, "problem", text, "see who owns it and what its modes are")]


def _finding(name: str, state: State, error: OrchestratorError) -> Finding:
    """An error as a finding: what stands behind its last semicolon is the mend."""
    what, _, mend = str(error).rpartition("; ")
    return Finding(name, state, what or mend, mend if what else "")


# --- the machine ----------------------------------------------------------------------------------


async def _python(_: Asked) -> list[Finding]:
    system = platform.system()
    text = f"{platform.python_version()} on {system}, {sys.executable}"
    if system == "Linux":
        return [Finding("python", "ok", text)]
    return [Finding("python", "warning", text, "only Linux is tested, and has the sandbox")]


async def _git(_: Asked) -> list[Finding]:
    version = ".".join(map(str, await require_git()))
    why = await probe.merge_problem()
    if why is not None:
        text = f"{version}, but `merge-tree --write-tree` does not work ({why})"
        return [Finding("git", "problem", text, "install a newer git")]
    return [Finding("git", "ok", f"{version}, `merge-tree --write-tree` works")]


async def _sandbox(_: Asked) -> list[Finding]:
    sandbox = await choose_sandbox("auto")
    text = sandbox.describe().removeprefix("sandbox: ")
    if sandbox.isolates:
        return [Finding("sandbox", "ok", f"{text}; it passed its self-test")]
    return [Finding("sandbox", "warning", text, "real models then need --sandbox off")]


async def _state_folder(_: Asked) -> list[Finding]:
    home = state_home()
    name = "state folder"
    if not await to_thread.run_sync(probe.can_write, home):
        mend = f"set {HOME_VARIABLE} to a folder that you can write to"
        return [Finding(name, "problem", f"{home}: cannot be written", mend)]
    free = await to_thread.run_sync(probe.free_bytes, home)
    text = f"{home}, {free / 1e9:,.1f} GB free"
    if free >= FREE_BYTES_LOW:
        return [Finding(name, "ok", text)]
    state: State = "warning" if free >= FREE_BYTES_MIN else "problem"
    return [Finding(name, state, text, f"free some room, or set {HOME_VARIABLE} to another disk")]


async def _terminal(_: Asked) -> list[Finding]:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding(False)).lower()
    kind = os.environ.get("TERM", "unknown") if sys.stdout.isatty() else "none"
    text = f"{kind}, {encoding}"
    if encoding.replace("-", "") == "utf8":
        return [Finding("terminal", "ok", text)]
    mend = "set LC_ALL=C.UTF-8, else other characters are shown as escapes"
    return [Finding("terminal", "warning", text, mend)]


async def _tools(_: Asked) -> list[Finding]:
    """Programs that agents like to run: nothing here needs them."""
    missing = [name for name in ("bash", "rg") if shutil.which(name) is None]
    if "bash" in missing:
        text = "bash is missing, which runs gates and agents' commands"
        return [Finding("tools", "problem", text, "install bash")]
    if missing:
        return [Finding("tools", "ok", "bash; no ripgrep (rg), agents use grep instead")]
    return [Finding("tools", "ok", "bash, ripgrep")]


# --- the repository -------------------------------------------------------------------------------


async def _open(asked: Asked) -> tuple[Asked, Finding]:
    """The repository, by the eyes of a run. Raises what a run would be refused with."""
    name = "repository"
    if asked.repo is None and await to_thread.run_sync(common_dir, Path.cwd()) is None:
        text = "the working folder is in none"
        mend = "go to one, or give --repo DIR; `orchestrate demo` needs none"
        return asked, Finding(name, "warning", text, mend)
    repository = await Repository.open(asked.repo or Path.cwd())
    base = await repository.resolve("HEAD")
    branch = repository.head_branch or "no branch"
    text = f"{repository.top or repository.common_dir}, {branch} at {base[:12]}"
    found = Finding(name, "ok", text)
    if repository.shallow:
        text += ", shallow: agents do not see its older history"
        found = Finding(name, "warning", text, "`git fetch --unshallow`, if they need it")
    return replace(asked, repository=repository), found


async def _contents(asked: Asked) -> list[Finding]:
    """What a workspace will show in another way than the user's checkout."""
    if asked.repository is None:
        return []
    base = await asked.repository.resolve("HEAD")
    contents = await probe.contents(asked.repository.git_dir, base)
    found = []
    if contents.lfs:
        text = "Git LFS: agents and gates see pointer files, not what they stand for"
        found.append(Finding("contents", "warning", text, "keep such files out of the tasks"))
    if contents.submodules:
        text = f"submodules are empty folders for agents and gates: {_some(contents.submodules)}"
        found.append(Finding("contents", "warning", text, "plan no work that needs them"))
    return found


async def _roles(asked: Asked) -> list[Finding]:
    target = asked.repository.top if asked.repository is not None else None
    sources = role_sources(bundled=builtin("roles"), target=target, option=asked.roles)
    try:
        found = await to_thread.run_sync(find_roles, sources)
    except PlanError as error:
        text = f"{plural(len(error.faults), 'fault')}, the first: {error.faults[0]}"
        return [Finding("roles", "problem", text, "see `orchestrate roles check`")]
    own = [name for name, one in found.items() if one.origin is not Origin.BUNDLED]
    text = f"{len(found)} found" + (f", not bundled: {_some(own)}" if own else ", all bundled")
    return [Finding("roles", "ok", text)]


# --- what runs left behind ------------------------------------------------------------------------


async def _runs(asked: Asked) -> list[Finding]:
    return await to_thread.run_sync(lambda: list(_interrupted(asked)))


def _interrupted(asked: Asked) -> Iterator[Finding]:
    """Runs of the repository that neither ended nor paused, and nobody carries on."""
    if asked.repository is None:
        return
    runs = known_runs(asked.repository.git_dir)
    done = ("RunFinished", "RunPaused", "Landed")
    dead = [
        run.id
        for run in reversed(runs)
        if run.summary.last_type not in done and holder_of(run.folder) is None
    ]
    if dead:
        text = f"{plural(len(dead), 'run')} ended half-way: {_some(dead)}"
        yield Finding("runs", "warning", text, f"`orchestrate resume {dead[0]}` goes on")
    else:
        yield Finding("runs", "ok", f"{plural(len(runs), 'run')} of this repository, none broken")
    left = _left_workspaces(StateFolder.for_repository(asked.repository.common_dir))
    if left:
        text = f"{plural(len(left), 'workspace')} of dead runs: {_some(left)}"
        yield Finding("runs", "warning", text, "resuming the run removes them; they may be deleted")


def _left_workspaces(state: StateFolder) -> list[str]:
    """Workspaces whose run no process has."""
    if not state.trees.is_dir():
        return []
    names = sorted(path.name for path in state.trees.iterdir() if not path.name.startswith("."))
    return [name for name in names if holder_of(state.run(name.partition(".")[0])) is None]


async def _processes(_: Asked) -> list[Finding]:
    return await to_thread.run_sync(lambda: list(_strays()))


def _strays() -> Iterator[Finding]:
    """Processes of commands whose run is known here and has ended."""
    folders = StateFolder.all()
    left = []
    for pid, workspace in sorted(strays.workspaces().items()):
        runs = [folder.run(workspace.partition(".")[0]) for folder in folders]
        known = [run for run in runs if run.root.is_dir()]
        if known and all(holder_of(run) is None for run in known):
            left.append(str(pid))
    if left:
        text = f"commands of dead runs still run, as process {_some(left)}"
        yield Finding("processes", "warning", text, f"`kill {' '.join(left[:NAMED_MAX])}`")


# --- models ---------------------------------------------------------------------------------------


async def _server(asked: Asked) -> list[Finding]:
    """Where answers come from, and whether there is a key; `online`, whether it answers."""
    name = "model server"
    try:
        server = server_of(asked.base_url, os.environ)
        key = key_of(os.environ)
    except UsageError as error:
        if asked.base_url is not None or asked.online:
            raise
        told = _finding(name, "warning", error)
        return [replace(told, text=f"only scripts and replays can answer: {told.text}")]
    text = f"{server.describe()}, {f'{key.name} is set' if key is not None else 'no key'}"
    if not asked.online:
        return [Finding(name, "ok", f"{text}; not asked, --online does")]
    listing = importlib.import_module("orchestrator.models.listing")
    models: tuple[str, ...] = await listing.list_models(server, os.environ)
    return [Finding(name, "ok", f"{text}; it has {_some(models) or 'no models'}")]


async def _prices(_: Asked) -> list[Finding]:
    table = price_table()
    now = time.gmtime()
    year, month = map(int, table.as_of.split("-"))
    age = (now.tm_year - year) * 12 + now.tm_mon - month
    text = f"{plural(len(table.models), 'model')}, as of {table.as_of}"
    if age <= PRICES_MONTHS_MAX:
        return [Finding("prices", "ok", text)]
    mend = "upgrade, or say `prices` in the plan"
    return [Finding("prices", "warning", f"{text}, {age} months ago", mend)]


_MACHINE: dict[str, Look] = {
    "python": _python,
    "git": _git,
    "sandbox": _sandbox,
    "state folder": _state_folder,
    "terminal": _terminal,
    "tools": _tools,
}
_HERE: dict[str, Look] = {
    "contents": _contents,
    "roles": _roles,
    "runs": _runs,
    "processes": _processes,
    "model server": _server,
    "prices": _prices,
}
"""What is looked at, before and after the repository is opened."""


def _some(names: list[str] | tuple[str, ...]) -> str:
    """The first few names."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
