"""Text for terminals and reports: untrusted text made harmless, numbers made short, colour.

Everything that a model, a command or a repository wrote passes through `clean` before a person
sees it: no control character, no escape sequence, no invisible reordering survives. No terminal
width is asked for anywhere, so no width can break it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TextIO

from orchestrator.core.characters import without_tricks

LINE_CHARS_MAX = 2_000


class Sink(Protocol):
    """What observers write text to: a stream, or something that stands in for one."""

    def write(self, text: str, /) -> int:
        """Take `text`. Raises `OSError` when nobody will ever read it."""
        ...

    def flush(self) -> None:
        """Pass on what was taken."""
        ...


def clean(text: str) -> str:
    """`text` with every control or invisible character shown as an escape such as `\\x1b`."""
    return without_tricks(text.replace("\r\n", "\n"))


def clean_line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """The same on one line, cut to `chars_max` characters with an ellipsis."""
    return clip(" ".join(clean(text).split()), chars_max)


def clip(text: str, chars_max: int) -> str:
    """`text` cut to at most `chars_max` characters, the last one `…` when something is missing."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def tail(text: str, lines_max: int) -> list[str]:
    """The last `lines_max` lines of `text`, cleaned, without blank ones around them."""
    lines = [clip(line.rstrip(), LINE_CHARS_MAX) for line in clean(text).strip("\n").split("\n")]
    return lines[-lines_max:] if any(lines) else []


def dollars(usd: float) -> str:
    """`$0.0123`: four digits below ten dollars, two from there."""
    return f"${usd:.4f}" if usd < 10 else f"${usd:,.2f}"


def duration(seconds: float) -> str:
    """`3.1s`, `2m05s`, `1h02m`."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def plural(count: int, noun: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, or none at all."""

    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str], *, plain: bool = False) -> Style:
        """Colour for a terminal that can do it.

        `NO_COLOR` (no-color.org) and `plain` win over `FORCE_COLOR`, and that over what the
        stream is.
        """
        if plain or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
            return cls(False)
        if environ.get("FORCE_COLOR"):
            return cls(True)
        return cls(stream.isatty())

    def good(self, text: str) -> str:
        """Green."""
        return self._sgr(32, text)

    def bad(self, text: str) -> str:
        """Red."""
        return self._sgr(31, text)

    def odd(self, text: str) -> str:
        """Yellow."""
        return self._sgr(33, text)

    def dim(self, text: str) -> str:
        """Grey."""
        return self._sgr(90, text)

    def _sgr(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
