"""`doctor`: what works on this machine and in this repository, one line each, with the mend.

Changes nothing, costs nothing and, unless `--online` asks for it, touches no network. The looking
is `orchestrator.cli.checkup`; here it is told, as lines or as JSON, and becomes an exit code: 0
when runs can work, 3 when something has to be mended first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
import click

from orchestrator.cli.checkup import Asked, Finding, checkup
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.terminal import out, out_style
from orchestrator.errors import ExitCode
from orchestrator.observers.text import Style, clean_line


@click.command()
@repo_option
@click.option("--roles", type=NAMED_FILE, metavar="DIR", help="A folder of role files.")
@click.option("--base-url", metavar="URL", help="The model server to look at.")
@click.option("--online", is_flag=True, help="Ask the model server which models it has.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--plain", is_flag=True, help="No colour.")
def doctor(
    repo: Path | None,
    roles: Path | None,
    base_url: str | None,
    online: bool,
    as_json: bool,
    plain: bool,
) -> int:
    """What works on this machine and in this repository, and how to mend what does not."""
    findings = anyio.run(checkup, Asked(repo, roles, base_url, online))
    works = not any(finding.state == "problem" for finding in findings)
    if as_json:
        checks = [asdict(finding) for finding in findings]
        out([json.dumps({"type": "doctor", "works": works, "checks": checks})])
    else:
        out(_lines(findings, out_style(plain=plain)))
    return ExitCode.OK if works else ExitCode.ENVIRONMENT


def _lines(findings: Sequence[Finding], style: Style) -> list[str]:
    """One line for each finding, the verdict last."""
    colours = {"ok": style.good, "warning": style.odd, "problem": style.bad}
    name_chars = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        state = colours[finding.state](f"{finding.state:<7}")
        text = finding.text + (f"; {finding.mend}" if finding.mend else "")
        lines.append(f"{state}  {finding.name:<{name_chars}}  {clean_line(text)}")
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    verdict = "runs cannot work yet" if problems else "runs can work"
    return [*lines, "", f"{verdict}: {problems} to mend, {warnings} to know"]
