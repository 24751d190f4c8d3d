"""What a command finds around it: the names of a workspace's folders and the variables it gets.

The environment starts from nothing. What is in it is listed here, what a plan adds comes on top,
and names that usually hold credentials never pass, whoever sets them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

TREE = "tree"
"""Folder of the files, beneath a workspace's own folder."""

_ALWAYS = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "CI": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "EDITOR": "false",
    "PYTHONDONTWRITEBYTECODE": "1",  # caches are no work, and a stale one can fake a result
    "PYTHONUNBUFFERED": "1",  # both streams in the order they were written
}

_SECRET_NAME = re.compile(
    r"ANTHROPIC_.*|AWS_.*|.*_TOKEN|.*_API_KEY|.*_SECRET|.*_PASSWORD|.*_CREDENTIALS|"
    r"SSH_AUTH_SOCK|GPG_AGENT_INFO",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def base_environment(tool_path: Sequence[str], places: Mapping[str, str]) -> dict[str, str]:
    """What every command gets. `tool_path`: folders for PATH. `places`: HOME and TMPDIR."""
    return {**_ALWAYS, **places, "PATH": ":".join(tool_path)}


def with_added(base: Mapping[str, str], *added: Mapping[str, str]) -> dict[str, str]:
    """`base` and what the plan, a task or a call adds; later ones win.

    Names that are odd or look like credentials are dropped.
    """
    env = dict(base)
    for variables in added:
        env |= {name: value for name, value in variables.items() if may_pass(name, value)}
    return env


def may_pass(name: str, value: str) -> bool:
    """Whether a variable may reach a command."""
    well_formed = _NAME.fullmatch(name) is not None and "\0" not in value
    return well_formed and _SECRET_NAME.fullmatch(name) is None
