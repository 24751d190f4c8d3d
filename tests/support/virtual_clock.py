"""A clock on which hours pass in no time, for tests of whatever waits.

`sleep` moves time on. Of several that sleep at once, the one that is due first wakes first, after
it has let the others run for a moment, so that time never runs backwards for anybody.

`timeout` has no time of its own, since the other side is real: a server on loopback, which knows
that it will say nothing more. It calls `expire(conversation)`, from its own thread, and the scopes
that wait in that conversation end as if their time were over. Which conversation that is says
`Labelled`, else the request that somebody on the stack is answering: a run as a whole can be given
this clock, but its model not be wrapped.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from bisect import insort
from collections import defaultdict
from contextvars import ContextVar
from hashlib import sha256
from types import FrameType, TracebackType
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from orchestrator.messages import Reply, Request
from orchestrator.ports import Model, Spend

WALL_AT_START = 1_800_000_000.0
"""Unix seconds at virtual time 0."""
_SETTLING = 6
"""Steps of the event loop that others get before a sleep is over."""

_conversation: ContextVar[str] = ContextVar("conversation", default="")


def conversation_of(first_user_message: str) -> str:
    """The name of a conversation: 16 hex digits made from the text of its first message."""
    return sha256(first_user_message.encode()).hexdigest()[:16]


def _conversation_on_the_stack() -> str:
    """Whose request a caller has as its local `request`; empty where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        request = frame.f_locals.get("request")
        if isinstance(request, Request):
            return conversation_of(request.messages[0].text)
        frame = frame.f_back
    return ""


class Labelled:
    """A model whose waits are known under the conversation that they belong to."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        token = _conversation.set(conversation_of(request.messages[0].text))
        try:
            return await self._inner.complete(request, spend)
        finally:
            _conversation.reset(token)


class VirtualClock:
    """A `Clock` for one event loop; `expire` may be called from any thread."""

    def __init__(self) -> None:
        self.slept = 0.0
        """Seconds of all sleeps together."""
        self._now = 0.0
        self._sleepers: list[_Sleeper] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: defaultdict[str, set[anyio.CancelScope]] = defaultdict(set)
        self._due: set[str] = set()

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return WALL_AT_START + self._now

    async def sleep(self, seconds: float) -> None:
        """Return when virtual time is at least `seconds` later."""
        sleeper = _Sleeper(self._now + max(seconds, 0.0))
        insort(self._sleepers, sleeper, key=_due_at)
        try:
            await self._until_first(sleeper)
            self._now = max(self._now, sleeper.due)
            self.slept += max(seconds, 0.0)
        finally:
            self._sleepers.remove(sleeper)
            if self._sleepers:
                self._sleepers[0].first.set()

    async def _until_first(self, sleeper: _Sleeper) -> None:
        """Return when nobody is due before `sleeper`, also after a moment for others."""
        while True:
            if self._sleepers[0] is not sleeper:
                sleeper.first = anyio.Event()
                await sleeper.first.wait()
            for _ in range(_SETTLING):
                await checkpoint()
            if self._sleepers[0] is sleeper:
                return

    def timeout(self, seconds: float) -> anyio.CancelScope:
        """A scope that ends when its conversation is expired, never by itself."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
        kind = _watched(type(anyio.CancelScope()))
        scope: anyio.CancelScope = kind(self, _conversation.get() or _conversation_on_the_stack())
        return scope

    def expire(self, conversation: str) -> None:
        """End what waits in `conversation`: the scopes that are open, else the next one."""
        with self._lock:
            if self._loop is None:
                self._due.add(conversation)
            else:
                self._loop.call_soon_threadsafe(self._expire, conversation)

    def _expire(self, conversation: str) -> None:
        scopes = self._open[conversation]
        if not scopes:
            self._due.add(conversation)
        for scope in tuple(scopes):
            scope.cancel()

    def entered(self, scope: anyio.CancelScope, conversation: str) -> None:
        """A scope is open from now on."""
        self._open[conversation].add(scope)
        if conversation in self._due:
            self._due.discard(conversation)
            scope.cancel()

    def left(self, scope: anyio.CancelScope, conversation: str) -> None:
        """A scope is over."""
        self._open[conversation].discard(scope)


class _Sleeper:
    """Somebody who sleeps until `due`."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.first = anyio.Event()


def _due_at(sleeper: _Sleeper) -> float:
    return sleeper.due


def _watched(kind: type[anyio.CancelScope]) -> Any:
    """A kind of scope that tells its clock when it is open: anyio makes them by backend."""

    class Watched(kind):  # type: ignore[valid-type, misc]
        def __new__(cls, clock: VirtualClock, conversation: str) -> Any:
            return kind.__new__(cls)

        def __init__(self, clock: VirtualClock, conversation: str) -> None:
            super().__init__()
            self._clock = clock
            self._conversation = conversation

        def __enter__(self) -> Any:
            super().__enter__()
            self._clock.entered(self, self._conversation)
            return self

        def __exit__(
            self,
            kind_of_error: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> Any:
            self._clock.left(self, self._conversation)
            return super().__exit__(kind_of_error, error, trace)

    return Watched
