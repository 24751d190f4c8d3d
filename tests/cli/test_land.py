"""`land`: a run's result into the branch it started from, or nothing written and one line why."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli.answers import Source
from orchestrator.cli.session_file import SESSION_FILE, Session
from orchestrator.core.events import (
    AttemptStarted,
    AttemptSucceeded,
    Event,
    Landed,
    PlanRevised,
    RunFinished,
    RunPaused,
    RunStarted,
    StoredEvent,
)
from orchestrator.core.plan import Gate, Plan, Task
from orchestrator.core.roles import Limits, Role
from orchestrator.journal import Journal, RunLog
from orchestrator.state_folder import StateFolder
from tests.cli.inside import run_inside
from tests.cli.program import Result, orchestrate_each, record
from tests.e2e.support import Place as Whole
from tests.e2e.support import (
    change,
    common_dir,
    make_place,
    meeting_point,
    met,
    turns,
    wait_for_end,
    write,
    writer,
)
from tests.support.repositories import (
    commit_files,
    commit_on,
    fingerprint,
    git,
    make_repository,
    write_files,
)

RUN = "kite-20261130-1432-7f3a"
BRANCH = f"orchestrate/{RUN}"
BY_HAND = f"git merge {BRANCH}"
ROLE = Role(name="implementer", tools=("Edit",), product="change", writes=True, prompt="p")
SMALL = Gate(name="sum", run='s=0; for n in $(cat *.txt); do s=$((s + n)); done; test "$s" -lt 10')
"""Numbers in all text files add up to less than 10."""


@dataclass(slots=True)
class Place:
    """A repository with a run on it that has ended, recorded by hand; the state folder."""

    top: Path
    home: Path
    base: str
    result: str

    @property
    def state(self) -> StateFolder:
        return StateFolder.for_repository(common_dir(self.top), self.home)

    def land(self, *args: str, sandbox: str = "off", **variables: str) -> Result:
        """Run `orchestrate land`."""
        words = ("land", "--repo", str(self.top), "--sandbox", sandbox, *args)
        return run_inside(*words, home=self.home, **variables)

    def landed(self) -> list[Landed]:
        events = self.stored()
        return [event.body for event in events if isinstance(event.body, Landed)]

    def stored(self) -> list[StoredEvent]:
        return Journal.open(self.state.database).events(RUN)


def make(
    tmp_path: Path,
    *,
    gates: Sequence[Gate] = (SMALL,),
    start: str | None = "main",
    ended: Sequence[Event] | None = None,
    source: Source | None = None,
    bare: bool = False,
) -> Place:
    """A run that set `a.txt` to 3, of 1 in the base, and added `new.md`; `b.txt` has 2.

    gates: the plan's. start: the branch that the user was on. ended: the last events, in place of
    the usual.
    """
    top = make_repository(tmp_path / "kite", {"a.txt": "1\n", "b.txt": "2\n"})
    base = git(top, "rev-parse", "HEAD")
    result = commit_on(top, base, {"a.txt": "3\n", "new.md": "new\n"})
    git(top, "branch", BRANCH, result)
    if bare:
        git(tmp_path, "clone", "-q", "--bare", str(top), "kite.git")
        top = tmp_path / "kite.git"
    place = Place(top, tmp_path / "home", base, result)
    task = Task(id="only", role="implementer", prompt="p", gates=tuple(gates))
    plan = Plan(name="kite", gates=tuple(gates), tasks=(task,))
    tree = git(top, "rev-parse", f"{result}^{{tree}}")
    usual = (
        AttemptStarted(task="only", attempt=1, limits=Limits()),
        AttemptSucceeded(task="only", attempt=1, commit=result, tree=tree),
        RunFinished(status="succeeded", branch=BRANCH, commit=result),
    )
    events: list[Event] = [
        RunStarted(
            repository=str(common_dir(top)),
            base=base,
            base_branch=start,
            settings=plan.settings,
            roles=(ROLE,),
            model="scripted:s",
            sandbox="none",
            workspace="checkout",
        ),
        PlanRevised(by=None, add=plan.tasks),
        *(usual if ended is None else ended),
    ]
    folder = record(place.home, common_dir(top), events, run=RUN)
    session = Session(
        repository=str(top),
        plan=plan,
        roles=(ROLE,),
        base=base,
        base_branch=start,
        source=source or Source(script="tasks: {}\n", script_name="s"),
    )
    (folder.root / SESSION_FILE).write_text(session.model_dump_json(), encoding="utf-8")
    return place


def assert_refused(place: Place, result: Result, code: int, why: str, by_hand: str) -> None:
    """One line says why and what to type; nothing is written, the journal included."""
    assert (result.code, result.out) == (code, "")
    assert len(result.err.splitlines()) == 1, result.err
    assert why in result.err
    assert by_hand in result.err
    assert place.landed() == []


def test_a_run_is_landed_once_by_moving_the_branch_forward(tmp_path: Path) -> None:
    whole = make_place(tmp_path, {"a.txt": "1\n"})
    plan = whole.plan(
        {"first": writer(gates=["test -f new.txt"])},
        {"first": turns(write("new.txt", "n\n"), change())},
    )
    assert whole.run("run", *plan, "--sandbox", "off").code == 0
    before = git(whole.repository, "rev-parse", "main")
    first, again, listed, shown = orchestrate_each(
        ["land"], ["land"], ["list"], ["status"], cwd=whole.repository, home=whole.home
    )
    result = whole.branches()[whole.id]
    assert (first.code, first.err) == (0, "")
    assert f"landed orchestrate/{whole.id} in main: moved forward" in first.out
    assert git(whole.repository, "rev-parse", "main", "HEAD").split() == [result, result]
    assert (whole.repository / "new.txt").read_text(encoding="utf-8") == "n\n"
    assert git(whole.repository, "status", "--porcelain") == ""
    assert (again.code, again.err) == (0, "")
    assert "is in main already" in again.out
    landed = [event for event in whole.events() if isinstance(event, Landed)]
    assert landed == [Landed(branch="main", before=before, commit=result)]
    assert listed.out.startswith("succeeded")
    assert f"main at {result[:12]}" in shown.out
    assert whole.left_behind() == []


def test_D07_M05_a_branch_that_moved_on_is_merged_and_gated_again(tmp_path: Path) -> None:
    place = make(tmp_path)
    theirs = commit_files(place.top, {"c.txt": "4\n"})  # 3 + 2 + 4 < 10
    write_files(place.top, {"untracked": "mine\n"})
    result = place.land()
    assert result.code == 0, result.err
    assert "merged" in result.out
    assert "gates passed again on the merge: sum" in result.out
    assert git(place.top, "rev-parse", "main^1", "main^2").split() == [theirs, place.result]
    assert git(place.top, "status", "--porcelain") == "?? untracked"
    assert {path.name for path in place.top.glob("*.txt")} == {"a.txt", "b.txt", "c.txt"}
    (landed,) = place.landed()
    commit = git(place.top, "rev-parse", "main")
    assert (landed.before, landed.commit) == (theirs, commit)
    (gate,) = landed.gates
    assert (gate.name, gate.outcome) == ("sum", "passed")
    assert gate.tree == git(place.top, "rev-parse", "main^{tree}")
    message = git(place.top, "show", "--no-patch", "--format=%an%n%B", "main").splitlines()
    assert message == [
        "orchestrate",
        f"Merge {BRANCH} into main",
        "",
        f"Orchestrate-Run: {RUN}",
        "Orchestrate-Task: only",
        "Orchestrate-Attempt: 1",
    ]


def test_M01_a_merge_with_a_red_gate_is_not_landed(tmp_path: Path) -> None:
    place = make(tmp_path)
    commit_files(place.top, {"c.txt": "5\n"})  # 1 + 2 + 5 < 10 without the run, 3 + 2 + 5 is not
    before = fingerprint(place.top)
    result = place.land()
    assert (result.code, result.out) == (1, "")
    assert "gate sum is red on the merge (it passes without the run)" in result.err
    assert result.err.splitlines()[-1] == f"nothing was changed; by hand: {BY_HAND}"
    assert fingerprint(place.top) == before
    assert place.landed() == []


def test_a_gate_that_is_red_anyway_is_said_to_be(tmp_path: Path) -> None:
    place = make(tmp_path)
    commit_files(place.top, {"c.txt": "50\n"})
    result = place.land()
    assert result.code == 1
    assert "it is red without the run" in result.err


def test_a_conflict_is_not_landed(tmp_path: Path) -> None:
    place = make(tmp_path)
    commit_files(place.top, {"a.txt": "7\n"})
    before = fingerprint(place.top)
    result = place.land()
    assert (result.code, result.out) == (1, "")
    assert f"{BRANCH} conflicts with it in a.txt" in result.err
    assert BY_HAND in result.err
    assert fingerprint(place.top) == before


def test_a_plan_without_gates_is_merged_with_a_warning(tmp_path: Path) -> None:
    place = make(tmp_path, gates=())
    commit_files(place.top, {"c.txt": "50\n"})
    result = place.land()
    assert result.code == 0
    assert "warning: main has moved on, and the plan has no gate" in result.err
    assert "Gate" not in result.out


def test_M05_a_branch_that_moves_under_the_gates_is_gated_once_more(tmp_path: Path) -> None:
    top, marker = tmp_path / "kite", tmp_path / "marker"
    identity = "-c user.name=n -c user.email=e@example.org"
    move = f"echo 1 > {top}/d.txt; git -C {top} add d.txt; git -C {top} {identity} commit -qm more"
    moving = Gate(name="moving", run=f"test -e {marker} || {{ touch {marker}; {move}; }}")
    place = make(tmp_path, gates=[moving])
    commit_files(place.top, {"c.txt": "4\n"})
    result = place.land()
    assert result.code == 0, result.err
    assert git(place.top, "log", "-1", "--format=%s", "main^1") == "more"
    (landed,) = place.landed()
    assert landed.before == git(place.top, "rev-parse", "main^1")
    assert [gate.tree for gate in landed.gates] == [git(place.top, "rev-parse", "main^{tree}")]


def test_changes_in_the_checkout_stop_it(tmp_path: Path) -> None:
    place = make(tmp_path)
    write_files(place.top, {"b.txt": "mine\n"})
    before = fingerprint(place.top)
    assert_refused(place, place.land(), 3, "not committed (b.txt)", f"by hand: {BY_HAND}")
    assert fingerprint(place.top) == before


def test_untracked_files_in_the_way_stop_it(tmp_path: Path) -> None:
    place = make(tmp_path)
    write_files(place.top, {"new.md": "mine\n"})
    result = place.land()
    assert_refused(place, result, 3, "new.md", BY_HAND)
    assert (place.top / "new.md").read_text(encoding="utf-8") == "mine\n"
    assert git(place.top, "rev-parse", "main") == place.base


def test_W32_the_branch_may_be_checked_out_in_a_linked_worktree(tmp_path: Path) -> None:
    place = make(tmp_path)
    git(place.top, "switch", "-q", "-c", "elsewhere")
    git(place.top, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    write_files(place.top, {"a.txt": "dirty\n"})
    assert place.land().code == 0
    assert (tmp_path / "linked" / "a.txt").read_text(encoding="utf-8") == "3\n"
    assert git(place.top, "status", "--porcelain") == " M a.txt"


def test_a_branch_that_is_checked_out_nowhere_is_moved_alone(tmp_path: Path) -> None:
    place = make(tmp_path)
    git(place.top, "switch", "-q", "-c", "elsewhere")
    before = fingerprint(place.top)
    assert place.land().code == 0
    after = fingerprint(place.top)
    changed = {path for path in after if before.get(path) != after[path]}
    assert changed == {".git/refs/heads/main", ".git/logs/refs/heads/main"}
    assert git(place.top, "rev-parse", "main") == place.result


def test_the_command_says_which_branch_to_switch_to(tmp_path: Path) -> None:
    place = make(tmp_path, start="odd;branch")
    theirs = commit_on(place.top, place.base, {"a.txt": "7\n"})
    git(place.top, "update-ref", "refs/heads/odd;branch", theirs)
    result = place.land()
    assert result.code == 1
    assert f"by hand: git switch 'odd;branch' && {BY_HAND}" in result.err


def test_W32_a_bare_repository(tmp_path: Path) -> None:
    place = make(tmp_path, bare=True)
    assert place.land().code == 0
    assert git(place.top, "rev-parse", "main") == place.result


ENDINGS: dict[str, tuple[Sequence[Event], str]] = {
    "unfinished": ((), "is not finished"),
    "paused": ((RunPaused(reason="budget", detail="spent"),), "is not finished"),
    "failed": ((RunFinished(status="failed"),), "has failed"),
    "nothing": ((RunFinished(status="succeeded"),), "integrated nothing"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_run_that_has_nothing_to_land_is_refused(tmp_path: Path, how: str) -> None:
    events, why = ENDINGS[how]
    place = make(tmp_path, ended=events)
    before = fingerprint(place.top)
    assert_refused(place, place.land(), 2, why, "")
    assert fingerprint(place.top) == before


def test_M04_a_failed_run_is_left_to_a_person_even_with_a_branch(tmp_path: Path) -> None:
    failed = RunFinished(status="failed", branch=BRANCH, commit="1" * 40)
    place = make(tmp_path, ended=[failed])
    assert_refused(place, place.land(), 2, "has failed", f"by hand: {BY_HAND}")


def test_a_run_that_began_on_no_branch_is_left_to_a_person(tmp_path: Path) -> None:
    place = make(tmp_path, start=None)
    assert_refused(place, place.land(), 2, "started on no branch", f"by hand: {BY_HAND}")


def test_a_branch_that_is_gone_stops_it(tmp_path: Path) -> None:
    place = make(tmp_path)
    git(place.top, "branch", "-m", "main", "trunk")
    assert_refused(place, place.land(), 3, "`main`", f"by hand: {BY_HAND}")


def test_M05_what_was_added_to_the_runs_branch_is_not_landed_unseen(tmp_path: Path) -> None:
    place = make(tmp_path)
    more = commit_on(place.top, place.result, {"a.txt": "99\n"})
    git(place.top, "branch", "-f", BRANCH, more)
    assert_refused(place, place.land(), 3, f"is at {more[:12]}", f"by hand: {BY_HAND}")
    assert git(place.top, "rev-parse", "main") == place.base


def test_a_runs_branch_that_was_deleted_is_no_obstacle(tmp_path: Path) -> None:
    place = make(tmp_path)
    git(place.top, "branch", "-D", BRANCH)
    assert place.land().code == 0
    assert git(place.top, "rev-parse", "main") == place.result


def test_what_was_merged_by_hand_has_landed(tmp_path: Path) -> None:
    place = make(tmp_path)
    commit_files(place.top, {"c.txt": "4\n"})
    git(place.top, "merge", "-q", "--no-edit", BRANCH)
    write_files(place.top, {"b.txt": "dirty\n"})
    result = place.land()
    assert (result.code, result.err) == (0, "")
    assert "is in main already" in result.out
    here = git(place.top, "rev-parse", "main")
    assert place.landed() == [Landed(branch="main", before=here, commit=here)]


def test_a_branch_that_was_reset_can_be_landed_on_again(tmp_path: Path) -> None:
    place = make(tmp_path)
    assert place.land().code == 0
    git(place.top, "reset", "-q", "--hard", place.base)
    assert place.land().code == 0
    assert git(place.top, "rev-parse", "main") == place.result
    assert len(place.landed()) == 2


def test_M11_a_crash_before_the_event_is_made_good(tmp_path: Path) -> None:
    place = make(tmp_path)
    failed = place.land(ORCHESTRATE_FAULT="journal:1:enospc")
    assert failed.code == 6
    assert git(place.top, "rev-parse", "main") == place.result
    assert place.landed() == []
    again = place.land()
    assert (again.code, again.err) == (0, "")
    assert "is in main already" in again.out
    assert len(place.landed()) == 1


def test_M11_a_kill_while_git_writes_the_checkout_leaves_a_whole_one(tmp_path: Path) -> None:
    place = make(tmp_path)
    here, go_on = meeting_point(tmp_path / "here"), meeting_point(tmp_path / "go-on")
    filter_script = f"echo > {here}; read -r _ < {go_on}; cat"
    git(place.top, "config", "filter.slow.smudge", filter_script)
    write_files(place.top / ".git" / "info", {"attributes": "new.md filter=slow\n"})
    with Whole(place.top, place.home).started("land", "--sandbox", "off") as process:
        met(here, process)
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        (merging,) = [pid for pid in pids if _is_merge_of(pid, place.result)]
        process.kill()
        process.wait()
        go_on.write_text("\n", encoding="utf-8")
        wait_for_end(merging)
    assert git(place.top, "rev-parse", "main") == place.result
    assert git(place.top, "status", "--porcelain") == ""
    again = place.land()
    assert (again.code, again.err) == (0, "")
    assert "is in main already" in again.out


def _is_merge_of(pid: int, commit: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"merge" in words and commit.encode() in words


def test_a_run_that_somebody_has_is_not_landed(tmp_path: Path) -> None:
    place = make(tmp_path)
    journal = Journal.open(place.state.database)
    with RunLog.acquire(place.state.run(RUN), journal):
        result = place.land()
    assert (result.code, result.out) == (5, "")
    assert git(place.top, "rev-parse", "main") == place.base


def test_the_result_as_one_document(tmp_path: Path) -> None:
    place = make(tmp_path)
    result = place.land("--json")
    assert result.code == 0
    assert json.loads(result.out) == {
        "type": "landed",
        "run": RUN,
        "branch": "main",
        "before": place.base,
        "commit": place.result,
        "gates": [],
    }


def test_gates_of_real_agents_run_in_no_sandbox_only_when_asked(tmp_path: Path) -> None:
    place = make(tmp_path, source=Source())
    commit_files(place.top, {"c.txt": "4\n"})
    programs = tmp_path / "programs"  # without bubblewrap
    programs.mkdir()
    for name in ("git", "bash", "sh", "cat", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    refused = place.land(sandbox="auto", PATH=str(programs))
    assert_refused(place, refused, 3, "--sandbox off", f"by hand: {BY_HAND}")
    assert place.land(PATH=str(programs)).code == 0
