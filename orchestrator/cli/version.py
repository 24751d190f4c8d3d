"""`version`: in a module of its own, so that asking for it loads nothing else."""

from __future__ import annotations

import click

from orchestrator import __version__
from orchestrator.cli.terminal import out


@click.command()
def version() -> None:
    """The version of this program."""
    out([f"orchestrate {__version__}"])
