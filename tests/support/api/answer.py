"""One request for a message: checked, answered or broken by a fault, and written into the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from tests.support.api.cache import Counters, Lookup, PromptCache, count_tokens
from tests.support.api.conversation import (
    Conversation,
    OffScript,
    Policy,
    Raw,
    Turn,
    finished,
    read_conversation,
)
from tests.support.api.events import encoded, message, stream
from tests.support.api.faults import RETRY_AFTER_S, FaultKind, Faults
from tests.support.api.refusals import Memory, Refused, check
from tests.support.api.wire import Wire

EVENT_STREAM = "text/event-stream; charset=utf-8"
PAGE = b"<!doctype html><title>502</title><h1>Bad gateway</h1>"
NOTHING = Counters()

_STATUS: dict[FaultKind, tuple[int, str, dict[str, str]]] = {
    "rate_limit": (429, "rate_limit_error", {}),
    "rate_limit_after": (429, "rate_limit_error", {"retry-after": str(RETRY_AFTER_S)}),
    "overloaded": (529, "overloaded_error", {}),
    "server_error": (500, "api_error", {}),
}
_BREAKS: tuple[FaultKind, ...] = ("error_event", "cut_chunked", "cut_closed", "silence")
"""Faults that end a stream before its end."""


@dataclass(frozen=True, slots=True)
class Handled:
    """One request for a message, and what became of it."""

    task: str
    attempt: int
    conversation: str
    turn: int
    tried: int
    """How often this turn had been asked for before."""
    fault: FaultKind | None
    status: int
    model: str
    body: Raw = field(repr=False)
    """The request as it came."""
    reply: Turn | None = field(default=None, repr=False)
    """The turn that was sent to its end; None where it was not."""
    counters: Counters = NOTHING
    """What the prompt cost, where a response began."""
    error: str = ""
    """Why it was refused."""

    @property
    def key(self) -> tuple[str, int]:
        """Which turn of which conversation was asked for."""
        return self.conversation, self.turn


@dataclass(frozen=True, slots=True)
class Outage:
    """An answer that is given in place of any other."""

    status: int
    kind: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class State:
    """What all connections of a server share. Settings may be changed while it runs."""

    policy: Policy
    faults: Faults
    cache: PromptCache
    on_silence: Callable[[Conversation], None]
    """Called from a thread of the server, again and again, while a stream is silent."""
    window_tokens: int
    plain: bool
    """Somebody else's server: no count_tokens, no cache counters, no strict tools."""
    tries_in_ids: bool
    """Ids of calls say which try they came with; else all tries at a turn have the same."""
    healthy: tuple[str, ...] = ()
    """Tasks that have no faults."""
    before: Callable[[Conversation], Outage | None] = lambda conversation: None
    """Asked before each answer; what it gives is the answer."""
    log: list[Handled] = field(default_factory=list)
    """Every request for a message, in the order of their answers."""
    memory: Memory = field(default_factory=Memory)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _tries: dict[tuple[str, int], int] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def number(self) -> int:
        """A number that no other request has."""
        return next(self._numbers)

    def next_try(self, conversation: Conversation) -> int:
        """How often this turn was asked for before."""
        key = (conversation.digest, conversation.turn)
        with self.lock:
            self._tries[key] = self._tries.get(key, -1) + 1
            return self._tries[key]


class Answer:
    """Answers one request."""

    def __init__(self, wire: Wire, state: State, body: Raw) -> None:
        self._wire = wire
        self._state = state
        self._body = body
        self._conversation: Conversation | None = None
        self._tried = 0
        self._fault: FaultKind | None = None

    def give(self) -> None:
        """Answer, whatever the answer is."""
        try:
            check(self._body)
            self._conversation = read_conversation(self._body)
            self._check_server()
            self._converse(self._conversation)
        except Refused as refused:
            self._refuse(refused.status, refused.kind, str(refused))
        except OffScript as off:
            self._refuse(400, "invalid_request_error", str(off))

    def _converse(self, conversation: Conversation) -> None:
        state = self._state
        if self._body["max_tokens"] == 0:
            return self._answer(conversation, Turn((), "max_tokens"))
        outage = state.before(conversation)
        if outage is not None:
            return self._refuse(outage.status, outage.kind, outage.message, outage.headers)
        self._tried = state.next_try(conversation)
        state.memory.check(conversation)
        if conversation.task not in state.healthy:
            self._fault = state.faults.choose(conversation.digest, conversation.turn, self._tried)
        if self._fault in _STATUS:
            status, kind, headers = _STATUS[self._fault]
            return self._refuse(status, kind, f"{kind}: try again", headers)
        if self._fault == "html":
            self._note(200)
            return self._wire.whole(200, "text/html", PAGE)
        if self._fault == "empty":
            self._note(200)
            return self._wire.whole(200, EVENT_STREAM, b"")
        tried = self._tried if state.tries_in_ids else None
        turn = finished(state.policy(conversation), conversation, tried)
        return self._answer(conversation, self._changed(turn))

    def _check_server(self) -> None:
        """What depends on the server, not on the API."""
        if self._state.plain and any(tool.get("strict") for tool in self._body.get("tools", ())):
            raise Refused("unknown field: strict")
        size, window = count_tokens(self._body), self._state.window_tokens
        if size > window:
            raise Refused(f"prompt is too long: {size} tokens > {window} maximum")

    def _changed(self, turn: Turn) -> Turn:
        """The turn with what a fault adds to it."""
        if self._fault == "bad_json" and turn.ends_with != "tool_use":
            self._fault = None  # there is nothing to spoil
        if self._fault == "unknown_block":
            strange = {"type": "hologram", "data": "\u00e9\u2028=", "n": [1, 2.0, None]}
            return Turn((strange, *turn.blocks), turn.ends_with, turn.stop_details)
        if self._fault == "unknown_stop":
            return Turn(turn.blocks, "tired", turn.stop_details)
        return turn

    def _answer(self, conversation: Conversation, turn: Turn) -> None:
        """Send a turn, by a stream or whole."""
        lookup = self._state.cache.look(self._body)
        counters = lookup.counters
        if self._state.plain:
            counters = Counters(counters.prompt)
        id_, model = f"msg_{self._state.number():024d}", conversation.model
        if self._body.get("stream"):
            bad_json = self._fault == "bad_json"
            events = list(stream(turn, model, id_, counters, bad_json=bad_json))
            return self._stream(conversation, turn, events, lookup, counters)
        self._state.cache.begin(lookup)
        self._keep(conversation, turn, counters)
        return self._wire.json(200, message(turn, model, id_, counters))

    def _stream(
        self,
        conversation: Conversation,
        turn: Turn,
        events: list[Raw],
        lookup: Lookup,
        counters: Counters,
    ) -> None:
        fault, wire = self._fault, self._wire
        chunked = fault != "cut_closed"
        shown = events[: self._cut_at(conversation, len(events))] if fault in _BREAKS else events
        self._state.cache.begin(lookup)
        if fault in _BREAKS or fault == "bad_json":
            self._note(200, counters=counters)
        else:
            self._keep(conversation, turn, counters)
        body = {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
        wire.head(200, EVENT_STREAM, {"cache-control": "no-cache", **body})
        write = wire.chunk if chunked else wire.wfile.write
        for event in shown:
            write(encoded(event))
        if fault == "silence":
            wire.until_client_leaves(lambda: self._state.on_silence(conversation))
        elif fault == "error_event":
            error = {"type": "overloaded_error", "message": "Overloaded"}
            write(encoded({"type": "error", "error": error}))
        if fault in ("silence", "cut_chunked", "cut_closed"):
            wire.close_connection = True
        else:
            wire.chunk(b"")

    def _cut_at(self, conversation: Conversation, events: int) -> int:
        """After how many events a stream breaks: at least one, always before the reason to stop."""
        at = self._state.faults.draw("cut", conversation.digest, conversation.turn, self._tried)
        return 1 + int(at * (events - 2))

    def _keep(self, conversation: Conversation, turn: Turn, counters: Counters) -> None:
        """The turn is sent to its end: it must come back as it was."""
        self._state.memory.keep(conversation, turn)
        self._note(200, reply=turn, counters=counters)

    def _refuse(
        self, status: int, kind: str, text: str, headers: dict[str, str] | None = None
    ) -> None:
        self._note(status, error=text)
        self._wire.error(status, kind, text, headers or {})

    def _note(
        self,
        status: int,
        *,
        reply: Turn | None = None,
        counters: Counters = NOTHING,
        error: str = "",
    ) -> None:
        """Write the request's line into the log, before the client can have seen the answer."""
        conversation = self._conversation
        handled = Handled(
            task=conversation.task if conversation else "",
            attempt=conversation.attempt if conversation else 0,
            conversation=conversation.digest if conversation else "",
            turn=conversation.turn if conversation else 0,
            tried=self._tried,
            fault=self._fault,
            status=status,
            model=str(self._body.get("model")),
            body=self._body,
            reply=reply,
            counters=counters,
            error=error,
        )
        with self._state.lock:
            self._state.log.append(handled)
