"""`demo`: turns a bundled sample into a repository of its own and runs its plan there.

The repository is made in a fresh temporary folder and stays there, so that its branch can be looked
at; it has one commit, always the same one. The user's git configuration, templates and hooks play
no part in it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import anyio

from orchestrator import data
from orchestrator.cli import session
from orchestrator.cli.options import RunOptions
from orchestrator.cli.terminal import note
from orchestrator.errors import RepositoryError
from orchestrator.workspace.process import run_process

GIT_SECONDS_MAX = 60.0
OUTPUT_BYTES_MAX = 10_000
NOT_COPIED = shutil.ignore_patterns(
    ".git", "__pycache__", "*.pyc", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv"
)
COMMIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    **{f"GIT_{who}_NAME": "Orchestrate Demo" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "demo@orchestrate.invalid" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-01-05T09:00:00+0000" for who in ("AUTHOR", "COMMITTER")},
}
"""Identity and date are fixed, so every demo starts from the same commit."""


def run_demo(name: str, **options: Any) -> int:
    """Run the bundled plan `name`; `options` are fields of `RunOptions`. Gives the exit code."""
    parts = data.demo(name)
    repository = anyio.run(make_repository, parts.sample, parts.plan.stem)
    note(f"demo repository: {repository}")
    code = session.start(
        RunOptions(plan=parts.plan, repo=repository, scripted=parts.script, demo=True, **options)
    )
    note(f"look around: cd {repository} (the folder is yours to delete)")
    return code


async def make_repository(sample: Path, name: str) -> Path:
    """Copy the files of `sample` into a new repository called `name` and commit them on `main`.

    Gives its folder. Raises `RepositoryError` when it cannot be made.
    """
    folder = await anyio.to_thread.run_sync(_copied, sample, name)
    await _git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    await _git(folder, "add", "--all")
    await _git(folder, "commit", "--quiet", "--no-verify", "--message", f"The {name} sample")
    return folder


async def _git(folder: Path, *args: str) -> None:
    """Run git there, with nothing of the user's configuration."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **COMMIT_ENV}
    done = await run_process(
        ["git", *args],
        cwd=folder,
        env=env,
        timeout_s=GIT_SECONDS_MAX,
        output_bytes_max=OUTPUT_BYTES_MAX,
    )
    if done.exit_status != 0:
        said = done.output.decode("utf-8", "replace").strip().partition("\n")[0]
        raise RepositoryError(
            f"{folder}: git {args[0]} failed ({said}); is git 2.38 or newer there?"
        )


def _copied(sample: Path, name: str) -> Path:
    """The copy, before it is a repository. Blocks."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="orchestrate-demo-")) / name
        shutil.copytree(sample, folder, symlinks=True, ignore=NOT_COPIED)
    except OSError as error:
        raise RepositoryError(
            f"{tempfile.gettempdir()}: the demo cannot be copied there ({error}); set TMPDIR"
        ) from error
    return folder
