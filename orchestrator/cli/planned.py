"""What `orchestrate plan` gives: the planner's plan as a file."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.drive import Display, report
from orchestrator.cli.terminal import note, out, save
from orchestrator.core.products import PlanProposal
from orchestrator.core.state import RunState
from orchestrator.errors import UsageError
from orchestrator.observers.text import clean_line, dollars
from orchestrator.planfile.write import plan_text


def check_output(path: Path | None) -> None:
    """Raise `UsageError` where a plan could not be written, before it costs anything."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"-o {path}: a folder; name a file in it")
    if path.exists():
        raise UsageError(f"-o {path}: is there already; name a new file, or remove it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"-o {path}: there is no such folder")


def write_plan(state: RunState, path: Path | None, display: Display) -> None:
    """Print the plan that a run has made, or write it to `path`. Raises `UsageError`."""
    plan = next(
        task.product for task in state.tasks.values() if isinstance(task.product, PlanProposal)
    )
    text = plan_text(plan, state.settings)
    if display.json:
        report(state, display)
    cost = dollars(state.usage.usd)
    if path is None:
        if not display.json:
            out([text.rstrip("\n")])
        note(f"the plan cost {cost}; read it, edit it, then `orchestrate run FILE`")
        return
    save(path, text, hint=f"; `orchestrate resume {state.run}` prints the plan")
    note(f"written to {path} for {cost}; run it: orchestrate run {clean_line(str(path))}")
