"""What the project's text files say: it speaks of itself alone, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.style.source import ROOT, report, text_files

PRIVATE = {
    "a path on somebody's machine": r"(?<![\w.})*])/(?:work|root)/\w",
    "the number of an issue": r"\b[Ii]ssues? #?\d",
    "the host of a package registry": r"\b(?:pypi|npmjs|debian|pythonhosted)\.(?:org|com)\b",
    "a person who wrote it": r"\b[Tt]he lead\b",
    "a document that is not here": r"\b(?:DESIGN|CONTRACT)\.md\b",
}
"""What the texts must not hold, and how it is recognised."""

EXAMPLES = (
    "see /root/notes",
    "as issue 7 says",
    "from pypi.org",
    "ask the lead",
    "by DESIGN.md",
)
"""One line for each kind, in their order."""

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def private_words(text: str) -> list[str]:
    """What `text` must not hold: one sentence for each place, with its line."""
    return [
        f"{number}: {what}: {match.group()}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in PRIVATE.items()
        if (match := re.search(pattern, line))
    ]


def test_the_project_speaks_of_itself_alone() -> None:
    problems = [
        f"{path}:{problem}"
        for path, text in text_files().items()
        if path != "tests/style/test_texts.py"
        for problem in private_words(text)
    ]
    assert not problems, report(problems, "Say it in words that a stranger understands:")


@pytest.mark.parametrize(("what", "example"), list(zip(PRIVATE, EXAMPLES, strict=True)))
def test_a_private_word_is_caught(what: str, example: str) -> None:
    assert [problem.split(": ")[1] for problem in private_words(example)] == [what]


def test_relative_links_lead_somewhere() -> None:
    problems = [
        f"{path}: {target}"
        for path, text in text_files().items()
        if path.endswith(".md") and not path.startswith("examples/")
        for target in _LINK.findall(text)
        if not (ROOT / Path(path).parent / target).exists()
    ]
    assert not problems, report(problems, "No such file:")


def test_texts_end_with_one_newline_and_have_no_tabs_or_trailing_spaces() -> None:
    problems = []
    for path, text in text_files().items():
        if not path.endswith((".md", ".toml", ".yaml", ".yml", "/run")):
            continue
        if not text.endswith("\n") or text.endswith("\n\n"):
            problems.append(f"{path}: ends without a newline, or with several")
        problems += [
            f"{path}:{number}: a tab, or spaces at the end"
            for number, line in enumerate(text.splitlines(), start=1)
            if "\t" in line or line != line.rstrip()
        ]
    assert not problems, report(problems, "Clean up:")
