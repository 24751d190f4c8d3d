"""One try at an answer over the Messages API: the adapter of any server that speaks it.

Always streams. `once` gives a whole reply or raises `Trouble`; it never sleeps and never repeats a
request that failed (`orchestrator.models.patient` does), with one exception: what a server refuses
because it does not know a feature is asked again at once without that feature, and thoughts that it
does not take back are left out. Both hold from then on, so that requests of a conversation go on
being prefixes of one another, and both can only happen a few times.

Keeps no conversation. Its memory is which model lacks what, and which thoughts were refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import get_args

import anyio
from anthropic import AsyncAnthropicBedrock, AsyncStream
from pydantic import JsonValue

from orchestrator.core.plan import ModelPrice
from orchestrator.core.usage import Usage
from orchestrator.messages import Message, Reply, Request, StopReason
from orchestrator.models.classify import Place, refusal_of, trouble_of
from orchestrator.models.clients import Client, secrets_of
from orchestrator.models.clock import Clock
from orchestrator.models.prices import price
from orchestrator.models.servers import IDLE_S
from orchestrator.models.stream import BrokenStreamError, ReplyStream
from orchestrator.models.watch import STREAM_BYTES_MAX, WatchedBody, WholeEvents, within
from orchestrator.models.wire import FEATURES, Feature, block_of, body_of, thoughts_of
from orchestrator.ports import NO_USAGE, Spend

DRAIN_S = 1.0
"""How long the end of a body is waited for after the reply is whole, to keep the connection."""
CLOSE_S = 5.0
REPLY_S_MAX = 3_600.0
"""How long one reply may take, however alive its server is: 128,000 tokens at 36 a second."""

_STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
_NAMED: Mapping[Feature, re.Pattern[str]] = {
    "strict": re.compile(r"\bstrict\b|\bschemas?\b|\bgrammar\b|additionalProperties"),
    "cache_control": re.compile("cache_control"),
    "thinking": re.compile(r"\bthinking\b|\badaptive\b"),
}
"""How servers name what they refuse."""
_THOUGHT = re.compile(r"\bthinking\b|\bsignature\b")


class MessagesAPI:
    """Asks one server. Many conversations may ask at the same time.

    `prices`: what the plan says models cost. `idle_s`: seconds without a byte after which the
    server counts as silent. `features`: what requests may use beyond the plain API.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        prices: Mapping[str, ModelPrice] = {},
        idle_s: float = IDLE_S,
        features: Collection[Feature] = FEATURES,
    ) -> None:
        self._client = client
        self._clock = clock
        self._prices = dict(prices)
        self._idle_s = idle_s
        self._features = frozenset(features)
        self._place = Place(client.base_url.netloc.decode(), secrets_of(client))
        self._lacking: set[tuple[str, Feature]] = set()
        """Models, with a feature that their server refused."""
        self._refused: set[str] = set()
        """Digests of thoughts that were refused."""

    async def once(self, request: Request, spend: Spend | None = None) -> Reply:
        """Ask for the answer to `request`. Raises `Trouble`, never anything of the SDK's.

        `spend` is told what a stream that is left in the middle has cost.
        """
        while True:
            features = self._features_of(request.model)
            answer = ReplyStream()
            stream: AsyncStream[object] | None = None
            try:
                body = body_of(request, features=features, refused=self._refused)
                stream = await within(self._clock.timeout, self._idle_s, self._send(body))
                await self._read(stream, answer)
                return self._reply(request, answer)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is trouble
                if self._gives_way(request, features, error):
                    continue
                trouble = trouble_of(
                    error,
                    self._place,
                    wall=self._clock.wall(),
                    answering=stream is not None,
                )
                trouble.usage = self._usage(request, answer, calls=0)
                raise trouble from None
            except BaseException:  # cancelled: it is paid for all the same
                usage = self._usage(request, answer, calls=0)
                if spend is not None and usage != NO_USAGE:
                    with anyio.CancelScope(shield=True), suppress(Exception):
                        await spend(usage)
                raise

    async def close(self) -> None:
        """Let go of all connections."""
        await self._client.close()

    def _features_of(self, model: str) -> frozenset[Feature]:
        return frozenset(item for item in self._features if (model, item) not in self._lacking)

    async def _send(self, body: dict[str, JsonValue]) -> AsyncStream[object]:
        """The stream that answers `body`; nothing of it has been read."""
        return await self._client.post(
            "/v1/messages",
            body=body,
            cast_to=object,
            # What is not compressed cannot be a bomb.
            options={"headers": {"Accept-Encoding": "identity"}},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    async def _read(self, stream: AsyncStream[object], answer: ReplyStream) -> None:
        """Feed what comes to `answer` until that is whole or the stream ends; then close it."""
        response = stream.response
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise BrokenStreamError("the answer is compressed, which was not asked for")
            watched = WatchedBody(
                response.stream,
                bytes_max=STREAM_BYTES_MAX,
                clock=self._clock,
                idle_s=self._idle_s,
                seconds_max=REPLY_S_MAX,
            )
            # Amazon's frames are binary, and each says how long it is.
            is_binary = isinstance(self._client, AsyncAnthropicBedrock)
            response.stream = watched if is_binary else WholeEvents(watched)
            async for event in stream:
                answer.add(event)
                if answer.complete:
                    break
            if not answer.started:
                kind = response.headers.get("content-type", "").partition(";")[0].strip()
                raise BrokenStreamError(f"the answer ({kind or 'no type'}) holds no message")
            with self._clock.timeout(DRAIN_S), suppress(Exception):
                await anext(stream, None)
        finally:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await stream.close()

    def _reply(self, request: Request, answer: ReplyStream) -> Reply:
        blocks = tuple(block for raw in answer.blocks() if (block := block_of(raw)) is not None)
        for reason in _STOP_REASONS:
            if reason == answer.stop_reason and reason != "unknown":
                return Reply(
                    message=Message(role="assistant", blocks=blocks),
                    stop_reason=reason,
                    usage=self._usage(request, answer, calls=1),
                    model=answer.model or request.model,
                )
        raise BrokenStreamError(f"it stopped for a reason nobody knows: {answer.stop_reason}")

    def _gives_way(self, request: Request, features: frozenset[Feature], error: Exception) -> bool:
        """Whether the request can be asked again at once with less in it.

        True at most once for each feature and each thought, so this comes to an end.
        """
        said = refusal_of(error)
        if said is None:
            return False
        thoughts = thoughts_of(request) - self._refused
        if thoughts and _THOUGHT.search(said):
            self._refused |= thoughts
            return True
        for feature in sorted(features):
            if _NAMED[feature].search(said):
                self._lacking.add((request.model, feature))
                return True
        return False

    def _usage(self, request: Request, answer: ReplyStream, *, calls: int) -> Usage:
        """What the counters say, each in its price's bucket. Missing ones are nothing."""
        tokens = answer.counters.get
        one_hour = tokens("ephemeral_1h_input_tokens", 0)
        five_minutes = max(
            tokens("ephemeral_5m_input_tokens", 0),
            tokens("cache_creation_input_tokens", 0) - one_hour,
        )
        usage = Usage(
            input_tokens=tokens("input_tokens", 0),
            cache_write_5m_tokens=five_minutes,
            cache_write_1h_tokens=one_hour,
            cache_read_tokens=tokens("cache_read_input_tokens", 0),
            output_tokens=answer.output_tokens,
            calls=calls,
        )
        for model in (request.model, answer.model):
            usd = price(model, usage, self._prices)
            if usd is not None:
                return usage.model_copy(update={"usd": usd})
        return usage
