"""What a run was started with, frozen: one JSON file in the run's folder.

It holds what a resume needs and the journal does not have; the files that it came from may change
or go. Written before the first event, replaced whole or not at all, without any secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import anyio
from pydantic import ValidationError, model_validator

from orchestrator.cli.answers import Source
from orchestrator.core.base import ObjectId, Record
from orchestrator.core.plan import Plan
from orchestrator.core.roles import Role
from orchestrator.errors import RepositoryError
from orchestrator.state_folder import RunFolder

SESSION_FILE = "session.json"


class Session(Record):
    """A run's beginning."""

    repository: str
    """Top of the checkout that the run was started in, or the bare repository."""
    plan: Plan
    """The checked plan, command line included; for a goal, the planner's task alone."""
    roles: tuple[Role, ...]
    base: ObjectId
    base_branch: str | None
    source: Source
    """Where answers come from."""
    demo: bool = False
    """Commands find the interpreter that runs this program."""
    plan_only: bool = False
    """The planner's plan is the result."""
    land: bool = False
    """The result is landed when the run has succeeded, whichever process ends it."""

    @model_validator(mode="before")
    @classmethod
    def _read_first_form(cls, data: object) -> object:
        """The first release kept the script beside the plan."""
        if isinstance(data, Mapping) and "source" not in data:
            rest = {key: value for key, value in data.items() if not key.startswith("script")}
            script = {key: data[key] for key in ("script", "script_name") if key in data}
            return {**rest, "source": script}
        return data

    async def save(self, folder: RunFolder) -> None:
        """Write it whole or not at all, durable on return: a resume may be killed here too."""
        await anyio.to_thread.run_sync(self._write, folder)

    def _write(self, folder: RunFolder) -> None:
        path = folder.root / SESSION_FILE
        aside = path.with_suffix(".part")
        with aside.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)

    @classmethod
    async def load(cls, folder: RunFolder) -> Session:
        """Read it. Raises `RepositoryError` when the run's files are gone or damaged."""
        path = anyio.Path(folder.root / SESSION_FILE)
        try:
            return cls.model_validate_json(await path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise RepositoryError(
                f"{path}: cannot be read, so this run cannot go on; start a new one"
            ) from error
