"""`python -m orchestrator` is the `orchestrate` command.

Python puts the working folder first on the path of a module that is run by name. That folder is a
target repository, where a stranger's `click.py` would become part of this program, so it is taken
off before anything else is imported. (The installed command never looks there.)
"""

from __future__ import annotations

import contextlib
import os
import sys

if not sys.flags.safe_path:
    with contextlib.suppress(OSError):  # a working folder that is gone was never put there
        if sys.path[0] == os.getcwd():
            del sys.path[0]

from orchestrator.cli.entry import main

if __name__ == "__main__":
    main()
