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
from itertools import takewhile
from pathlib import Path

from orchestrator.messages import Message, Reply, Request
from orchestrator.models.contents import (
    Content,
    Contents,
    Conversation,
    Key,
    beginnings,
    head_of,
)
from orchestrator.models.difference import difference
from orchestrator.models.exchanges import Recorded
from orchestrator.ports import ModelError, Spend


class ReplayModel:
    """`ports.Model` over the exchanges of `read_recording`."""

    def __init__(self, recorded: Sequence[Recorded], path: Path) -> None:
        """`path` is what messages call the recording."""
        self._path = path
        self._contents = Contents()
        self._answers: defaultdict[Key, list[Recorded]] = defaultdict(list)
        self._of: defaultdict[Conversation, list[_Place]] = defaultdict(list)
        self.first_difference: str | None = None
        """The first request of the run that was not recorded, and where it differs."""
        places: dict[int, _Place] = {}
        for item in recorded:
            place = _Place(item, places.get(item.exchange.after or 0))
            places[item.exchange.number] = place
            self._answers[place.key].append(item)
            self._of[item.conversation].append(place)
        self._drop_lost_tries(recorded)

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        """The recorded answer. Raises the recorded error, or `ModelError("script", ...)`."""
        content = self._contents.of(request)
        answers = self._answers.get(content.key)
        if answers is None:
            why = f"{self._path}: {difference(self._nearest(request, content), request)}"
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

    def _nearest(self, request: Request, content: Content) -> Request | None:
        """The request of the same attempt that has the longest beginning in common."""
        nearest, most = None, (False, 0)
        common: dict[int, int] = {}
        for place in self._of.get((request.task, request.attempt), ()):
            earlier = place.item.exchange.after or 0
            start = common.get(earlier, 0)
            if start == place.start:  # all that came earlier is the same
                pairs = zip(place.added, content.beginnings[start:], strict=False)
                start += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            common[place.item.exchange.number] = start
            found = place.key[0] == content.head, start
            if found >= most:
                nearest, most = place.item, found
        return nearest.request if nearest is not None else None


class _Place:
    """Where an exchange stands among the beginnings of its conversation."""

    def __init__(self, item: Recorded, earlier: _Place | None) -> None:
        self.item = item
        self.start: int = earlier.start + len(earlier.added) if earlier is not None else 0
        """How many messages came earlier."""
        messages = item.added
        digest = earlier.key[1] if earlier is not None else ""
        before = earlier.last if earlier is not None else None
        self.added: tuple[str, ...] = tuple(beginnings(messages, digest, before))
        """Digests up to each of the messages that it adds."""
        self.last: Message | None = messages[-1] if messages else before
        self.key: Key = (
            head_of(item.exchange.model, item.prefix.digest),
            self.added[-1] if self.added else digest,
        )


def _taken(answers: list[Recorded], asking: Conversation) -> Recorded:
    """The next answer; the last one stays."""
    own = (place for place, item in enumerate(answers) if item.conversation == asking)
    place = next(own, 0)
    return answers[place] if len(answers) == 1 else answers.pop(place)
