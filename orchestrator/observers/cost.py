"""What a run has cost: by try, task, role and kind of token; as lines for people and as a record.

Not how costs come about: dollars are the journal's, which counts what was paid for, lost and failed
tries included. What models were asked, and which tokens the money went for, is in the transcripts;
`Talk` is what of them counts here. A try that still runs has no outcome in the journal yet: what it
has cost so far is its talk's. Pure: no files, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.events import (
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    StoredEvent,
)
from orchestrator.core.state import RunState
from orchestrator.core.usage import Usage
from orchestrator.observers.summary import PLAIN, status_text, table
from orchestrator.observers.text import Style, clean_line, dollars, plural

BUCKETS = ("in", "cache write", "cache read", "out")
"""Kinds of tokens that have a price of their own, as people read them."""
CENTS = 0.00005
"""Dollars that no column shows."""
MODEL_CHARS_MAX = 40

Price = Callable[[str, Usage], float | None]
"""Dollars of one call of a model; None where nobody knows."""


@dataclass(slots=True)
class Talk:
    """What the transcript of one try says about money."""

    usage: Usage = field(default_factory=Usage)
    models: dict[str, None] = field(default_factory=dict)
    """Models that answered, or that were asked where none has answered yet."""
    usd: dict[str, float] = field(default_factory=dict)
    """Dollars by bucket, as far as prices are known."""
    unpriced: dict[str, int] = field(default_factory=dict)
    """Tokens by model, for answers that nobody knows the price of."""

    def add(self, model: str, usage: Usage, price: Price) -> None:
        """Take in one answer of `model`."""
        self.usage += usage
        self.models[model] = None
        shares = split(model, usage, price)
        if usage.usd == 0 and usage.tokens and price(model, Usage()) is None:
            self.unpriced[model] = self.unpriced.get(model, 0) + usage.tokens
        for bucket, share in shares.items():
            self.usd[bucket] = self.usd.get(bucket, 0.0) + share * usage.usd


def split(model: str, usage: Usage, price: Price) -> dict[str, float]:
    """What share of one call's dollars its buckets have; empty where the price is not known.

    Prices depend on the size of the prompt, so each bucket is priced as if it were all of it.
    """
    prompt = usage.tokens - usage.output_tokens
    whole = max(prompt, 1)
    alone = {
        "in": (usage.input_tokens, price(model, Usage(input_tokens=whole))),
        "cache write": (
            usage.cache_write_5m_tokens,
            price(model, Usage(cache_write_5m_tokens=whole)),
        ),
        "": (usage.cache_write_1h_tokens, price(model, Usage(cache_write_1h_tokens=whole))),
        "cache read": (usage.cache_read_tokens, price(model, Usage(cache_read_tokens=whole))),
    }
    costs = {name: tokens * (usd or 0.0) / whole for name, (tokens, usd) in alone.items()}
    costs["cache write"] += costs.pop("")
    reply = Usage(input_tokens=whole, output_tokens=usage.output_tokens)
    costs["out"] = (price(model, reply) or 0.0) - (alone["in"][1] or 0.0)
    total = sum(costs.values())
    return {name: cost / total for name, cost in costs.items()} if total > 0 else {}


@dataclass(frozen=True, slots=True)
class Try:
    """One try of an attempt: a lost one and the one that repeats it are two."""

    task: str
    attempt: int
    role: str | None
    outcome: str
    """succeeded, failed, lost, cancelled, running or interrupted."""
    reason: str
    """Why it failed, else empty."""
    replan: bool
    """Whether it is a planner's that a failure called for."""
    usage: Usage
    talk: Talk


_ENDS = AttemptSucceeded | AttemptFailed | AttemptLost | AttemptCancelled


def tries(
    state: RunState, events: Iterable[StoredEvent], talks: Mapping[int, Talk], *, live: bool
) -> tuple[Try, ...]:
    """All tries in the order in which they began.

    talks: by `seq` of the event by which the try began. live: whether a process has the run.
    """
    begun: dict[int, AttemptStarted] = {}
    ended: dict[int, _ENDS] = {}
    open_tries: dict[str, int] = {}
    for event in events:
        body: Event = event.body
        if isinstance(body, AttemptStarted):
            begun[event.seq] = body
            open_tries[body.task] = event.seq
        elif isinstance(body, _ENDS) and body.task in open_tries:
            ended[open_tries.pop(body.task)] = body
    return tuple(
        _try(state, start, ended.get(seq), talks.get(seq, Talk()), live=live)
        for seq, start in begun.items()
    )


def _try(
    state: RunState, start: AttemptStarted, end: _ENDS | None, talk: Talk, *, live: bool
) -> Try:
    task = state.tasks[start.task]
    if end is None:
        outcome, usage = ("running" if live else "interrupted"), talk.usage
    else:
        outcome, usage = end.type.removeprefix("Attempt").lower(), end.usage
    return Try(
        task=start.task,
        attempt=start.attempt,
        role=task.task.role,
        outcome=outcome,
        reason=end.reason if isinstance(end, AttemptFailed) else "",
        replan=task.mends is not None,
        usage=usage,
        talk=talk,
    )


def total(those: Iterable[Try]) -> Usage:
    """What tries have cost together."""
    return sum((one.usage for one in those), Usage())


def cache_share(usage: Usage) -> float | None:
    """The part of all prompt tokens that was read from the cache; None without any."""
    prompt = usage.tokens - usage.output_tokens
    return usage.cache_read_tokens / prompt if prompt else None


def tokens_of(usage: Usage) -> tuple[int, int, int, int]:
    """Tokens by bucket, in the order of `BUCKETS`."""
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return usage.input_tokens, written, usage.cache_read_tokens, usage.output_tokens


def unpriced(those: Iterable[Try]) -> dict[str, int]:
    """Tokens that nobody knows the price of, by model."""
    found: dict[str, int] = {}
    for one in those:
        for model, tokens in one.talk.unpriced.items():
            found[model] = found.get(model, 0) + tokens
    return found


def bucket_dollars(those: Sequence[Try]) -> dict[str, float]:
    """Dollars by bucket; what no transcript explains is under `unknown`."""
    found = dict.fromkeys(BUCKETS, 0.0)
    for one in those:
        for bucket, usd in one.talk.usd.items():
            found[bucket] += usd
    rest = total(those).usd - sum(found.values())
    return found | ({"unknown": rest} if rest > CENTS else {})


def grouped(those: Iterable[Try], key: Callable[[Try], str]) -> dict[str, list[Try]]:
    """Tries by what `key` says of them, in the order of the first of each."""
    found: dict[str, list[Try]] = {}
    for one in those:
        found.setdefault(key(one), []).append(one)
    return found


def role_of(one: Try) -> str:
    """A try's role; `none` where nobody acts."""
    return one.role or "none"


# --- for programs ---------------------------------------------------------------------------------


def cost_record(state: RunState, those: Sequence[Try]) -> dict[str, object]:
    """The whole account as one JSON document."""
    replans = [one for one in those if one.replan]
    return {
        "type": "cost",
        "run": state.run,
        "status": state.status,
        **_amount(those),
        "tries": len(those),
        "budget_usd": state.settings.budget.usd,
        "budget_tokens": state.settings.budget.tokens,
        "no_price": unpriced(those),
        "replans": {"charged": state.replans, **_amount(replans), "tries": len(replans)},
        "roles": {
            name: {**_amount(some), "tries": len(some)}
            for name, some in grouped(those, role_of).items()
        },
        "tasks": {
            name: {
                "role": some[-1].role,
                **_amount(some),
                "tries": [_try_record(one) for one in some],
            }
            for name, some in grouped(those, lambda one: one.task).items()
        },
    }


def _amount(those: Sequence[Try]) -> dict[str, object]:
    usage = total(those)
    share = cache_share(usage)
    return {
        "usd": round(usage.usd, 6),
        "usd_by_bucket": {
            name.replace(" ", "_"): round(usd, 6) for name, usd in bucket_dollars(those).items()
        },
        "tokens": usage.tokens,
        "cache_share": None if share is None else round(share, 4),
        "usage": usage.model_dump(),
    }


def _try_record(one: Try) -> dict[str, object]:
    return {
        "attempt": one.attempt,
        "outcome": one.outcome,
        "reason": one.reason or None,
        "replan": one.replan,
        "models": list(one.talk.models),
        **_amount([one]),
    }


# --- for people -----------------------------------------------------------------------------------


def cost_lines(state: RunState, those: Sequence[Try], style: Style = PLAIN) -> Iterator[str]:
    """The whole account, a line at a time, without line ends."""
    spent, budget = total(those), state.settings.budget
    limits: list[str] = []
    if budget.usd is not None:
        limits.append(f"{dollars(budget.usd)} ({_share(spent.usd, budget.usd)})")
    if budget.tokens is not None:
        limits.append(f"{plural(budget.tokens, 'token')} ({_share(spent.tokens, budget.tokens)})")
    limit = f" of {' and '.join(limits)}" if limits else ""
    yield f"run {state.run}: {status_text(style, state.status)}, {dollars(spent.usd)}{limit}"
    yield ""
    acting = [one for one in those if one.role is not None or one.usage.tokens]
    head = ["task", "try", "role", "model", *BUCKETS, "cached", "cost", "ended"]
    yield from _rows(head, [_try_cells(one) for one in acting], style)
    yield ""
    head = ["role", "tries", *BUCKETS, "cached", "cost", "share"]
    roles = grouped(acting, role_of)
    yield from _rows(
        head, [_group_cells(name, some, spent.usd) for name, some in roles.items()], style, 1
    )
    yield ""
    by_bucket = [f"{name} {dollars(usd)}" for name, usd in bucket_dollars(those).items()]
    yield f"by kind of token: {', '.join(by_bucket)}"
    if replans := [one for one in those if one.replan]:
        cost = total(replans).usd
        yield f"replans: {state.replans}, {dollars(cost)} ({_share(cost, spent.usd)} of the cost)"
    for model, tokens in unpriced(those).items():
        yield style.odd(
            f"no price for {clean_line(model)}: {plural(tokens, 'token')} counted as {dollars(0)}"
        )
    yield f"total: {plural(spent.tokens, 'token')}, {_cached(spent)} cached, {dollars(spent.usd)}"


def _try_cells(one: Try) -> list[str]:
    models = clean_line(", ".join(one.talk.models), MODEL_CHARS_MAX)
    how = f"{one.outcome}: {one.reason}" if one.reason else one.outcome
    return [
        one.task,
        f"#{one.attempt}",
        one.role or "-",
        models or "-",
        *_token_cells(one.usage),
        dollars(one.usage.usd),
        how,
    ]


def _group_cells(name: str, those: Sequence[Try], whole: float) -> list[str]:
    usage = total(those)
    cells = [name, str(len(those)), *_token_cells(usage)]
    return [*cells, dollars(usage.usd), _share(usage.usd, whole)]


def _token_cells(usage: Usage) -> list[str]:
    return [*(f"{tokens:,}" for tokens in tokens_of(usage)), _cached(usage)]


def _cached(usage: Usage) -> str:
    share = cache_share(usage)
    return "-" if share is None else f"{share:.0%}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "-"


def _rows(
    head: list[str], rows: list[list[str]], style: Style, first_number: int = 4
) -> Iterator[str]:
    """A table, its numbers to the right."""
    right = frozenset(range(first_number, len(head) - 1))
    padded = table([head, *rows], right=right)
    yield style.dim("  ".join(padded[0]).rstrip())
    yield from ("  ".join(cells).rstrip() for cells in padded[1:])
