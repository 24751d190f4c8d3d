"""Carries out attempts in this process.

Specs and outcomes pass through JSON as they would on their way to another machine, so that nothing
which only works here can creep into them. Whatever goes wrong inside an attempt comes back as a
lost one: it never reaches its siblings.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

from orchestrator.errors import DiskFullError, OrchestratorError
from orchestrator.spec import AttemptOutcome, AttemptSpec

Perform = Callable[[AttemptSpec], Awaitable[AttemptOutcome]]
"""Carries out one attempt; raises when infrastructure fails."""

ERROR_CHARS = 4_000
TRACE_CHARS = 4_000
"""Characters of an unexpected error's trace that are kept as evidence."""


class LocalExecutor:
    """The `Executor` for one machine."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def run(self, spec: AttemptSpec) -> AttemptOutcome:
        """Carry out `spec`. Raises nothing but cancellation and a full disk."""
        try:
            order = AttemptSpec.model_validate_json(spec.model_dump_json())
            outcome = await self._perform(order)
            return AttemptOutcome.model_validate_json(outcome.model_dump_json())
        except DiskFullError:
            raise
        except OrchestratorError as error:
            return _lost(str(error)[:ERROR_CHARS])
        except Exception as error:  # noqa: BLE001 - a fault of one attempt must not end the others
            trace = "".join(traceback.format_exception(error))
            return _lost(f"internal error: {repr(error)[:ERROR_CHARS]}\n{trace[-TRACE_CHARS:]}")


def _lost(why: str) -> AttemptOutcome:
    """A lost attempt; halves of characters, as in odd file names, cannot be stored."""
    return AttemptOutcome(status="lost", evidence=why.encode(errors="backslashreplace").decode())
