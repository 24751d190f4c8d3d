"""A model that answers from a recording: no key, no network, no waiting.

Each request is looked up by its content, so a run that does the same gets the same answers, in
whatever order its agents ask. The first request that was never recorded is remembered with the
place where it differs from the one that was. Nothing is made up: such a request has no answer.

Where a request was recorded more than once, its answers are given in the order in which they were
recorded, the asking attempt's own first, the last one as often as it is asked for. Of an attempt
that was lost and begun again, only the try that came to an end counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from orchestrator.messages import Reply, Request
from orchestrator.models.difference import difference
from orchestrator.models.exchanges import Keys, Recorded, read_recording
from orchestrator.ports import ModelError

__all__ = ["ReplayModel", "read_recording"]

Key = str
Conversation = tuple[str, int]
Place = tuple[tuple[Key, ...], Recorded]
"""An exchange, with the digests of all its beginnings."""


class ReplayModel:
    """`ports.Model` over the exchanges of `read_recording`."""

    def __init__(self, recorded: Sequence[Recorded], path: Path) -> None:
        """`path` is what messages call the recording."""
        self._path = path
        self._keys = Keys()
        self._answers: defaultdict[Key, list[Recorded]] = defaultdict(list)
        self._of: defaultdict[Conversation, list[Place]] = defaultdict(list)
        self.first_difference: str | None = None
        """The first request of the run that was not recorded, and where it differs."""
        keys = Keys()
        for item in recorded:
            digests = keys.of(item.request)
            self._answers[digests[-1]].append(item)
            self._of[item.conversation].append((digests, item))
        self._drop_lost_tries(recorded)

    async def complete(self, request: Request) -> Reply:
        """The recorded answer. Raises the recorded error, or `ModelError("script", ...)`."""
        digests = self._keys.of(request)
        answers = self._answers.get(digests[-1])
        if answers is None:
            why = f"{self._path}: {difference(self._nearest(request, digests), request)}"
            if self.first_difference is None:
                self.first_difference = why
            raise ModelError("script", f"the run differs from its recording: {why}")
        exchange = _taken(answers, (request.task, request.attempt)).exchange
        if exchange.error is not None:
            error = exchange.error
            raise ModelError(error.reason, error.message, usage=error.usage)
        assert exchange.reply is not None
        return exchange.reply

    def _drop_lost_tries(self, recorded: Sequence[Recorded]) -> None:
        """Forget answers that an attempt got again when it was begun anew, and went on from."""
        gone_on_from = {
            item.exchange.after
            for item in recorded
            if item.exchange.replied or item.exchange.messages
        }
        for key, answers in self._answers.items():
            last = {item.conversation: item for item in answers}
            lost = {item.conversation for item in answers if item.exchange.number in gone_on_from}
            self._answers[key] = [
                item
                for item in answers
                if item.conversation not in lost or item is last[item.conversation]
            ]

    def _nearest(self, request: Request, digests: tuple[Key, ...]) -> Request | None:
        """The request of the same attempt that has the longest beginning in common."""
        nearest, most = None, -1
        for theirs, item in self._of.get((request.task, request.attempt), ()):
            pairs = zip(theirs, digests, strict=False)
            common = sum(mine == yours for mine, yours in pairs)
            if common >= most:
                nearest, most = item.request, common
        return nearest


def _taken(answers: list[Recorded], asking: Conversation) -> Recorded:
    """The next answer; the last one stays."""
    own = (place for place, item in enumerate(answers) if item.conversation == asking)
    place = next(own, 0)
    return answers[place] if len(answers) == 1 else answers.pop(place)
