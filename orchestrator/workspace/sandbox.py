"""Where a command runs: in a sandbox that passed its self-test, or, said plainly, in none.

A sandbox turns a command into another command. It keeps no state and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from orchestrator.errors import RepositoryError
from orchestrator.workspace.bubblewrap import find_bubblewrap
from orchestrator.workspace.environment import TREE
from orchestrator.workspace.selftest import problems_of

Mode = Literal["auto", "required", "off"]

_INSTALL = "`apt install bubblewrap` or `dnf install bubblewrap`"


class Sandbox(Protocol):
    """Turns commands into commands that are held back."""

    @property
    def name(self) -> str:
        """`none` or `bubblewrap`; what reports and the journal say."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether it holds anything back."""
        ...

    def describe(self) -> str:
        """One line for people: the level, and what it does not do."""
        ...

    def prepare(self, place: Path) -> dict[str, str]:
        """Make what commands need beside `place/tree`; HOME and TMPDIR as they will see them."""
        ...

    def location(self, place: Path) -> str:
        """Where commands see `place/tree`."""
        ...

    def wrap(
        self, argv: Sequence[str], *, place: Path, env: Mapping[str, str], tool_path: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """A command that runs `argv` at the root of `place/tree` with exactly `env`,
        and the environment to start it with.

        `tool_path`: folders of programs that must be there; nothing else of the host need be.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Commands run as the user who started the program, with a cleaned environment only."""

    why: str = "switched off"
    name: str = "none"
    isolates: bool = False

    def describe(self) -> str:
        """One line for people."""
        return (
            f"sandbox: none ({self.why}): commands can read and write whatever you can, "
            "and use the network"
        )

    def prepare(self, place: Path) -> dict[str, str]:
        """Folders of the workspace's own, removed with it."""
        home, tmp = place / "home", place / "tmp"
        home.mkdir()
        tmp.mkdir()
        return {"HOME": str(home), "TMPDIR": str(tmp)}

    def location(self, place: Path) -> str:
        """The folder itself."""
        return str(place / TREE)

    def wrap(
        self, argv: Sequence[str], *, place: Path, env: Mapping[str, str], tool_path: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """The command itself."""
        del place, tool_path
        return list(argv), dict(env)


async def choose_sandbox(mode: Mode) -> Sandbox:
    """The best level that passes its self-test, on this machine, now.

    Mode `off` gives `NoSandbox`; `auto` falls back to it and says why; `required` raises
    `RepositoryError` instead.
    """
    if mode == "off":
        return NoSandbox()
    found = find_bubblewrap()
    why = f"bubblewrap is not installed, {_INSTALL}"
    if found is not None:
        for sandbox in (found, replace(found, modern=False)):
            problems = await problems_of(sandbox)
            if not problems:
                return sandbox
            why = f"bubblewrap does not hold on this machine: {'; '.join(problems)}"
    if mode == "required":
        raise RepositoryError(f"sandbox: {why}; or use --sandbox off")
    return NoSandbox(why)
