"""Small values that tests of the agent are made of, and the model that follows a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from orchestrator.agent.calls import Accepted, Returned
from orchestrator.core.plan import ModelPrice, Task
from orchestrator.core.products import Product
from orchestrator.core.roles import Limits, ProductKind, Role
from orchestrator.core.usage import Usage
from orchestrator.messages import Block, Message, Reply, Request, StopReason, TextBlock, ToolUse
from orchestrator.ports import ModelError, Spend
from orchestrator.spec import AttemptSpec

BASE = "b" * 40


def role(
    *tools: str, product: ProductKind = "change", writes: bool = True, prompt: str = "You write."
) -> Role:
    return Role(name="tried", tools=tools, product=product, writes=writes, prompt=prompt)


def order(
    acting: Role,
    task: Task | None = None,
    *,
    limits: Limits | None = None,
    prices: Mapping[str, ModelPrice] | None = None,
) -> AttemptSpec:
    return AttemptSpec(
        run="r1",
        task=task or Task(id="filter", role=acting.name, prompt="Add a filter."),
        attempt=1,
        goal="",
        role=acting,
        model="model-a",
        limits=limits or Limits(),
        base=BASE,
        started_at=1_700_000_000,
        inputs=(),
        protect=("tests/",),
        prices=dict(prices or {}),
    )


def use(name: str, /, call_id: str = "", **arguments: JsonValue) -> ToolUse:
    """A tool call; its id is made of its name unless one is given."""
    return ToolUse(id=call_id or f"id-{name}", name=name, input=arguments)


def reply(*blocks: Block, stop: StopReason = "tool_use", usage: Usage | None = None) -> Reply:
    return Reply(
        message=Message(role="assistant", blocks=blocks),
        stop_reason=stop,
        usage=usage or Usage(input_tokens=10, output_tokens=5, calls=1),
        model="model-a",
    )


def say(text: str, stop: StopReason = "end_turn") -> Reply:
    return reply(TextBlock(text=text), stop=stop)


class ListModel:
    """Gives the next item of a list: a reply, or an error to raise. Remembers what it was asked."""

    def __init__(self, items: Sequence[Reply | ModelError]) -> None:
        self._items = list(items)
        self.requests: list[Request] = []

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        item = self._items[len(self.requests)]
        self.requests.append(request)
        if isinstance(item, ModelError):
            raise item
        return item


class EndlessModel:
    """Gives replies made from the number of the call, for ever."""

    def __init__(self, make: Callable[[int], Reply]) -> None:
        self._make = make
        self.requests: list[Request] = []

    async def complete(self, request: Request, spend: Spend | None = None) -> Reply:
        self.requests.append(request)
        return self._make(len(self.requests))


class Desk:
    """Takes products: returns as many as it has texts for, accepts the next."""

    def __init__(self, *returned: str) -> None:
        self._returned = list(returned)
        self.products: list[Product] = []

    async def __call__(self, product: Product) -> Accepted | Returned:
        self.products.append(product)
        return Returned(self._returned.pop(0)) if self._returned else Accepted()
