"""What a run was started with: kept in one file that is replaced whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.answers import Source
from orchestrator.cli.session_file import SESSION_FILE, Session
from orchestrator.core.plan import Plan
from orchestrator.errors import RepositoryError
from orchestrator.state_folder import RunFolder


def session(script: str) -> Session:
    return Session(
        repository="/r",
        plan=Plan(),
        roles=(),
        base="b" * 40,
        base_branch=None,
        source=Source(script=script, script_name="s.yaml"),
    )


@pytest.mark.asyncio
async def test_what_is_saved_comes_back_and_the_newest_counts(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for script in ("first", "second"):
        await session(script).save(folder)
        assert await Session.load(folder) == session(script)


@pytest.mark.asyncio
async def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    await session("first").save(folder)
    (tmp_path / SESSION_FILE).with_suffix(".part").mkdir()
    with pytest.raises(OSError, match="directory"):
        await session("second").save(folder)
    assert await Session.load(folder) == session("first")


@pytest.mark.asyncio
async def test_a_damaged_one_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / SESSION_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(RepositoryError, match="cannot be read, so this run cannot go on"):
        await Session.load(RunFolder(tmp_path))


@pytest.mark.asyncio
async def test_the_first_releases_form_is_still_read(tmp_path: Path) -> None:
    now = session("tasks: {}").model_dump(mode="json", by_alias=True)
    source = now.pop("source")
    first = {**now, "script": source["script"], "script_name": source["script_name"]}
    first.pop("plan_only")
    (tmp_path / SESSION_FILE).write_text(json.dumps(first), encoding="utf-8")
    assert await Session.load(RunFolder(tmp_path)) == session("tasks: {}")
