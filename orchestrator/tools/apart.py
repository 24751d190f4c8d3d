"""Runs a function in a process that can be ended, for work that holds the interpreter.

Not a sandbox: the process has the rights of this one. It guarantees that the function comes from
this program and not from the folder that the program was started in, which is a stranger's
repository: Python would look there first for every module (`python -m` puts it in front).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio.to_process

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


async def run_apart(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
    """What `function(*args)` gives; cancelling ends its process.

    Function, arguments and result must be picklable. Raises what the function raises, or
    `anyio.BrokenWorkerProcess` when its process ended early.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # the process inherits it, and has no other way to be told
    return await anyio.to_process.run_sync(function, *args, cancellable=True)
