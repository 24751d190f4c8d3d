"""A goal, the plan that a scripted planner makes for it, and the scripts that play it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.support import Call, Place, change, turns, write, write_yaml
from tests.support.api.conversation import Raw

GOAL = "Write two files"
READ: Call = {"Read": {"file_path": "list.txt"}}
GATE = "test -f a.txt -a -f b.txt"


def proposal(**changes: object) -> Raw:
    """Arguments of SubmitPlan: two writers side by side and a command that judges both."""
    tasks = [
        {
            "id": name,
            "role": "implementer",
            "prompt": f"Write {name}.txt",
            "needs": [],
            "writes": [f"/{name}.txt"],
        }
        for name in ("a", "b")
    ]
    return {
        "name": "two files",
        "goal": GOAL,
        "context": [],
        "gates": [GATE],
        "tasks": tasks,
        "why": "They do not meet.",
        **changes,
    }


def script(*plans: Raw) -> dict[str, object]:
    """Turns of a planner who looks and then hands in each of `plans`, and of the two writers."""
    handed_in: list[Call] = [{"SubmitPlan": plan} for plan in plans or (proposal(),)]
    return {
        "plan": turns(READ, *handed_in),
        **{name: turns(write(f"{name}.txt", f"{name}\n"), change(name)) for name in ("a", "b")},
    }


def scripted(place: Place, *plans: Raw) -> list[str]:
    """The words that let that script answer."""
    path = place.repository.parent / "goal.yaml"
    return ["--scripted", str(write_yaml(path, {"tasks": script(*plans)}))]


def beside(place: Place, name: str) -> Path:
    """A file next to the repository."""
    return place.repository.parent / name
