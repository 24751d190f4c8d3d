"""What changes from run to run although nothing has changed: times, temporary paths, ids.

For comparing what tools and commands said in two runs. Unlike failure signatures
(`orchestrator.core.signature`) it keeps lines and white space as they are, so that a line of the
result is the same line of the text and a changed indentation is a change; and it takes more for
noise (short ids, dates, ports), where a signature must rather tell two failures apart. Every
pattern stays on its line and is read in one pass, whatever a command printed.
"""

from __future__ import annotations

import re

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?[ ]"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?:[ ][AP]M)?"
_ZONE = r"(?:Z|[ ]?[+-]\d\d:?\d\d|[ ][A-Z]{3,4})"

_NOISE: tuple[tuple[re.Pattern[str], str], ...] = (
    # 2026-11-30T15:07:00Z, 2026-11-30 15:07:00,123 +0100, 2026-11-30
    (re.compile(rf"\b\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}{_ZONE}?)?\b"), "<time>"),
    # Unix seconds, as of `date +%s.%N`
    (re.compile(r"(?<![\w.])\d{10}\.\d+\b"), "<time>"),
    # Mon Nov 30 15:07:00 2026 +0000, Mon Nov 30 15:07:00 UTC 2026, Nov 30 15:03
    (
        re.compile(
            rf"\b(?:{_DAY})?{_MONTH}[ ]{{1,2}}\d\d?(?:,?[ ]{{1,2}}{_CLOCK})?(?:[ ][A-Z]{{3,4}}\b)?"
            rf"(?:,?[ ]{{1,2}}\d{{4}})?(?:[ ]{_CLOCK})?(?:{_ZONE})?(?![\w:])"
        ),
        "<time>",
    ),
    (
        re.compile(rf"\b(?:{_DAY})?\d\d?[ ]{_MONTH}[ ]\d{{4}}(?:[ ]{_CLOCK})?(?:{_ZONE})?(?!\w)"),
        "<time>",
    ),
    # 15:07, 15:07:00.123, but no `search.py:12:34`
    (re.compile(rf"(?<![\w:.]){_CLOCK}(?![\w:])"), "<time>"),
    # 0m0.003s
    (re.compile(r"\b\d+m\d+(?:\.\d+)?s\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?[ ]?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?)\b"), "<time>"),
    # time="0.003", duration_ms 1.5, "duration": 0.2
    (
        re.compile(r"\b(time|duration|elapsed|took)(\w*\"?[=: ]{1,2}\"?)\d+(?:\.\d+)?\b"),
        r"\1\2<time>",
    ),
    (re.compile(r"\b\d+(?:\.\d+)?[ ]?[kKMG]i?B/s"), "<speed>"),
    # Folders of an absolute path; its last part stays.
    (re.compile(r"(?<![\w.<>/-])/(?:[\w.+@~-]+/)+"), "<path>/"),
    (re.compile(r"\btmp[._]?[A-Za-z0-9_]{6,12}\b"), "<temporary>"),
    (re.compile(r"\bpytest-(?:of-\w+|\d+)\b"), "<temporary>"),
    # Ids of runs, in names of branches and folders
    (re.compile(r"\b\d{8}-\d{4}-[0-9a-z]{1,16}\b"), "<run>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    # Object ids and their short forms, and Unix times
    (re.compile(r"(?<![\w.])(?=[a-f]{0,64}\d)[0-9a-f]{7,64}(?![\w])"), "<id>"),
    (re.compile(r"\b(pids?)([ =:#]{1,3})\d+\b", re.IGNORECASE), r"\1\2<pid>"),
    (re.compile(r"\b(localhost|127\.0\.0\.1|\[::1\]):\d+\b"), r"\1:<port>"),
)


def without_noise(text: str) -> str:
    """`text` with a word such as `<time>` for each thing that differs between two equal runs."""
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text
