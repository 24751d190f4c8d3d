"""The run's one branch in the user's repository: made at the start, moved or removed at the end.

While the run goes on the branch stands at the base and keeps it from being collected. Every step
may be repeated after a crash and then finds its work done.
"""

from __future__ import annotations

from orchestrator.errors import RepositoryError
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import BRANCH_FOLDER, Repository


class BranchPublisher:
    """Writes `orchestrate/<run>`. Nothing else in the target is touched."""

    def __init__(
        self, hub: Hub, repository: Repository, *, run: str, base: str, writes: bool
    ) -> None:
        """`writes`: whether the plan has writers; without any there is no branch to pin."""
        self._hub, self._repository = hub, repository
        self._run, self._base, self._writes = run, base, writes

    @property
    def branch(self) -> str:
        """The branch's short name."""
        return f"{BRANCH_FOLDER}/{self._run}"

    async def pin(self) -> None:
        """Create the branch at the base, unless it is there. Raises `RepositoryError`."""
        if self._writes and await self._repository.branch(self._run) is None:
            await self._repository.create_branch(self._run, self._base)

    async def publish(self, commit: str | None) -> str | None:
        """Bring `commit` into the target and move the branch to it; its name.

        None: nothing was integrated, so the branch goes if it still stands at the base and nobody
        is on it. Raises `RepositoryError` when somebody else has moved it, or has it checked out:
        moving it would change what that checkout seems to contain.
        """
        here = await self._repository.branch(self._run)
        checkout = await self._repository.checked_out(self._run)
        if commit is None:
            if here == self._base and checkout is None:
                # Until now the branch has kept the base from being collected.
                await self._hub.stand_alone(self._run)
                await self._repository.delete_branch(self._run, self._base)
            return None
        if checkout is not None and here != commit:
            raise RepositoryError(
                f"{checkout}: has {self.branch} checked out, so it cannot be moved; switch to"
                f" another branch there, then `orchestrate resume {self._run}`"
            )
        await self._hub.send(self._repository, commit)
        if here is None:
            await self._repository.create_branch(self._run, commit)
        else:
            await self._repository.move_branch(self._run, self._base, commit)
        return self.branch
