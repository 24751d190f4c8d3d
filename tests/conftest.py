"""What every test stands on: an environment that is the same on every machine.

Not a library of helpers: those live beside the tests that use them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Found by search, not by luck: the same examples on every machine, no clock, no files left behind.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("suite")

_LEAKS = ("ANTHROPIC_", "GIT_", "GITHUB_", "GITLAB_", "ORCHESTRATE_")
"""Variables that would make a test depend on who runs it, by their first letters."""

_SWITCHES = ("CI", "COLUMNS", "FORCE_COLOR", "NO_COLOR")
"""The same, by their whole name."""

_GIT_CONFIG = """\
[user]
    name = Test User
    email = test@example.invalid
[init]
    defaultBranch = main
"""


@pytest.fixture(scope="session", autouse=True)
def hermetic_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Hide the caller's settings; git sees a plain user, state goes to a temporary folder.

    Yields the folder that stands for ORCHESTRATE_HOME.
    """
    place = tmp_path_factory.mktemp("environment")
    git_config = place / "gitconfig"
    git_config.write_text(_GIT_CONFIG, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(_LEAKS) or name in _SWITCHES:
                patch.delenv(name)
        patch.setenv("GIT_CONFIG_GLOBAL", str(git_config))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("ORCHESTRATE_HOME", str(place / "home"))
        patch.setenv("TERM", "dumb")
        yield place / "home"
