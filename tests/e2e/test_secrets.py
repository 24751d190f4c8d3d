"""The model's key is shown to the model's server, and to nobody and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import Place, bash, change, make_place, turns, write_yaml, writer
from tests.support.api.answer import Outage
from tests.support.api.conversation import Conversation, script_policy
from tests.support.api.server import KEY, ApiServer
from tests.workspace.test_isolation import needs_bubblewrap

pytestmark = pytest.mark.timeout(180)

SPY = "env; cat /proc/$PPID/environ ~/.netrc; echo looked > a.txt"
LOOKED = "PAGER=cat"
"""What the spy does find: a variable of its own."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, {"list.txt": "one\n"})


def files_with(text: str, *folders: Path) -> list[Path]:
    """Files below the folders that hold the text."""
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize(
    ("sandbox", "name"),
    [
        pytest.param("auto", "ANTHROPIC_API_KEY", marks=needs_bubblewrap),
        pytest.param("off", "ANTHROPIC_AUTH_TOKEN"),
    ],
)
def test_Z01_no_command_sees_the_key_and_no_file_holds_it(
    place: Place, sandbox: str, name: str
) -> None:
    task = writer(gates=[f"{SPY}; exit 1"], attempts=1, on_failure="fail")
    plan = write_yaml(place.repository.parent / "plan.yaml", {"tasks": {"w": task}})
    echo = Outage(401, "authentication_error", f"no such key: {KEY}")

    def before(conversation: Conversation) -> Outage | None:
        return echo if conversation.turn == 2 else None

    script = {"w": turns(bash(SPY), change(), change())}
    with ApiServer(script_policy(script)) as server:
        server.state.before = before
        options = ("--base-url", server.url, "--sandbox", sandbox)
        with_key = Place(place.repository, place.home, {name: KEY})
        result = with_key.run("run", str(plan), *options)
        assert result.code == 4, result.err
        seen = [item for item in server.log if item.task == "w"]
    assert LOOKED in str(seen[1].body["messages"][-1]), "the agent's command has looked"
    assert LOOKED in str(seen[2].body["messages"][-1]), "and so has the gate"
    assert "no such key: " in result.out
    assert [item for item in seen if KEY in str(item.body)] == []
    assert KEY not in result.out + result.err
    assert files_with(LOOKED, place.home) != [], "what it found is kept"
    assert files_with(KEY, place.home, place.repository) == []
