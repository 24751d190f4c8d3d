"""What a user installs: the wheel that is built from the source distribution.

Needs a package index and a minute, so the default run leaves it out: `pytest -m packaging`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
SHIPPED_FOLDERS = ("roles", "plans", "examples")


def run(argv: list[str | Path], cwd: Path) -> str:
    """Run a command that must succeed, without this process's Python settings; its stdout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Distribution:
    """The built archives and the names of the files in them."""

    wheel: Path
    wheel_files: frozenset[str]
    sdist_files: frozenset[str]
    """Without the archive's top folder."""


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], cwd=out)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wheel_files = frozenset(archive.namelist())
    with tarfile.open(sdist) as tar:
        sdist_files = frozenset(name.partition("/")[2] for name in tar.getnames())
    return Distribution(wheel, wheel_files, sdist_files)


def shipped_files() -> set[str]:
    """Every file under the folders that travel, relative to the root."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in SHIPPED_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_both_archives_hold_every_role_plan_and_example(distribution: Distribution) -> None:
    files = shipped_files()
    assert {name.partition("/")[0] for name in files} == set(SHIPPED_FOLDERS)
    assert files - distribution.sdist_files == set()
    assert {f"orchestrator/_builtin/{name}" for name in files} - distribution.wheel_files == set()


def test_the_wheel_holds_the_program_its_types_and_licence_and_no_more(
    distribution: Distribution,
) -> None:
    names = distribution.wheel_files
    assert "orchestrator/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"orchestrator"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_installed_wheel_runs_the_demo_in_an_empty_folder(
    distribution: Distribution, tmp_path: Path
) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    run([home / "bin" / "pip", "install", "-q", distribution.wheel], cwd=tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    orchestrate = home / "bin" / "orchestrate"

    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert version in run([orchestrate, "version"], cwd=empty)
    assert "orchestrate/" in run([orchestrate, "demo"], cwd=empty)
    assert list(empty.iterdir()) == []
