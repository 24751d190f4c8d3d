"""Runs the whole program on real repositories, and looks at everything it could leave behind.

A `Place` is one target repository with a state folder of its own. Nothing here reads the program's
own summaries: what happened comes from git, the journal and /proc.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from orchestrator.core.events import Event, StoredEvent
from orchestrator.journal import Journal
from orchestrator.journal.run_log import holder_of
from orchestrator.state_folder import RunFolder, StateFolder
from tests.cli.program import Result, command, environment, orchestrate
from tests.support.repositories import Files, fingerprint, git, make_repository

SECONDS_MAX = 50
"""How long one run of the program, or one step of it, may take."""

Call = dict[str, dict[str, object]]
"""`{Tool: {argument: value}}`, as a script writes it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A target repository and the program's state folder for it."""

    repository: Path
    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    """More of the program's environment."""

    def run(self, *args: str, cwd: Path | None = None, **more: str) -> Result:
        """Run `orchestrate ARGS` to its end, from the repository's top."""
        variables = {**self.variables, **more}
        return orchestrate(*args, cwd=cwd or self.repository, home=self.home, **variables)

    @contextmanager
    def started(self, *args: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
        """`orchestrate ARGS` while it runs, both streams piped: see `met` and `finished`."""
        process = subprocess.Popen(
            command(*args),
            cwd=self.repository,
            env=environment(self.home, **{**self.variables, **more}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield process
        finally:
            process.kill()  # does nothing to one that has been waited for
            process.communicate()

    def plan(
        self, tasks: Mapping[str, object], script: Mapping[str, object], **settings: object
    ) -> list[str]:
        """Write a plan and its script beside the repository; the words that run them."""
        beside = self.repository.parent
        plan = write_yaml(beside / "plan.yaml", {**settings, "tasks": dict(tasks)})
        return [
            str(plan),
            "--scripted",
            str(write_yaml(beside / "script.yaml", {"tasks": dict(script)})),
        ]

    @property
    def state(self) -> StateFolder:
        """Where the program keeps this repository's runs."""
        return StateFolder.for_repository(common_dir(self.repository), self.home)

    def runs(self) -> list[str]:
        """Ids of the journal's runs, oldest first; none without a journal."""
        if not self.state.database.exists():
            return []
        return [run.id for run in Journal.open(self.state.database).runs()]

    @property
    def id(self) -> str:
        """Id of the only run."""
        (run,) = self.runs()
        return run

    def folder(self, run: str | None = None) -> RunFolder:
        """Files of the only run, or of `run`."""
        return self.state.run(run or self.id)

    def stored(self, run: str | None = None) -> list[StoredEvent]:
        """The journal of the only run, or of `run`."""
        return Journal.open(self.state.database).events(run or self.id)

    def events(self, run: str | None = None) -> list[Event]:
        """Its events, without sequence numbers and times."""
        return [stored.body for stored in self.stored(run)]

    def branches(self) -> dict[str, str]:
        """Commit by run, for the branches that the program owns."""
        return {
            name.removeprefix("refs/heads/orchestrate/"): commit
            for name, commit in refs(self.repository).items()
            if name.startswith("refs/heads/orchestrate/")
        }

    def left_behind(self) -> list[str]:
        """Workspaces, processes and locks that are still there: empty when all is clean.

        Processes get a moment to end: killing them and the end of their parent are not one step.
        """
        for pid in processes_of(self.home):
            wait_for_end(pid)
        found = [f"process {pid}" for pid in processes_of(self.home)]
        if self.state.trees.is_dir():
            found += [f"workspace {p.name}" for p in self.state.trees.iterdir() if _holds(p)]
        held = ((run, holder_of(self.state.run(run))) for run in self.runs())
        return found + [f"lock of {run}: {holder}" for run, holder in held if holder]


def _holds(entry: Path) -> bool:
    """Whether an entry of the folder of workspaces is one, or a folder of them."""
    return not entry.name.startswith(".") or any(entry.iterdir())


def make_place(tmp_path: Path, files: Files, **variables: str) -> Place:
    """A repository `tmp_path/kite` with one commit of `files` on `main`."""
    return Place(make_repository(tmp_path / "kite", files), tmp_path / "home", variables)


def common_dir(repository: Path) -> Path:
    """The git folder that all worktrees of `repository` share."""
    return Path(git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir"))


def refs(repository: Path) -> dict[str, str]:
    """All refs with what they point to."""
    lines = git(repository, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def snapshot(repository: Path) -> dict[str, str]:
    """Digest of each file of a repository, what belongs to the program's branches left out.

    Checkout with modes, index, stash, configuration, hooks, HEAD, packed and loose refs, reflogs,
    and the names of objects, packed ones too. The program may add objects and nothing else, so
    compare with `changes`.
    """
    return {
        path: digest
        for path, digest in fingerprint(repository).items()
        if not path.startswith(
            (".git/refs/heads/orchestrate/", ".git/logs/refs/heads/orchestrate/")
        )
    }


def changes(before: Mapping[str, str], repository: Path) -> list[str]:
    """Paths that differ from the snapshot `before`."""
    after = snapshot(repository)
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def finished(process: subprocess.Popen[bytes]) -> Result:
    """Wait for the end of a started program."""
    out, err = process.communicate(timeout=SECONDS_MAX)
    return Result(process.returncode, out.decode(), err.decode())


def meeting_point(path: Path) -> Path:
    """Make a named pipe that a command of an agent writes to, to say that it has got there.

    It lies in a folder of programs: the one place outside the workspace that sandboxed commands
    see. Wait with `met`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def met(path: Path, process: subprocess.Popen[bytes], times: int = 1) -> None:
    """Wait until commands of `process` have written to the pipe `times` times."""
    # Open for writing too: the pipe is then never at its end, whoever comes and goes.
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        deadline = time.monotonic() + SECONDS_MAX
        seen = 0
        while seen < times:
            assert time.monotonic() < deadline, "nobody came"
            assert process.poll() is None, finished(process)
            if poll.poll(100):
                seen += os.read(pipe, 1000).count(b"\n")
    finally:
        os.close(pipe)


def processes_of(folder: Path) -> list[int]:
    """Processes that have to do with `folder`: by command line, environment, folder or mounts.

    A sandboxed command knows it only by its mounts. This process and its ancestors are left out.
    """
    wanted, ours = os.fsencode(folder), {os.getpid(), os.getppid()}
    return [
        pid
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit())
        if pid not in ours and not _is_dead(pid) and any(wanted in text for text in _texts_of(pid))
    ]


def _texts_of(pid: int) -> Iterator[bytes]:
    for name in ("cmdline", "environ", "mountinfo"):
        try:
            yield Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            yield b""
    try:
        yield os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return


def _is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return True
    return state in (b"Z", b"X")


def wait_for_end(pid: int, seconds_max: float = 5) -> None:
    """Wait for the end of any process, for a while."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(seconds_max * 1000)
    finally:
        os.close(descriptor)


def killed(result: Result) -> bool:
    """Whether the program was ended by SIGKILL."""
    return result.code == -signal.SIGKILL


def types(events: Sequence[Event]) -> Counter[str]:
    """How many events there are of each type."""
    return Counter(event.type for event in events)


def of_task(events: Sequence[Event], task: str) -> list[str]:
    """Types of the events of one task, in their order."""
    return [event.type for event in events if getattr(event, "task", None) == task]


def json_lines(result: Result) -> list[dict[str, object]]:
    """What `--json` printed: every line is one document."""
    return [json.loads(line) for line in result.out.splitlines()]


def write_yaml(path: Path, document: object) -> Path:
    """Write a plan or a script."""
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def writer(**more: object) -> dict[str, object]:
    """A task that writes."""
    return {"role": "implementer", "prompt": "write", **more}


def write(path: str, content: str) -> Call:
    """A call that writes a new file."""
    return {"Write": {"file_path": path, "content": content}}


def bash(text: str) -> Call:
    """A call that runs a command."""
    return {"Bash": {"command": text}}


def change(summary: str = "done") -> Call:
    """A call that hands in a change."""
    return {"SubmitChange": {"summary": summary}}


def report(summary: str = "seen", **more: object) -> Call:
    """A call that hands in a report."""
    return {"SubmitReport": {"summary": summary, **more}}


def turns(*each: Call | Sequence[Call]) -> list[dict[str, object]]:
    """A script's turns, each one call or several."""
    return [{"calls": [one] if isinstance(one, dict) else list(one)} for one in each]


def submit_patch(**parts: object) -> Call:
    """A call of the planner; what is left out is empty."""
    empty: dict[str, object] = {"add": [], "drop": [], "rewire": [], "amend": [], "why": "because"}
    return {"SubmitPatch": {**empty, **parts}}


def wait_at(here: Path) -> Call:
    """A command that says at the meeting point that it is running, and would then run for long.

    Where the meeting point is gone it does nothing: so is a resumed run let through.
    """
    return bash(
        f"trap '' TERM; if [ -p {here} ]; then echo > {here}; sleep 300; echo > late.txt; fi"
    )


def with_programs_in(folder: Path) -> dict[str, str]:
    """The variable that puts `folder` among the places of programs."""
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
