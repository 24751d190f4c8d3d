"""A server in a few lines, for tests of what stands before it: answers, or raises trouble."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.core.usage import Usage
from orchestrator.messages import Message, Reply, Request, TextBlock
from orchestrator.models.trouble import Trouble, TroubleKind
from orchestrator.ports import Spend
from tests.support.virtual_clock import VirtualClock

PAID = Usage(input_tokens=100, output_tokens=10, usd=0.01, calls=1)
HALF_PAID = Usage(input_tokens=100, usd=0.004)


def request(text: str = "Do it.", *, task: str = "filter") -> Request:
    return Request(
        task=task,
        attempt=1,
        model="model-a",
        max_tokens=1_000,
        tools=(),
        system=("You are an agent.",),
        messages=(Message(role="user", blocks=(TextBlock(text=text),)),),
    )


def answer(text: str = "done") -> Reply:
    message = Message(role="assistant", blocks=(TextBlock(text=text),))
    return Reply(message=message, stop_reason="end_turn", usage=PAID, model="model-a")


def trouble(
    kind: TroubleKind = "busy", *, after: float | None = None, usage: Usage | None = None
) -> Trouble:
    return Trouble(kind, f"the server said {kind}", retry_after_s=after, usage=usage or Usage())


class Listed:
    """Does what a list says, try by try; keeps the time of each."""

    def __init__(self, clock: VirtualClock, *items: Trouble | Reply) -> None:
        self._clock = clock
        self._items = list(items)
        self.asked_at: list[float] = []

    async def once(self, request: Request, spend: Spend | None = None) -> Reply:
        item = self._items[len(self.asked_at)]
        self.asked_at.append(self._clock.now())
        if isinstance(item, Trouble):
            raise item
        return item

    @property
    def gaps(self) -> list[float]:
        """Seconds between the tries."""
        return [later - at for at, later in zip(self.asked_at, self.asked_at[1:], strict=False)]


class Down:
    """A server that is down at some times; each call takes a second."""

    def __init__(
        self,
        clock: VirtualClock,
        spans: Sequence[tuple[float, float]],
        make: Callable[[], Trouble] = trouble,
    ) -> None:
        self._clock = clock
        self._spans = spans
        self._make = make
        self.asked_at: list[float] = []
        self.most_at_once = 0
        """Most calls under way at one time that began while it was down."""
        self._at_once = 0

    def is_down(self) -> bool:
        return any(start <= self._clock.now() < end for start, end in self._spans)

    async def once(self, request: Request, spend: Spend | None = None) -> Reply:
        self.asked_at.append(self._clock.now())
        began_down = self.is_down()
        self._at_once += began_down
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self._clock.sleep(1.0)
        finally:
            self._at_once -= began_down
        if self.is_down():
            raise self._make()
        return answer()

    def asked_between(self, start: float, end: float) -> int:
        return sum(start <= at < end for at in self.asked_at)
