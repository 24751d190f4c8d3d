"""What every tool must do, whatever it is for: the promises of `ports.Tool`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from orchestrator.messages import ToolSpec
from orchestrator.ports import FileAccessError, Tool, ToolError, Workspace
from orchestrator.tools.registry import TOOLS, build_tools
from tests.support.repositories import Files, fingerprint
from tests.tools.trees import workspace_of

CAP = 20_000
"""Most characters of a result."""

FILES: Files = {
    "a.py": "x = 1\n",
    "flood.txt": "a line of text that goes on for a while\n" * 30_000,
    **{f"many/{number:04}-{'n' * 60}.txt": "x\n" for number in range(1_000)},
    "evil\x1b[2J.txt": "x \x1b]0;owned\x07\n",
}

GOOD: dict[str, tuple[Mapping[str, object], ...]] = {
    "Bash": ({"command": "cat flood.txt"}, {"command": "cat evil*; ls"}),
    "Edit": ({"file_path": "a.py", "old_string": "1", "new_string": "2"},),
    "Glob": ({"pattern": "*"}, {"pattern": "evil*"}),
    "Grep": (
        {"pattern": "a line", "output_mode": "content", "head_limit": 1_000_000},
        {"pattern": "x", "output_mode": "content", "glob": "evil*"},
        {"pattern": "x", "head_limit": 1_000_000},
    ),
    "Read": ({"file_path": "flood.txt"}, {"file_path": "evil\x1b[2J.txt"}),
    "TodoWrite": ({"todos": [{"content": "\x1b[2J" + "c" * 100, "status": "completed"}] * 100},),
    "Write": ({"file_path": "new.py", "content": "x = (\n" + "\x07" * 10},),
}
"""Calls of each tool that succeed."""

HOSTILE: tuple[Mapping[str, object], ...] = (
    {},
    {"no_such_argument": 1},
    {"file_path": 7, "command": None, "pattern": [], "todos": "all"},
    {"file_path": "", "command": "", "pattern": "", "todos": None},
    {"file_path": "a\0", "command": "a\0", "pattern": "x" * 1_000_000, "todos": [1] * 1_000},
)
"""Arguments that fit no tool."""

OUTSIDE = ("../../outside.txt", "/etc/hostname", ".git/config", "many/../../outside.txt")


@pytest.fixture(params=sorted(TOOLS))
def tool(request: pytest.FixtureRequest) -> Tool:
    [built] = build_tools([request.param])
    return built


@pytest.mark.asyncio
async def test_its_description_is_whole_and_stable(tool: Tool) -> None:
    spec = tool.spec
    assert spec == build_tools([spec.name])[0].spec
    assert ToolSpec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.description
    assert spec.input_schema["type"] == "object"
    assert spec.input_schema["additionalProperties"] is False
    assert set(spec.input_schema.get("required", ())) <= set(spec.input_schema["properties"])


@pytest.mark.asyncio
async def test_results_are_capped_and_harmless(tool: Tool, tmp_path: Path) -> None:
    async with workspace_of(tmp_path, FILES) as workspace:
        for args in GOOD[tool.spec.name]:
            answer = await tool(args, workspace)
            assert 0 < len(answer) <= CAP
            assert not {char for char in answer if ord(char) < 32} - {"\t", "\n"}
            answer.encode()


@pytest.mark.asyncio
async def test_what_it_calls_read_only_leaves_the_tree_alone(tool: Tool, tmp_path: Path) -> None:
    async with workspace_of(tmp_path, FILES) as workspace:
        before = fingerprint(Path(workspace.location))
        for args in GOOD[tool.spec.name]:
            await tool(args, workspace)
        unchanged = fingerprint(Path(workspace.location)) == before
    assert unchanged or not tool.spec.read_only


@pytest.mark.asyncio
async def test_arguments_that_do_not_fit_are_errors_that_name_the_right_ones(
    tool: Tool, tmp_path: Path
) -> None:
    async with workspace_of(tmp_path, {"a.py": "x = 1\n"}) as workspace:
        before = fingerprint(tmp_path)
        for args in HOSTILE:
            with pytest.raises(ToolError) as caught:
                await tool(args, workspace)
            text = str(caught.value)
            assert text.endswith(f"{', '.join(tool.spec.input_schema['properties'])}.")
            assert len(text) < 3_000
        assert fingerprint(tmp_path) == before


@pytest.mark.asyncio
async def test_a_path_outside_is_an_error_and_nothing_is_touched(
    tool: Tool, tmp_path: Path
) -> None:
    wanted = next((name for name in ("file_path", "path") if name in _arguments(tool)), None)
    if wanted is None:
        pytest.skip(f"{tool.spec.name} takes no path")
    more = {"old_string": "x", "new_string": "y", "content": "y", "pattern": "x"}
    (tmp_path / "outside.txt").write_text("x\n", encoding="utf-8")
    async with workspace_of(tmp_path, {"a.py": "x = 1\n"}) as workspace:
        before = fingerprint(tmp_path)
        for path in OUTSIDE:
            args = {name: text for name, text in more.items() if name in _arguments(tool)}
            if tool.spec.name == "Glob":
                assert await _answer(tool, {**args, wanted: path}, workspace) != "a.py"
            else:
                with pytest.raises((ToolError, FileAccessError)):
                    await tool({**args, wanted: path}, workspace)
        assert fingerprint(tmp_path) == before


@pytest.mark.asyncio
async def test_it_can_be_cancelled(tool: Tool, tmp_path: Path) -> None:
    async with workspace_of(tmp_path, FILES) as workspace:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tool(GOOD[tool.spec.name][0], workspace)
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught


def _arguments(tool: Tool) -> Mapping[str, object]:
    properties: Mapping[str, object] = tool.spec.input_schema["properties"]
    return properties


async def _answer(tool: Tool, args: Mapping[str, object], workspace: Workspace) -> str:
    """The answer, or the error's text."""
    try:
        return await tool(args, workspace)
    except ToolError as error:
        return str(error)
