"""Whether what was handed in holds against the tree: places exist, quotes stand where they should.

A product's shape is checked before (pydantic); here its statements are. What is wrong goes back to
the agent in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orchestrator.core.products import Claim, Finding, Report, Verdict
from orchestrator.tools.content import form_of, lines_of

FILE_BYTES_MAX = 5_000_000
"""Bytes of a file that is looked into to check a quote."""
PROBLEMS_MAX = 20
"""Problems that are named at a time."""

Read = Callable[[str], Awaitable[bytes | None]]
"""A file by its path relative to the root, at most `FILE_BYTES_MAX` of it; None without one."""


async def report_problems(report: Report, read: Read) -> list[str]:
    """What is wrong with a report's claims: missing files, lines past the end, false quotes."""
    problems: list[str] = []
    for number, claim in enumerate(report.claims, start=1):
        lines = await _lines(read, claim.path)
        wrong = _no_such(claim.path) if lines is None else _claim_problem(claim, lines)
        if wrong:
            problems.append(f"claim {number}: {wrong}")
    return problems[:PROBLEMS_MAX]


async def verdict_problems(verdict: Verdict, read: Read) -> list[str]:
    """What is wrong with a verdict: a refusal without a reason, findings at places that are not."""
    problems: list[str] = []
    if not verdict.approve and not verdict.findings:
        problems.append("you do not approve but name no finding: say what must change, and where")
    if verdict.approve and any(finding.severity == "error" for finding in verdict.findings):
        problems.append("you approve in spite of an error: do one or the other")
    for number, finding in enumerate(verdict.findings, start=1):
        wrong = await _finding_problem(finding, read)
        if wrong:
            problems.append(f"finding {number}: {wrong}")
    return problems[:PROBLEMS_MAX]


def _claim_problem(claim: Claim, lines: list[str]) -> str:
    end = claim.end_line if claim.end_line is not None else claim.line
    if end < claim.line or end > len(lines):
        return f"`{claim.path}` has {len(lines)} lines, not {claim.line} to {end}"
    there = "\n".join(lines[claim.line - 1 : end])
    if claim.quote and _squeezed(claim.quote) not in _squeezed(there):
        return f"`{claim.path}:{claim.line}` does not say {claim.quote[:200]!r}: quote it exactly"
    return ""


async def _finding_problem(finding: Finding, read: Read) -> str:
    lines = await _lines(read, finding.path)
    if lines is None:
        return _no_such(finding.path)
    if finding.line > max(1, len(lines)):
        return f"`{finding.path}` has {len(lines)} lines, not {finding.line}"
    return ""


def _no_such(path: str) -> str:
    return f"there is no file `{path}`: name it by its path from the repository's root"


async def _lines(read: Read, path: str) -> list[str] | None:
    """The file's lines as the Read tool shows and numbers them."""
    data = await read(path)
    if data is None:
        return None
    form = form_of(data)
    return [line.decode(form.encoding) for line in lines_of(data.removeprefix(form.bom))]


def _squeezed(text: str) -> str:
    """Text with runs of white space as one space: indentation is not what a quote is about."""
    return " ".join(text.split())
