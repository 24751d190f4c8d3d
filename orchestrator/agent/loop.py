"""The agent loop: ask the model, carry out its calls, ask again, until a product is accepted.

One append-only conversation is the prompt: each request is the one before and new messages at its
end, and every message is in the transcript before anything follows from it. Rules:

- only a reply that stopped for tools has its calls carried out, and one that ended whole its
  hand-in; each call of a reply gets its result, in order, in the next message;
- the attempt ends with the first product that is accepted; nothing is believed because the model
  said it, so a reply without a call is answered once with what is missing, then is a failure;
- a reply that was cut runs nothing and is asked for again, twice at most; a refusal ends it;
- ceilings are checked before each call, and the last turn says that it is the last;
- a plan or patch that stands in a planner's text counts like a call; the third one that does not
  fit, in whatever form, ends the attempt;
- the same call with the same result is nudged, then stopped (`orchestrator.agent.repeats`).

How an attempt can fail is a value (`AgentResult.reason`). What raises: `ModelError` with the
reason `pause` (the provider's hard limit), `OrchestratorError` (the machine's fault), cancellation.
What tries without an answer have cost is counted either way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

import anyio

from orchestrator.agent.budget import Budget, Exhausted, NextCall
from orchestrator.agent.calls import Accepted, Caller, HandIn, Returned
from orchestrator.agent.checks import check_request, storable
from orchestrator.agent.edit_check import EditCheck
from orchestrator.agent.parts import PromptParts
from orchestrator.agent.prompt import MAX_TOKENS, first_request
from orchestrator.agent.transcript import Entry, Transcript
from orchestrator.core.events import FailureReason
from orchestrator.core.roles import Ceiling
from orchestrator.core.usage import Usage
from orchestrator.messages import Message, Reply, Request, TextBlock, ToolResult
from orchestrator.ports import NO_USAGE, Model, ModelError, Workspace
from orchestrator.spec import AttemptSpec
from orchestrator.tools.registry import build_tools
from orchestrator.tools.text import clipped, visible

__all__ = ["Accepted", "AgentResult", "HandIn", "Returned", "run_agent"]

CUTS_MAX = 2
"""How often in a row a cut reply is asked for again."""
PAUSES_MAX = 5
"""How often in a row a paused reply is continued."""
LAST_WORDS_CHARS = 2_000

_REASONS: tuple[FailureReason, ...] = get_args(FailureReason)


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How an agent ended."""

    accepted: bool
    reason: FailureReason | None
    """Set exactly when nothing was accepted."""
    evidence: str
    """What the next attempt or a planner needs to know."""
    usage: Usage
    """Sum over its calls; `seconds` is the whole time it took."""
    ceiling: Ceiling | None = None
    """For reason `limit`: which one; None where its replies were too long."""


async def run_agent(
    *,
    spec: AttemptSpec,
    model: Model,
    workspace: Workspace,
    parts: PromptParts,
    transcript: Transcript,
    hand_in: HandIn,
    clock: Callable[[], float] = time.monotonic,
) -> AgentResult:
    """Carry out the acting part of the attempt `spec`, which has a role.

    `hand_in` takes each product that the agent submits and says whether it is accepted. Usage up
    to a raise is in `transcript.usage`.
    """
    if spec.role is None:
        raise ValueError(f"task {spec.task.id} has no role: nobody acts in it")
    tools = build_tools(spec.role.tools, timeout_s=spec.task.timeout_s, env=spec.task.env)
    check = EditCheck(spec.task.check, spec.task.env) if spec.task.check is not None else None
    caller = Caller(spec.role, tools, workspace, hand_in, check)
    request = first_request(spec, spec.role, parts, caller.specs)
    await transcript.begin(request, spec.started)
    budget = Budget(spec.limits, spec.model, clock, spec.prices)
    return await _Conversation(model, transcript, caller, budget, request).run()


class _Unaffordable(Exception):
    """Tries that came to nothing have used up what the next one would need."""

    def __init__(self, exhausted: Exhausted) -> None:
        self.ceiling = exhausted.ceiling
        super().__init__(f"{exhausted.why}, after tries that brought no answer")


@dataclass(frozen=True, slots=True)
class _Step:
    """What follows from a reply: a message to answer it with, or the end, or both."""

    message: Message | None = None
    """None continues a paused reply, or ends without an answer."""
    end: AgentResult | None = None


@dataclass(slots=True)
class _Conversation:
    model: Model
    transcript: Transcript
    caller: Caller
    budget: Budget
    opening: Request
    _sent: Request | None = None
    _messages: tuple[Message, ...] = ()
    _ids: set[str] = field(default_factory=set)
    _max_tokens: int = MAX_TOKENS
    _cuts: int = 0
    _pauses: int = 0
    _reminded: bool = False
    _last_words: str = ""

    async def run(self) -> AgentResult:
        """Take turns until the end."""
        message: Message | None = self.opening.messages[0]
        added = _bytes(self.opening)
        while True:
            call = self.budget.next_call(added, self._max_tokens)
            if message is not None and isinstance(call, NextCall) and call.last:
                message = _with_text(message, self._last_turn_note(call))
            if message is not None:
                await self._say(message)
            if isinstance(call, Exhausted):
                return self._failed("limit", call.why, call.ceiling)
            reply = await self._ask(call)
            if isinstance(reply, AgentResult):
                return reply
            step = await self._react(reply, call)
            if step.end is not None:
                if step.message is not None:
                    await self._say(step.message)
                return step.end
            message = step.message
            added = _bytes(message) if message is not None else 0

    async def _say(self, message: Message) -> None:
        self._messages = (*self._messages, message)
        await self.transcript.append(Entry(message=message))

    async def _ask(self, call: NextCall) -> Reply | AgentResult:
        """The model's reply, written down and paid for; or the end where there is none."""
        request = self.opening.model_copy(
            update={"messages": self._messages, "max_tokens": call.max_tokens}
        )
        check_request(request, self._sent)
        self._sent = request
        reply: Reply | None = None
        try:
            with anyio.move_on_after(self.budget.seconds_left):
                reply = await self.model.complete(request, partial(self._spend, call))
        except _Unaffordable as over:
            return self._failed("limit", str(over), over.ceiling)
        except ModelError as error:
            if error.usage != NO_USAGE:
                await self._spend(None, error.usage)
            return self._no_answer(error)
        if reply is None:
            why = "the time was over before the model answered"
            return self._failed("limit", why, "minutes")
        self.budget.charge(reply.usage)
        message = storable(reply.message, taken=self._ids)
        self._messages = (*self._messages, message)
        self._last_words = reply.message.text or self._last_words
        await self.transcript.append(
            Entry(
                message=message,
                usage=reply.usage,
                stop_reason=reply.stop_reason,
                model=reply.model,
            )
        )
        return reply.model_copy(update={"message": message})

    async def _spend(self, call: NextCall | None, usage: Usage) -> None:
        """Pay for a try that came to nothing; raises where `call` does not fit once more."""
        self.budget.charge_failed(usage)
        await self.transcript.spend(usage)
        over = self.budget.unaffordable(call) if call is not None else None
        if over is not None:
            raise _Unaffordable(over)

    def _no_answer(self, error: ModelError) -> AgentResult:
        if error.reason == "pause":
            raise error
        for reason in _REASONS:
            if reason == error.reason:
                return self._failed(reason, str(error))
        return self._failed("provider", f"{error.reason}: {error}")

    async def _react(self, reply: Reply, call: NextCall) -> _Step:
        """What a reply leads to, by the reason why it stopped."""
        message = reply.message
        if reply.stop_reason == "tool_use" and message.calls:
            self._cuts = self._pauses = 0
            step = await self._tool_turn(message, only_submit=bool(call.last))
        elif reply.stop_reason == "end_turn" and self._hands_in(message):
            step = await self._tool_turn(message, only_submit=True)
        elif reply.stop_reason in ("tool_use", "end_turn", "stop_sequence"):
            step = await self._without_call(message)
        elif reply.stop_reason == "max_tokens":
            step = self._cut(message)
        elif reply.stop_reason == "pause_turn" and not message.calls:
            step = self._paused()
        elif reply.stop_reason == "refusal":
            step = _Step(end=self._failed("refused", "the model refused to go on"))
        elif reply.stop_reason == "model_context_window_exceeded":
            step = _Step(end=self._failed("limit", "the conversation is longer than the window"))
        else:
            why = f"the model stopped with {reply.stop_reason}: its answer cannot be used"
            step = _Step(end=self._failed("provider", why))
        if call.last and step.end is None:
            why = f"nothing was accepted within the ceiling ({call.last})"
            end = self._failed("limit", why + _shown(step.message), call.ceiling)
            return _Step(step.message, end)
        return step

    def _hands_in(self, message: Message) -> bool:
        return any(call.name == self.caller.role.submit_tool for call in message.calls)

    async def _tool_turn(self, message: Message, *, only_submit: bool) -> _Step:
        turn = await self.caller.turn(
            message.calls,
            seconds_max=self.budget.seconds_left,
            only_submit=only_submit,
        )
        answer = Message(role="user", blocks=turn.results)
        if turn.accepted:
            return _Step(answer, AgentResult(True, None, "", self._usage()))
        if turn.invalid:
            return _Step(answer, self._failed("planner_invalid", turn.invalid))
        if turn.stuck:
            return _Step(answer, self._failed("stuck", turn.stuck))
        return _Step(answer)

    async def _without_call(self, message: Message) -> _Step:
        """A reply that stopped although nothing was handed in, but for what its text may hold."""
        submit = self.caller.role.submit_tool
        judged = None if message.calls else await self.caller.judge_text(message.text)
        if judged is not None and judged.accepted:
            return _Step(end=AgentResult(True, None, "", self._usage()))
        if judged is not None:
            end = self._failed("planner_invalid", judged.invalid) if judged.invalid else None
            text = f"{judged.answer}\n\nMend it and hand it in by a call of {submit}."
            return _Step(Message(role="user", blocks=(TextBlock(text=text),)), end)
        if self._reminded:
            why = f"the agent stopped without calling {submit}, after it had been reminded"
            return _Step(end=self._failed("nothing_handed_in", why))
        self._reminded = True
        text = (
            f"Nothing is handed in yet, so this task is not done. Only a call of {submit} hands it"
            " in. Do first what is still missing; if you cannot, hand in what there is and say so."
        )
        return _Step(_answer_all(message, "not run: the reply did not stop for tools", text))

    def _cut(self, message: Message) -> _Step:
        """A reply that reached its longest: its calls may lack half their arguments."""
        self._cuts += 1
        if self._cuts > CUTS_MAX:
            why = f"output_too_long: {self._cuts} replies in a row were cut at their longest"
            return _Step(end=self._failed("limit", why))
        self._max_tokens = 2 * MAX_TOKENS
        text = (
            "Your reply was cut at its longest. Go on in smaller steps, with a tool call in each."
        )
        return _Step(_answer_all(message, "cut, nothing was run: send it again, smaller", text))

    def _paused(self) -> _Step:
        """A provider's pause: the same conversation is sent again, the reply so far at its end."""
        self._pauses += 1
        if self._pauses > PAUSES_MAX:
            return _Step(end=self._failed("provider", f"paused {self._pauses} times in a row"))
        return _Step()

    def _last_turn_note(self, call: NextCall) -> str:
        return (
            f"This is your last turn ({call.last}). Call {self.caller.role.submit_tool} now with"
            " what you have, and say what is missing; nothing else will be run."
        )

    def _failed(
        self, reason: FailureReason, why: str, ceiling: Ceiling | None = None
    ) -> AgentResult:
        evidence = why
        if self._last_words:
            words = clipped(visible(self._last_words), LAST_WORDS_CHARS, hint="see the transcript")
            evidence = f"{why}\nThe agent's last words: {words}"
        return AgentResult(False, reason, evidence, self._usage(), ceiling)

    def _usage(self) -> Usage:
        return self.budget.usage.model_copy(update={"seconds": max(self.budget.seconds, 0.0)})


def _bytes(sent: Request | Message) -> int:
    """Its size as it is sent: characters would count most scripts of the world too low."""
    return len(sent.model_dump_json().encode())


def _with_text(message: Message, text: str) -> Message:
    return Message(role=message.role, blocks=(*message.blocks, TextBlock(text=text)))


def _answer_all(message: Message, result: str, text: str) -> Message:
    """The answer to a reply whose calls, if it has any, are not carried out."""
    results = tuple(
        ToolResult(tool_use_id=call.id, content=result, is_error=True) for call in message.calls
    )
    return Message(role="user", blocks=(*results, TextBlock(text=text)))


def _shown(message: Message | None) -> str:
    """Results in short, for evidence."""
    blocks = message.blocks if message is not None else ()
    text = "\n".join(block.content for block in blocks if isinstance(block, ToolResult))
    return "\n" + clipped(text, LAST_WORDS_CHARS, hint="see the transcript") if text else ""
