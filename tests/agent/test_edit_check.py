"""The task's cheap check: run after a turn that edited, told with the last edit, no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.plan import Task
from tests.agent.examples import ListModel, reply, use
from tests.agent.rig import results, rig

SUBMIT = use("SubmitChange", summary="done")
CHECKED = Task(
    id="t", role="implementer", prompt="x", check="grep -q good a.txt || { cat a.txt; false; }"
)


@pytest.mark.asyncio
async def test_a_failed_check_is_told_with_the_edit_and_a_passed_one_in_a_line(
    tmp_path: Path,
) -> None:
    model = ListModel(
        [
            reply(use("Edit", file_path="a.txt", old_string="two", new_string="bad")),
            reply(use("Edit", file_path="a.txt", old_string="bad", new_string="good")),
            reply(SUBMIT),
        ]
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, task=CHECKED)
    assert ended.accepted
    first, second = (results(request.messages[-1])[0] for request in model.requests[1:])
    assert "[check: failed with exit status 1]\none\nbad" in first.content
    assert second.content.endswith("[check: passed]")
    assert not first.is_error, "the edit itself was made"


@pytest.mark.asyncio
async def test_a_turn_of_several_edits_is_checked_once_and_reads_and_commands_not_at_all(
    tmp_path: Path,
) -> None:
    counting = Task(id="t", role="implementer", prompt="x", check="echo run >> count")
    model = ListModel(
        [
            reply(use("Read", file_path="a.txt"), use("Bash", command="true")),
            reply(
                use("Edit", "e1", file_path="a.txt", old_string="one", new_string="1"),
                use("Edit", "e2", file_path="a.txt", old_string="two", new_string="2"),
            ),
            reply(SUBMIT),
        ]
    )
    async with rig(tmp_path) as attempt:
        await attempt.run(model, task=counting)
        assert await attempt.content("count") == "run\n"
    said = [block.content for block in results(model.requests[2].messages[-1])]
    assert ["[check:" in text for text in said] == [False, True]


@pytest.mark.asyncio
async def test_a_failed_edit_is_not_checked(tmp_path: Path) -> None:
    model = ListModel(
        [
            reply(use("Edit", file_path="a.txt", old_string="nowhere", new_string="1")),
            reply(SUBMIT),
        ]
    )
    async with rig(tmp_path) as attempt:
        await attempt.run(model, task=CHECKED)
    (only,) = results(model.requests[1].messages[-1])
    assert only.is_error
    assert "[check:" not in only.content
