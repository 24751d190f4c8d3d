"""Text on its way to a model: made harmless, and cut so that the cut says what is missing.

Not for files that are written: nothing here is reversible. What comes out holds no control
character but tab and newline, no half of a surrogate pair, and no escape sequence that could
drive a person's terminal or hide text from a reader.
"""

from __future__ import annotations

import re

from orchestrator.core.characters import without_controls

RESULT_CHARS_MAX = 20_000
"""Most characters of one result. A middle that is lost costs a turn, a flood costs every turn."""

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]*[0-~]"  # the short ones
)


def visible(text: str) -> str:
    """`text` with every control character shown as an escape such as `\\x1b`."""
    return without_controls(text)


def cleaned(output: bytes) -> str:
    """What a terminal would show of `output` in the end, without colours.

    Escape sequences go, a line that was overwritten (progress bars) keeps its last state, what is
    left of control characters is shown as escapes. Bytes that are not UTF-8 become U+FFFD.
    """
    text = _ESCAPE_SEQUENCE.sub("", output.decode("utf-8", errors="replace"))
    lines = text.replace("\r\n", "\n").split("\n")
    return visible("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines))


def clipped(
    text: str, chars_max: int = RESULT_CHARS_MAX, *, hint: str, missing_bytes: int = 0
) -> str:
    """`text` whole, or its head (a third) and tail (the rest) around a line that says what is gone.

    `hint` says how to see the missing part; `missing_bytes` is what was lost before, in the middle.
    """
    if len(text) <= chars_max and not missing_bytes:
        return text
    head = _up_to_line_end(text[: min(chars_max, len(text)) // 3])
    start = max(len(head), len(text) - (chars_max - len(head)))
    tail = text[_line_start(text, start) :]
    gone = text[len(head) : len(text) - len(tail)]
    size = f"{gone.count(chr(10)):,} lines, {len(gone):,} characters"
    if missing_bytes:
        size += f" and {missing_bytes:,} bytes more"
    return f"{head}[... {size} left out here: {hint} ...]\n{tail}"


def _up_to_line_end(head: str) -> str:
    """`head` without its last, broken line, unless that line is most of it."""
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) // 2 else head + "\n"


def _line_start(text: str, start: int) -> int:
    """The first start of a line at or soon after `start`."""
    end = text.find("\n", start, start + 2_000)
    return start if start == 0 or end < 0 else end + 1
