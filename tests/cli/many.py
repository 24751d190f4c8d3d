"""Many command lines, one after another, in one child process: starting one costs a second.

Reads a list of command lines as JSON from stdin, writes `[code, stdout, stderr]` for each.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from orchestrator.cli.main import run


def main() -> None:
    results = []
    for words in json.load(sys.stdin):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
        results.append([int(code), out.getvalue(), err.getvalue()])
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
