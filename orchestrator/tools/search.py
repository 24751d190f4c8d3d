"""Searching file contents with a regular expression, in a process that can be ended.

Python's `re` holds the interpreter while it matches: a pattern that backtracks without end would
stop the whole program, whatever thread it runs in. So `Grep` calls `search` through
`run_apart`, with a deadline that kills. The alarm ends the process even when the program
that wanted the answer is gone. Standard library only, so that the process starts at once.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from itertools import islice

LINE_CHARS_SEARCHED = 4_000
"""Longer lines are searched up to here."""
LINE_CHARS_SHOWN = 500

_SNIFFED_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Hits:
    """The matching lines of one file."""

    path: str
    count: int
    lines: tuple[tuple[int, str], ...]
    """Number and text of the first of them."""


def search(
    pattern: str, ignore_case: bool, files: list[tuple[str, bytes]], lines_max: int, seconds: int
) -> list[Hits] | str:
    """Files with matching lines, in the order given; or what is wrong with the pattern.

    At most `lines_max` lines are kept over all files, all are counted. Binary files are passed by.
    To be called in a process of its own, which is ended after `seconds`.
    """
    signal.alarm(seconds)
    try:
        return _search(pattern, ignore_case, files, lines_max)
    finally:
        signal.alarm(0)


def _search(
    pattern: str, ignore_case: bool, files: list[tuple[str, bytes]], lines_max: int
) -> list[Hits] | str:
    try:
        regex = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    literal = None if ignore_case or re.escape(pattern) != pattern else pattern.encode()
    found: list[Hits] = []
    room = lines_max
    for path, data in files:
        if b"\0" in data[:_SNIFFED_BYTES] or (literal is not None and literal not in data):
            continue
        hits = _hits(regex, path, data, room)
        if hits.count:
            found.append(hits)
            room -= len(hits.lines)
    return found


def _hits(regex: re.Pattern[str], path: str, data: bytes, room: int) -> Hits:
    text = data.decode("utf-8-sig", errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers = [
        number
        for number, line in enumerate(lines, start=1)
        if regex.search(line.rstrip("\r")[:LINE_CHARS_SEARCHED])
    ]
    shown = ((number, _shown(regex, lines[number - 1])) for number in islice(numbers, room))
    return Hits(path, len(numbers), tuple(shown))


def _shown(regex: re.Pattern[str], line: str) -> str:
    """The line, or the part of a very long one around its match."""
    line = line.rstrip("\r")
    if len(line) <= LINE_CHARS_SHOWN:
        return line
    match = regex.search(line[:LINE_CHARS_SEARCHED])
    start = max(0, match.start() - LINE_CHARS_SHOWN // 4) if match else 0
    end = start + LINE_CHARS_SHOWN
    return f"{'...' if start else ''}{line[start:end]}{'...' if end < len(line) else ''}"
