"""Where the installed command begins: light, so that Ctrl-C during the imports is handled too."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Import the program and run it; leaves with its exit code."""
    try:
        program = importlib.import_module("orchestrator.cli.main")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    program.main()
    raise AssertionError("the program leaves by itself")
