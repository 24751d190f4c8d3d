"""A lock between processes that dies with its holder: `flock` on a file of ours."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from orchestrator.errors import InfrastructureError

_POLL_S = 0.02


@asynccontextmanager
async def exclusive(path: Path, *, timeout_s: float) -> AsyncIterator[None]:
    """Hold the lock file at `path`, made when missing; its folder must be there.

    Raises `InfrastructureError` when another process holds it for longer than `timeout_s`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{path}: another process has held this lock for {timeout_s:g} s; end it"
                )
            await anyio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
