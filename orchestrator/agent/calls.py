"""The tool calls of one turn: carried out in order, each answered, whatever happens.

Calls that only read run at the same time where they stand side by side, the others one by one. A
call that raises gives an error result; only cancellation and faults of the machine itself
(`OrchestratorError`) go through, the latter after its neighbours have ended. An accepted Submit
ends the turn: what stands after it is answered "not run".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from orchestrator.agent.edit_check import EDITING_TOOLS, EditCheck
from orchestrator.agent.repeats import NUDGE_AT, STOP_AT, Repeats, nudge
from orchestrator.agent.written import MARKS, written_product
from orchestrator.core.products import Product
from orchestrator.core.roles import Role
from orchestrator.errors import OrchestratorError
from orchestrator.messages import ToolResult, ToolSpec, ToolUse
from orchestrator.ports import FileAccessError, Tool, ToolError, Workspace
from orchestrator.tools.submit import parse_product, submit_spec
from orchestrator.tools.text import RESULT_CHARS_MAX, clipped, visible

PARALLEL_MAX = 8
CALLS_PER_TURN_MAX = 64
TURN_CHARS_MAX = 200_000
"""Most characters of all results of a turn; what comes past it is cut to `CROWDED_CHARS`."""
CROWDED_CHARS = 2_000
REFUSALS_MAX = 3
"""Replies with a plan or patch that does not fit, after which its planner has failed."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The product was taken: the agent is done."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The product was not taken; the agent is told why and goes on."""

    text: str


HandIn = Callable[[Product], Awaitable[Accepted | Returned]]
"""Seals, checks and takes a product, or gives it back."""


@dataclass(frozen=True, slots=True)
class TurnResults:
    """The answers to one turn's calls."""

    results: tuple[ToolResult, ...]
    accepted: bool
    stuck: str
    """What is going round in circles; empty where nothing is."""
    invalid: str = ""
    """Why a planner's plans are not waited for any more; empty where they are."""


@dataclass(frozen=True, slots=True)
class TextJudged:
    """What became of a product that stood in a reply's text."""

    answer: str
    accepted: bool
    invalid: str
    """As in `TurnResults`."""


@dataclass(slots=True)
class _Answer:
    text: str
    failed: bool = False
    counts: bool = True
    """Whether it says something about the call (one that was not run says nothing)."""


@dataclass(slots=True)
class Caller:
    """Carries out what the model asks for, turn by turn."""

    role: Role
    tools: Sequence[Tool]
    workspace: Workspace
    hand_in: HandIn
    check: EditCheck | None = None
    """Run after a turn that edited files."""
    repeats: Repeats = field(default_factory=Repeats)
    _by_name: dict[str, Tool] = field(init=False)
    _submit: ToolSpec = field(init=False)
    _accepted: bool = False
    _refused: str = ""
    """Why a product of this turn was not taken."""
    _refusals: int = 0
    """Turns with such a product."""
    _fault: OrchestratorError | None = None

    def __post_init__(self) -> None:
        self._by_name = {tool.spec.name: tool for tool in self.tools}
        self._submit = submit_spec(self.role.product)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """All that the model may call, sorted by name."""
        specs = [tool.spec for tool in self.tools]
        return tuple(sorted([*specs, self._submit], key=lambda spec: spec.name))

    async def turn(
        self, calls: Sequence[ToolUse], *, seconds_max: float, only_submit: bool
    ) -> TurnResults:
        """Answer `calls`, those that take time within `seconds_max` together.

        `only_submit`: nothing else is run, for there is no turn after it.
        """
        deadline = anyio.current_time() + seconds_max
        self._refused = ""
        answers: list[_Answer | None] = [None] * len(calls)
        failed_write = ""
        for group in self._groups(calls):
            for position in group:
                answers[position] = self._refusal(calls[position], position, only_submit)
            allowed = [position for position in group if answers[position] is None]
            if not allowed:
                continue
            first = allowed[0]
            if calls[first].name == self._submit.name:
                answers[first] = await self._hand_in(calls[first], failed_write)
                continue
            await self._run(allowed, calls, answers, deadline)
            if not self._reads(calls[first]) and _failed(answers[first]):
                failed_write = calls[first].name
        await self._check_edits(calls, answers, deadline)
        if self._fault is not None:
            raise self._fault
        return self._results(calls, answers)

    def _groups(self, calls: Sequence[ToolUse]) -> Iterator[list[int]]:
        """Positions of calls that run at the same time."""
        group: list[int] = []
        for position, call in enumerate(calls):
            together = self._reads(call) and position < CALLS_PER_TURN_MAX
            if group and not together:
                yield group
                group = []
            group.append(position)
            if not together:
                yield group
                group = []
        if group:
            yield group

    def _reads(self, call: ToolUse) -> bool:
        tool = self._by_name.get(call.name)
        return tool is not None and tool.spec.read_only

    def _refusal(self, call: ToolUse, position: int, only_submit: bool) -> _Answer | None:
        """Why a call is not run at all."""
        if self._accepted:
            return _Answer("not run: your work was handed in and accepted", counts=False)
        if position >= CALLS_PER_TURN_MAX:
            text = f"not run: at most {CALLS_PER_TURN_MAX} calls in one reply; send it again"
            return _Answer(text, failed=True, counts=False)
        if call.name != self._submit.name and call.name not in self._by_name:
            there_are = ", ".join(spec.name for spec in self.specs)
            return _Answer(f"there is no tool {call.name} here; there are {there_are}", failed=True)
        if only_submit and call.name != self._submit.name:
            text = f"not run: only {self._submit.name} counts in a last reply"
            return _Answer(text, failed=True, counts=False)
        return None

    async def _hand_in(self, call: ToolUse, failed_write: str) -> _Answer:
        if failed_write:
            return _Answer(
                f"not handed in: {failed_write} before it in the same reply failed. Look at its"
                " result first.",
                failed=True,
                counts=False,
            )
        return await self._judge(call.input)

    async def judge_text(self, text: str) -> TextJudged | None:
        """Hand in the plan or patch that stands in a reply's text; None where none does."""
        written = await anyio.to_thread.run_sync(written_product, self.role.product, text)
        if written is None:
            return None
        self._refused = ""
        if written.fault:
            self._refused = written.fault
        else:
            await self._judge(written.arguments)
        answer = clipped(visible(self._refused), RESULT_CHARS_MAX, hint="mend these first")
        return TextJudged(answer, self._accepted, self._invalid())

    async def _judge(self, arguments: Mapping[str, object]) -> _Answer:
        try:
            product = parse_product(self.role.product, arguments)
        except ToolError as error:
            self._refused = str(error)
            return _Answer(self._refused, failed=True)
        verdict = await self.hand_in(product)
        if isinstance(verdict, Returned):
            self._refused = verdict.text
            return _Answer(verdict.text, failed=True)
        self._accepted = True
        return _Answer("accepted")

    def _invalid(self) -> str:
        """Count a turn whose plan was refused; why it was the last one, if it was."""
        if not self._refused or self._accepted or self.role.product not in MARKS:
            return ""
        self._refusals += 1
        if self._refusals < REFUSALS_MAX:
            return ""
        return f"refused {self._refusals} times, the last time because:\n{self._refused}"

    async def _run(
        self,
        group: Sequence[int],
        calls: Sequence[ToolUse],
        answers: list[_Answer | None],
        deadline: float,
    ) -> None:
        """Run the calls of a group at the same time; unanswered ones ran out of time."""
        limiter = anyio.CapacityLimiter(PARALLEL_MAX)

        async def run_one(position: int) -> None:
            async with limiter:
                answers[position] = await self._call(calls[position])

        with anyio.CancelScope(deadline=deadline):
            async with anyio.create_task_group() as tasks:
                for position in group:
                    tasks.start_soon(run_one, position)

    async def _check_edits(
        self, calls: Sequence[ToolUse], answers: Sequence[_Answer | None], deadline: float
    ) -> None:
        """Add what the task's check says to the result of the turn's last good edit."""
        edits = [
            answer
            for call, answer in zip(calls, answers, strict=True)
            if call.name in EDITING_TOOLS and answer is not None and not answer.failed
        ]
        if self.check is None or not edits or self._accepted or self._fault is not None:
            return
        try:
            left = max(deadline - anyio.current_time(), 0.0)
            said = await self.check.run(self.workspace, left)
        except OrchestratorError as error:
            self._fault = error
            return
        edits[-1].text += f"\n\n{said}"

    async def _call(self, call: ToolUse) -> _Answer:
        tool = self._by_name[call.name]
        try:
            return _Answer(await tool(call.input, self.workspace))
        except (ToolError, FileAccessError) as error:
            return _Answer(str(error), failed=True)
        except OrchestratorError as error:
            self._fault = self._fault or error
            return _Answer("the workspace is gone", failed=True)
        except Exception as error:  # noqa: BLE001 - a faulty tool must not end the conversation
            text = f"{call.name} broke down ({type(error).__name__}: {error}); try another way"
            return _Answer(text, failed=True)

    def _results(self, calls: Sequence[ToolUse], answers: Sequence[_Answer | None]) -> TurnResults:
        """Results in the order of the calls, capped, with nudges where calls repeat."""
        self.repeats.new_turn()
        results: list[ToolResult] = []
        stuck = ""
        room = TURN_CHARS_MAX
        for call, given in zip(calls, answers, strict=True):
            answer = given or _Answer("ended: the attempt's time is over", failed=True)
            text = visible(answer.text) if answer.text.strip() else "(no output)"
            text = clipped(text, min(RESULT_CHARS_MAX, max(room, CROWDED_CHARS)), hint="ask again")
            times = self._times(call, answer)
            if times >= STOP_AT:
                stuck = stuck or f"{_shown(call)} ended {times} times like this:\n{text}"
            if times >= NUDGE_AT:
                text = f"{text}\n\n{nudge(times)}"
            room -= len(text)
            results.append(ToolResult(tool_use_id=call.id, content=text, is_error=answer.failed))
        return TurnResults(tuple(results), self._accepted, stuck, self._invalid())

    def _times(self, call: ToolUse, answer: _Answer) -> int:
        if not answer.counts or self._accepted:
            return 0
        return self.repeats.count(
            call.name,
            call.input,
            answer.text,
            failed=answer.failed,
            writes=not self._reads(call),
        )


def _failed(answer: _Answer | None) -> bool:
    """No answer is a call that ran out of time."""
    return answer is None or answer.failed


def _shown(call: ToolUse) -> str:
    """A call on one line, for evidence."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in call.input.items())
    return visible(f"{call.name}({arguments})".replace("\n", " "))[:500]
