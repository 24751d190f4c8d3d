"""Takes the keys of model servers out of what the machine shows of this process.

`/proc/PID/environ` gives everybody who runs as the same user, and without a sandbox that is every
command of an agent, the memory in which a process found its environment when it started. The keys
are overwritten there; Python's own copy, `os.environ`, is what clients read, and stays as it is.
No protection from code that reads this process's memory, or the environment of the shell before it.
"""

from __future__ import annotations

import ctypes
import os

KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Variables that hold a secret of a model server. No other program is started with them."""


def hide_keys() -> None:
    """Overwrite the values of all `KEYS` where the process found them. Once is enough."""
    find = ctypes.CDLL(None).getenv
    find.argtypes, find.restype = [ctypes.c_char_p], ctypes.c_void_p
    for name in KEYS:
        if name in os.environ and (address := find(name.encode())):
            ctypes.memset(address, ord("x"), len(ctypes.string_at(address)))
