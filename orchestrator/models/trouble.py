"""What can go wrong with one try at an answer, by what to do about it.

An adapter raises `Trouble`; the failure policy (`orchestrator.models.patient`) decides whether to
ask again, to pause the run, or to give up. Nothing else crosses between the two.
"""

from __future__ import annotations

from typing import Literal

from orchestrator.core.usage import Usage
from orchestrator.ports import NO_USAGE

TroubleKind = Literal["busy", "broken", "blocked", "too_long", "invalid"]
"""
`busy`     the server cannot or will not answer now: overloaded, rate limited, down, unreachable
`broken`   an answer came and cannot be used: cut, silent, empty, no stream, unreadable arguments
`blocked`  a hard limit that waiting a little does not mend: credit, key, permission, no such model
`too_long` the prompt does not fit the model's window or the server's largest body
`invalid`  the server refuses the request as it is
"""


class Trouble(Exception):
    """One try came to nothing. The text is one line for people, without secrets."""

    def __init__(
        self,
        kind: TroubleKind,
        message: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage = NO_USAGE,
        unreachable: bool = False,
    ) -> None:
        """`retry_after_s`: how long the server asks to be left alone, from now.

        `usage`: what the try has cost as far as it is known. `unreachable`: nobody was there.
        """
        self.kind: TroubleKind = kind
        self.retry_after_s = retry_after_s
        self.usage = usage
        self.unreachable = unreachable
        super().__init__(message)
