"""Which rules files a task is shown: by folder, by front matter, each text once, within caps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent.rules import (
    GLOBS_MAX,
    MORE_MAX,
    RULES_CHARS,
    RULES_FILES_MAX,
    RULES_TOTAL_CHARS,
    Rules,
    choose,
    cursor_rule,
    reach,
    rules_files,
    wanted,
)

COPILOT = ".github/copilot-instructions.md"


def rule(body: str, *front: str) -> str:
    return "\n".join(["---", *front, "---", "", body, ""])


def rules_for(
    texts: Mapping[str, str],
    writes: Sequence[str] | None = None,
    context: Sequence[str] = (),
    more_files: Sequence[str] = (),
) -> Rules:
    """What a task is shown in a repository of these rules files and `more_files`."""
    tree = sorted([*texts, *more_files])
    about = reach(writes, context, tree)
    files = rules_files(tree)
    read = {path: texts[path] for path in wanted(files, about)}
    return choose(files, read, about)


def shown(rules: Rules) -> dict[str, str]:
    """Text by the files that it stands in, whole project first."""
    return {"+".join(item.paths): item.text.strip() for item in (*rules.project, *rules.nested)}


def test_the_root_is_shown_to_everybody_and_a_folder_to_those_who_work_there() -> None:
    texts = {"AGENTS.md": "root", "src/AGENTS.md": "src", "src/api/AGENTS.md": "api", "d/x": ""}
    files = ["src/api/v1/a.py", "src/web/b.py", "docs/c.md"]
    api = rules_for(texts, ["/src/api/v1/**"], more_files=files)
    assert [item.paths for item in api.project] == [("AGENTS.md",)]
    assert [item.paths[0] for item in api.nested] == ["src/AGENTS.md", "src/api/AGENTS.md"]
    assert api.nested[1].scope == "what lies beneath src/api/"
    web = rules_for(texts, ["src/web/b.py"], more_files=files)
    assert list(shown(web)) == ["AGENTS.md", "src/AGENTS.md"]
    assert list(shown(rules_for(texts, ["docs/*.md"], more_files=files))) == ["AGENTS.md"]
    by_context = rules_for(texts, ["docs/*.md"], ["src/api/v1/a.py"], files)
    assert list(shown(by_context)) == ["AGENTS.md", "src/AGENTS.md", "src/api/AGENTS.md"]


@pytest.mark.parametrize("pattern", ["src", "src/", "/src", "/src/**", "src/*.py", "src/[a-c].py"])
def test_a_pattern_lies_in_its_folder_however_it_is_written(pattern: str) -> None:
    texts = {"src/AGENTS.md": "src", "AGENTS.md": "root"}
    assert list(shown(rules_for(texts, [pattern], more_files=["src/a.py"]))) == [
        "AGENTS.md",
        "src/AGENTS.md",
    ]


@pytest.mark.parametrize("pattern", ["*.py", "README.md", "**/x.py", "!src/a.py"])
def test_a_pattern_for_any_folder_lies_in_none(pattern: str) -> None:
    texts = {"src/AGENTS.md": "src", "AGENTS.md": "root"}
    assert list(shown(rules_for(texts, [pattern], more_files=["src/a.py"]))) == ["AGENTS.md"]


def test_rules_that_may_matter_further_down_are_named() -> None:
    texts = {"AGENTS.md": "root", "src/api/CLAUDE.md": "api", "docs/AGENTS.md": "docs"}
    inside = rules_for(texts, ["src/**"], more_files=["src/a.py"])
    assert [(item.path, item.text) for item in inside.more] == [
        ("src/api/CLAUDE.md", "what lies beneath src/api/")
    ]
    everywhere = rules_for(texts)
    assert [item.path for item in everywhere.more] == ["docs/AGENTS.md", "src/api/CLAUDE.md"]
    assert list(shown(everywhere)) == ["AGENTS.md"]


def test_claude_md_counts_where_a_folder_has_no_agents_md() -> None:
    both = {"AGENTS.md": "agents", "CLAUDE.md": "claude", "a/CLAUDE.md": "in a"}
    assert shown(rules_for(both, ["a/x"])) == {"AGENTS.md": "agents", "a/CLAUDE.md": "in a"}
    assert shown(rules_for({"AGENTS.md": " \n", "CLAUDE.md": "claude"})) == {"CLAUDE.md": "claude"}
    named = rules_for({"b/AGENTS.md": "x", "b/CLAUDE.md": "y"})
    assert [item.path for item in named.more] == ["b/AGENTS.md"]


def test_imports_of_a_claude_md_are_not_followed() -> None:
    texts = {"CLAUDE.md": "See @docs/rules.md\n"}
    assert shown(rules_for(texts, more_files=["docs/rules.md"])) == {
        "CLAUDE.md": "See @docs/rules.md"
    }


def test_the_same_text_is_shown_once_with_all_its_files() -> None:
    texts = {
        "AGENTS.md": "be brief\n",
        COPILOT: "be brief",
        "a/AGENTS.md": "inner",
        "b/AGENTS.md": "inner\n\n",
        "c/AGENTS.md": "be brief",
    }
    rules = rules_for(texts, ["a/**", "b/**", "c/**"], more_files=["a/x", "b/x", "c/x"])
    assert shown(rules) == {f"AGENTS.md+{COPILOT}": "be brief", "a/AGENTS.md+b/AGENTS.md": "inner"}
    assert rules.nested[0].scope == "what lies beneath a/ and what lies beneath b/"


def test_cursor_rules_go_by_their_front_matter() -> None:
    texts = {
        ".cursor/rules/always.mdc": rule("Always.", "description: x", "alwaysApply: true"),
        ".cursor/rules/py.mdc": rule("Python.", "globs: *.py", "alwaysApply: false"),
        ".cursor/rules/ts.mdc": rule("TypeScript.", 'globs: ["web/**/*.{ts,tsx}", "*.mts"]'),
        ".cursor/rules/asked.mdc": rule("Asked.", "description: How to release", "globs:"),
        ".cursor/rules/bare.mdc": "Bare.",
        ".cursor/rules/empty.mdc": rule("", "alwaysApply: true"),
        "sub/.cursor/rules/inner.mdc": rule("Inner.", "alwaysApply: true"),
        COPILOT: "For Copilot.",
    }
    files = ["src/a.py", "web/x/b.tsx", "docs/c.md"]
    python = rules_for(texts, ["src/**"], more_files=files)
    assert shown(python) == {
        COPILOT: "For Copilot.",
        ".cursor/rules/always.mdc": "Always.",
        ".cursor/rules/py.mdc": "Python.",
    }
    assert [item.scope for item in python.nested] == ["files that match *.py"]
    assert {item.path: item.text for item in python.more} == {
        ".cursor/rules/asked.mdc": "How to release",
        ".cursor/rules/bare.mdc": "what its text says",
        ".cursor/rules/ts.mdc": "files that match web/**/*.{ts,tsx}, *.mts",
    }
    web = rules_for(texts, ["docs/**"], ["web/x/b.tsx"], files)
    assert [item.paths for item in web.nested] == [(".cursor/rules/ts.mdc",)]
    new_file = rules_for(texts, ["/new/tool.py"], more_files=files)
    assert [item.paths for item in new_file.nested] == [(".cursor/rules/py.mdc",)]


def test_cursor_globs_as_people_write_them() -> None:
    for front in (
        ("globs: *.ts,*.tsx",),
        ('globs: "*.ts, *.tsx"',),
        ("globs:", "  - '*.ts'", '  - "*.tsx"'),
        ("globs: ['*.ts', '*.tsx']",),
    ):
        assert cursor_rule(rule("x", *front)).globs == ("*.ts", "*.tsx"), front
    braces = cursor_rule(rule("x", "globs: web/*.{ts,{mts,cts}},*.js,}a,{b,c"))
    assert braces.globs == ("web/*.{ts,{mts,cts}}", "*.js", "}a", "{b,c")
    unclosed = cursor_rule("---\nglobs: *.ts\n")
    assert (unclosed.globs, unclosed.body) == ((), "---\nglobs: *.ts")
    hostile = cursor_rule(rule("x", "globs: " + "{a,b}" * 12))
    assert not hostile.meets(["a" * 12])
    # Quadratic, this would take hours.
    endless = cursor_rule(rule("x", "globs: " + "," * 2_000_000 + ",".join("abc" * GLOBS_MAX)))
    assert len(endless.globs) == GLOBS_MAX


def test_what_is_too_much_is_named_and_nobody_else_loses_room() -> None:
    long = "x" * (RULES_CHARS + 1_000)
    texts = {"AGENTS.md": long, COPILOT: long + "!", "a/AGENTS.md": "a", "a/b/AGENTS.md": "b"}
    rules = rules_for(texts, ["a/b/c"])
    assert RULES_TOTAL_CHARS == 2 * RULES_CHARS
    assert [item.paths[0] for item in rules.project] == ["AGENTS.md", COPILOT]
    assert rules.nested == ()
    assert {item.path for item in rules.more} == {"a/AGENTS.md", "a/b/AGENTS.md"}
    texts = {
        "AGENTS.md": "r",
        "a/AGENTS.md": long,
        "a/b/AGENTS.md": long + "1",
        "a/b/c/AGENTS.md": "n",
    }
    nearest = rules_for(texts, ["a/b/c/d"])
    assert list(shown(nearest)) == ["AGENTS.md", "a/b/AGENTS.md", "a/b/c/AGENTS.md"]
    assert [item.path for item in nearest.more] == ["a/AGENTS.md"]


def test_many_rules_files_stay_within_bounds() -> None:
    texts = {f"d{number:04}/AGENTS.md": "x" for number in range(RULES_FILES_MAX + 50)}
    files = rules_files(["deep/er/AGENTS.md", *texts, "AGENTS.md"])
    assert files[0] == "AGENTS.md"
    assert len(files) == RULES_FILES_MAX
    assert "deep/er/AGENTS.md" not in files
    assert len(rules_for(texts).more) == MORE_MAX


NAMES = st.text("abMD.*/!{}\\ \n", max_size=12)


@given(st.lists(NAMES, max_size=5), st.lists(NAMES, max_size=5), st.text(max_size=60))
def test_any_pattern_path_and_front_matter_is_taken(
    writes: list[str], paths: list[str], text: str
) -> None:
    texts = {f"{path}/AGENTS.md": text for path in paths} | {".cursor/rules/x.mdc": rule("b", text)}
    rules = rules_for(texts, writes, paths)
    assert len(rules.project) + len(rules.nested) <= len(texts)
