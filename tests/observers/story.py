"""A whole run as events, written by hand: a red gate, a replan, a fix; with hostile texts in it."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.events import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    GateRecord,
    PlanRevised,
    RunFinished,
    RunStarted,
    StoredEvent,
)
from orchestrator.core.plan import Gate, PlanSettings, Task
from orchestrator.core.products import Change, Claim, Decision, PlanPatch, Report
from orchestrator.core.roles import Limits, Role
from orchestrator.core.usage import Usage

RUN = "kitebase-20261130-1432-7f3a"
BASE = "b" * 40
TREE = "7" * 40
FILTER, MERGE, FIX, FINAL = "1" * 40, "2" * 40, "3" * 40, "4" * 40
START = 1_796_000_000.0

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2Jclear \x9b31m \u202egnp"
"""Sets the clipboard, clears the screen, colours by a C1 character, reverses the reading order."""

FORGED = "done\n## Forged heading\n| a | b |\n```\n<script>x</script>"

ROLES = (
    Role(name="explorer", tools=("Read",), product="report", prompt="p"),
    Role(name="implementer", tools=("Edit",), product="change", writes=True, prompt="p"),
    Role(name="planner", tools=("Read",), product="patch", prompt="p"),
)
GATE = Gate(name="tests", run=("python", "-m", "unittest"))
TASKS = (
    Task(id="look", role="explorer", prompt="p"),
    Task(id="filter", role="implementer", prompt="p", needs=("look",)),
    Task(id="integrate", needs=("filter",), gates=(GATE,)),
)
REPLAN = Task(id="replan-1", role="planner", prompt="p", needs=("filter",), on_failure="fail")
FIX_TASK = Task(id="fix", role="implementer", prompt="p", needs=("filter",))
MENDED = Task(id="integrate", needs=("fix",), gates=(GATE,))


def usage(usd: float = 0.25) -> Usage:
    return Usage(
        input_tokens=100,
        cache_write_5m_tokens=20,
        cache_read_tokens=3_000,
        output_tokens=40,
        calls=2,
        usd=usd,
        seconds=1.5,
    )


def gate(outcome: str = "passed", tail: str = "") -> GateRecord:
    return GateRecord.model_validate(
        {
            "name": "tests",
            "argv": ("python", "-m", "unittest"),
            "tree": TREE,
            "outcome": outcome,
            "exit_status": 0 if outcome == "passed" else 1,
            "seconds": 0.5,
            "base": "passed",
            "tail": tail,
        }
    )


def started(task: str, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(task=task, attempt=attempt, limits=Limits())


def succeeded(task: str, commit: str, **fields: object) -> AttemptSucceeded:
    return AttemptSucceeded.model_validate(
        {"task": task, "attempt": 1, "commit": commit, "tree": TREE, "usage": usage(), **fields}
    )


def beginning() -> list[Event]:
    """Up to the first success."""
    claim = Claim(path="tickets/search.py", line=3, quote="def search", note="takes a filter")
    return [
        RunStarted(
            repository="/somewhere/.git",
            base=BASE,
            base_branch="main",
            settings=PlanSettings(name="kitebase", goal="Add a filter"),
            roles=ROLES,
            model="scripted:kitebase.script.yaml",
            sandbox="bubblewrap",
            workspace="checkout",
        ),
        PlanRevised(by=None, add=TASKS, why="the plan"),
        started("look"),
        succeeded("look", BASE, product=Report(summary="It is in search.py", claims=(claim,))),
    ]


def failing() -> list[Event]:
    """Up to the red gate, whose output tries to drive the terminal."""
    decision = Decision(what="status is a keyword", why="callers stay")
    return [
        *beginning(),
        started("filter"),
        AttemptFailed(
            task="filter",
            attempt=1,
            reason="own_gate_red",
            evidence=f"3 tests failed {ESCAPES}",
            signature="s1",
            usage=usage(),
            gates=(gate("failed", f"AttributeError: None\n{ESCAPES}\n"),),
        ),
        started("filter", 2),
        succeeded(
            "filter",
            FILTER,
            attempt=2,
            product=Change(summary=f"{FORGED} {ESCAPES}", decisions=(decision,)),
            gates=(gate(),),
            left_out=(".venv/: artefact",),
        ),
        started("integrate"),
        AttemptFailed(
            task="integrate",
            attempt=1,
            reason="gate_red",
            evidence="no ValueError was raised",
            signature="s2",
            commit=MERGE,
            usage=Usage(seconds=0.5),
            gates=(gate("failed", "search returned []"),),
        ),
    ]


def whole() -> list[Event]:
    """The run to its good end."""
    patch = PlanPatch(why="The rule of the rules file was broken")
    return [
        *failing(),
        PlanRevised(by=None, replans="integrate", add=(REPLAN,), why="integrate has failed"),
        started("replan-1"),
        succeeded("replan-1", FILTER, product=patch),
        PlanRevised(by="replan-1", add=(FIX_TASK,), replace=(MENDED,), why=patch.why),
        started("fix"),
        succeeded("fix", FIX, product=Change(summary="An unknown status raises ValueError")),
        started("integrate", 2),
        succeeded("integrate", FINAL, attempt=2, usage=Usage(seconds=0.5), gates=(gate(),)),
        RunFinished(status="succeeded", branch=f"orchestrate/{RUN}", commit=FINAL),
    ]


def stored(events: Sequence[Event], run: str = RUN) -> list[StoredEvent]:
    """The events as a journal keeps them, one second apart."""
    return [
        StoredEvent(seq=seq, run=run, at=START + seq, cause=None, body=body)
        for seq, body in enumerate(events, start=1)
    ]
