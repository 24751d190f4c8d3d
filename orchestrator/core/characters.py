"""Characters that drive a terminal, reorder what is read or cannot be seen, shown as escapes.

One table for all who show strangers' text. A model has to see files as they are, so that what it
quotes can be found again: for it only what controls is shown. A person sees what hides, too.
"""

from __future__ import annotations

import re

_CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line breaks and reordering in disguise
    "\ud800-\udfff"  # half characters
)
_HIDDEN = "\u200b-\u200d\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # no width, tags

_CONTROL = re.compile(f"[{_CONTROLS}]")
_ANY = re.compile(f"[{_CONTROLS}{_HIDDEN}]")


def without_controls(text: str) -> str:
    """`text` with every character that controls shown as an escape such as `\\x1b`."""
    return _CONTROL.sub(_escape, text)


def without_tricks(text: str) -> str:
    """The same for every character that controls or hides."""
    return _ANY.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
