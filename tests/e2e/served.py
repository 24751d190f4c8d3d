"""Runs the program in this process, with its model behind a test server and waits on virtual time.

And looks at what such a run leaves: its branch, its transcripts, and what the server was asked.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator import data
from orchestrator.agent.transcript import Entry, read_transcript
from orchestrator.cli import session
from orchestrator.cli.options import RunOptions
from orchestrator.messages import ToolResult
from tests.e2e.support import Place
from tests.support.api.answer import Handled, Outage
from tests.support.api.cache import marks_of
from tests.support.api.conversation import Conversation, Policy, Raw, blocks_of
from tests.support.api.faults import Faults
from tests.support.api.server import KEY, NO_FAULTS, WINDOW_TOKENS, ApiServer
from tests.support.repositories import git, make_repository
from tests.support.virtual_clock import VirtualClock, conversation_of

MODEL = "claude-opus-5-5"


@dataclass(frozen=True, slots=True)
class Served:
    """A run that has ended."""

    place: Place
    code: int
    server: ApiServer
    clock: VirtualClock

    @property
    def tree(self) -> str:
        """Tree of the run's branch."""
        return git(self.place.repository, "rev-parse", f"orchestrate/{self.place.id}^{{tree}}")

    @property
    def commits(self) -> list[str]:
        """Subject and tree of every commit that the run has made."""
        spread = git(
            self.place.repository,
            "log",
            "--format=%s %T",
            f"HEAD..orchestrate/{self.place.id}",
        )
        return sorted(spread.splitlines())

    def transcripts(self) -> Iterator[tuple[str, Sequence[Entry]]]:
        """Name of the conversation and messages of each attempt."""
        for path in sorted(self.place.folder().transcripts.glob("*.jsonl")):
            entries = read_transcript(path).entries
            if entries:
                yield conversation_of(entries[0].message.text), entries


def demo_place(folder: Path) -> Place:
    """A repository of the bundled sample's files."""
    sample = data.demo("kitebase").sample
    files = {
        str(path.relative_to(sample)): path.read_bytes()
        for path in sample.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return Place(make_repository(folder / "kitebase", files), folder / "home")


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """The environment with `values` in it."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def run_served(
    place: Place,
    plan: Path,
    policy: Policy,
    *,
    faults: Faults = NO_FAULTS,
    healthy: Sequence[str] = (),
    before: Callable[[Conversation], Outage | None] | None = None,
    clock: VirtualClock | None = None,
    window_tokens: int = WINDOW_TOKENS,
    least_cached: int | None = None,
    plain: bool = False,
    model: str = MODEL,
    record: Path | None = None,
    demo: bool = False,
) -> Served:
    """Run `plan` to its end, without a sandbox, its agents played by `policy`.

    `healthy`: tasks that have no faults. The others are the server's and the program's options.
    """
    clock = clock or VirtualClock()

    def on_silence(conversation: Conversation) -> None:
        clock.expire(conversation.digest)
        clock.expire("")  # where nobody has labelled the waits

    server = ApiServer(
        policy,
        faults=faults,
        on_silence=on_silence,
        window_tokens=window_tokens,
        least_cached=least_cached,
        plain=plain,
        tries_in_ids=True,
    )
    server.state.healthy = tuple(healthy)
    server.state.before = before or server.state.before
    options = RunOptions(
        plan=plan,
        repo=place.repository,
        base_url=server.url,
        model=model,
        record=record,
        sandbox="off",
        demo=demo,
    )
    with server, variables(environment(place)):
        code = session.start(options, clock=clock)
    return Served(place, code, server, clock)


def environment(place: Place) -> dict[str, str]:
    """What the program finds in its environment."""
    return {"ORCHESTRATE_HOME": str(place.home), "ANTHROPIC_API_KEY": KEY}


def assert_as_without_faults(served: Served, wanted: Served) -> None:
    """The run has ended like `wanted`, and did nothing twice on the way."""
    assert served.code == 0
    assert served.tree == wanted.tree
    assert served.commits == wanted.commits
    assert_nothing_was_refused(served)
    assert_no_tool_ran_twice(served)
    assert_no_kept_reply_was_asked_for_again(served)
    assert served.place.left_behind() == []


def assert_nothing_was_refused(served: Served) -> None:
    """The program sent nothing that the API does not take."""
    log = served.server.log
    assert [(item.task, item.turn, item.error) for item in log if item.status == 400] == []


def assert_no_tool_ran_twice(served: Served) -> None:
    """Every call of a transcript has one result, in the message after it."""
    for _, entries in served.transcripts():
        asked = [call.id for entry in entries for call in entry.message.calls]
        answered = [
            block.tool_use_id
            for entry in entries
            for block in entry.message.blocks
            if isinstance(block, ToolResult)
        ]
        assert answered == asked
        assert max(Counter(asked).values(), default=1) == 1


def assert_no_kept_reply_was_asked_for_again(served: Served) -> None:
    """The try whose reply stands in a transcript is the last that the server saw of that turn.

    Ids of calls say which try they came with.
    """
    last = dict[tuple[str, int], int]()
    for item in served.server.log:
        last[item.key] = max(last.get(item.key, 0), item.tried)
    for conversation, entries in served.transcripts():
        replies = [entry.message for entry in entries if entry.message.role == "assistant"]
        for turn, reply in enumerate(replies):
            kept = {int(call.id.split("_")[3]) for call in reply.calls}
            assert kept in (set(), {last[conversation, turn]}), (conversation, turn)


def assert_bodies_are_append_only(log: Sequence[Handled]) -> None:
    """Each request of a conversation is the one before and more, but for at most four marks."""
    latest = dict[str, Raw]()
    for item in log:
        assert len(marks_of(item.body)) <= 4
        before, now = latest.get(item.conversation), _unmarked(item.body)
        if before is not None:
            assert {key: now[key] for key in now if key not in _GROWS} == {
                key: before[key] for key in before if key not in _GROWS
            }
            assert now["messages"][: len(before["messages"])] == before["messages"]
        latest[item.conversation] = now


_GROWS = ("messages", "max_tokens")


def _unmarked(body: Raw) -> Raw:
    """A request without its marks."""

    def bare(blocks: Sequence[Raw]) -> list[Raw]:
        return [
            {key: value for key, value in block.items() if key != "cache_control"}
            for block in blocks
        ]

    messages = [
        {"role": message["role"], "content": bare(blocks_of(message))}
        for message in body["messages"]
    ]
    return {**body, "system": bare(body.get("system", [])), "messages": messages}
