"""Work in a process of its own: whose code it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orchestrator

PROGRAM = """
import anyio
from orchestrator.tools.apart import run_apart
from orchestrator.tools.parses import problem_within
if __name__ == "__main__":
    print(anyio.run(run_apart, problem_within, "a.py", b"x = 1", 30))
"""


def test_modules_of_the_folder_it_was_started_in_are_not_imported(tmp_path: Path) -> None:
    folder, program = tmp_path / "repository", tmp_path / "installed" / "program.py"
    for place in (folder, program.parent):
        place.mkdir()
    program.write_text(PROGRAM, encoding="utf-8")
    for module in ("anyio", "glob", "json", "pickle"):
        (folder / f"{module}.py").write_text("open('imported', 'w').close()", encoding="utf-8")
    env = {"PATH": os.defpath, "PYTHONPATH": str(Path(orchestrator.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, env=env, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("None\n", "")
    assert not (folder / "imported").exists()
