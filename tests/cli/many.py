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
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
        results.append([int(code), *(_text(stream) for stream in (out, err))])
    sys.stdout.write(json.dumps(results))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


if __name__ == "__main__":
    main()
