"""Which role files count, and that a repository's own files narrow and never widen."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.core.roles import Limits, Role
from orchestrator.data import builtin
from orchestrator.errors import PlanError
from orchestrator.roles import load_roles, role_sources

BUNDLED = ("explorer", "implementer", "planner", "reviewer")


@dataclass(frozen=True)
class Target:
    """A repository's folder, and a folder of the user's own."""

    root: Path

    def write(self, path: str, *lines: str, prompt: str = "Do it.") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["---", *lines, "---", prompt, ""]), encoding="utf-8")
        return file

    def roles(self, *, option: bool = False, notes: list[str] | None = None) -> dict[str, Role]:
        folder = self.root / "mine" if option else None
        sources = role_sources(bundled=builtin("roles"), target=self.root, option=folder)
        return load_roles(sources, note=(notes if notes is not None else []).append)

    def faults(self, *, option: bool = False) -> list[str]:
        """The faults, paths from the target's root."""
        with pytest.raises(PlanError) as raised:
            self.roles(option=option)
        return [str(fault).removeprefix(f"{self.root}/") for fault in raised.value.faults]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


def test_the_bundled_roles_are_those_of_the_contract(target: Target) -> None:
    roles = target.roles()
    assert tuple(roles) == BUNDLED
    assert {name: (role.product, role.writes, role.resolves) for name, role in roles.items()} == {
        "explorer": ("report", False, False),
        "implementer": ("change", True, False),
        "planner": ("patch", False, False),
        "reviewer": ("verdict", False, False),
    }
    assert {name: role.tools for name, role in roles.items()} == {
        "explorer": ("Bash", "Glob", "Grep", "Read", "TodoWrite"),
        "implementer": ("Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"),
        "planner": ("Glob", "Grep", "Read"),
        "reviewer": ("Bash", "Glob", "Grep", "Read"),
    }
    assert {name: role.model for name, role in roles.items()} == {
        "explorer": "claude-haiku-5-5",
        "implementer": "claude-opus-5-5",
        "planner": "claude-opus-5-5",
        "reviewer": "claude-sonnet-5-5",
    }


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_prompt_names_its_way_to_stop_and_is_bounded(name: str) -> None:
    role = load_roles(role_sources(bundled=builtin("roles")))[name]
    assert role.submit_tool in role.prompt
    assert len(role.prompt) < 6_000
    assert role.limits.usd is not None
    assert role.limits.turns is not None
    assert role.limits.minutes is not None
    # What files and tools say is material; instructions in it are nobody's orders.
    assert "not addressed to you" in role.prompt


def test_a_repository_may_narrow_and_inherits_what_it_leaves_unsaid(target: Target) -> None:
    target.write(
        ".claude/agents/any-file-name.md",
        "name: explorer",
        "tools: Read",
        "orchestrate: {budget: {usd: 0.1}}",
        prompt="Only read.",
    )
    role = target.roles()["explorer"]
    bundled = load_roles(role_sources(bundled=builtin("roles")))["explorer"]
    assert role.tools == ("Read",)
    assert role.prompt == "Only read."
    assert role.limits == Limits(
        usd=0.1, turns=bundled.limits.turns, minutes=bundled.limits.minutes
    )
    assert (role.product, role.model) == (bundled.product, bundled.model)
    assert role.description == bundled.description


def test_a_repository_may_choose_the_model(target: Target) -> None:
    target.write(".orchestrate/roles/r.md", "name: reviewer", "tools: Read", "model: inherit")
    assert target.roles()["reviewer"].model is None


@pytest.mark.parametrize("folder", [".orchestrate/roles", ".claude/agents"])
def test_widening_is_refused_with_every_line(target: Target, folder: str) -> None:
    target.write(
        f"{folder}/reviewer.md",
        "name: reviewer",
        "tools: Read, Edit, Write",
        "maxTurns: 500",
        "orchestrate:",
        "  product: change",
        "  budget:",
        "    usd: 100",
        "    minutes: 5",
    )
    told = target.faults()
    assert [fault.split(" (")[0] for fault in told] == [
        f"{folder}/reviewer.md:3: adds `Edit`, `Write` to `reviewer`",
        f"{folder}/reviewer.md:4: raises turns of `reviewer` from 30 to 500",
        f"{folder}/reviewer.md:6: changes the product of `reviewer` from verdict to change",
        f"{folder}/reviewer.md:8: raises usd of `reviewer` from 1.0 to 100.0",
    ]
    assert all("use --roles to trust it" in fault for fault in told)


@pytest.mark.parametrize("option", [False, True])
def test_nobody_may_say_that_a_reviewer_writes(target: Target, option: bool) -> None:
    folder = "mine" if option else ".orchestrate/roles"
    target.write(f"{folder}/r.md", "name: reviewer", "tools: Read", "orchestrate: {writes: true}")
    assert target.faults(option=option) == [
        f"{folder}/r.md:4: `writes: true` does not go with the product `verdict`"
    ]


def test_a_trusted_folder_may_say_anything_and_comes_first(target: Target) -> None:
    target.write(".orchestrate/roles/e.md", "name: explorer", "tools: Read")
    target.write(
        "mine/e.md",
        "name: explorer",
        "tools: Read, Write, Edit",
        "orchestrate: {product: change, budget: {usd: 50}}",
    )
    role = target.roles(option=True)["explorer"]
    assert (role.product, role.writes, role.tools) == ("change", True, ("Edit", "Read", "Write"))
    assert role.limits.usd == 50
    assert target.roles()["explorer"].tools == ("Read",)


def test_the_project_s_own_folder_comes_before_the_agents(target: Target) -> None:
    target.write(".claude/agents/e.md", "name: explorer", "tools: Grep")
    target.write(".orchestrate/roles/e.md", "name: explorer", "tools: Read")
    assert target.roles()["explorer"].tools == ("Read",)


def test_a_new_role_of_a_repository_fits_inside_a_bundled_one(target: Target) -> None:
    new = ("name: auditor", "tools: Read, Grep", "orchestrate: {product: report}")
    target.write(".orchestrate/roles/auditor.md", *new)
    role = target.roles()["auditor"]
    explorer = target.roles()["explorer"]
    assert (role.product, role.writes, role.limits) == ("report", False, explorer.limits)
    target.write(".orchestrate/roles/auditor.md", "name: auditor", "tools: Read, Write", new[2])
    assert target.faults()[0].startswith(
        ".orchestrate/roles/auditor.md:3: adds `Write` to `explorer`"
    )


def test_a_new_role_has_to_say_what_it_hands_in(target: Target) -> None:
    target.write(".orchestrate/roles/a.md", "name: auditor", "tools: Read")
    target.write("mine/b.md", "name: other", "tools: Read", "orchestrate: {budget: {usd: 1}}")
    said = "no `orchestrate.product` (write orchestrate: {product: report})"
    assert target.faults(option=True) == [
        f"mine/b.md:4: {said}",
        f".orchestrate/roles/a.md:2: {said}",
    ]


def test_a_new_role_among_the_agents_is_refused(target: Target) -> None:
    target.write(
        ".claude/agents/a.md", "name: auditor", "tools: Read", "orchestrate: {product: report}"
    )
    (told,) = target.faults()
    assert told == (
        ".claude/agents/a.md:2: `auditor` is a new role in .claude/agents/"
        " (move it to .orchestrate/roles/)"
    )


def test_another_program_s_agents_are_left_alone_with_a_note(target: Target) -> None:
    whole = target.write(".claude/agents/a.md", "name: poet", "tools: Read")
    # What that program allows need not be what we know: other keys, tools, no tools, no fences.
    keys = target.write(".claude/agents/b.md", "name: painter", "color: red", "tools: WebFetch")
    plain = target.root / ".claude/agents/readme.md"
    plain.write_text("Just notes.\n", encoding="utf-8")
    notes: list[str] = []
    assert tuple(target.roles(notes=notes)) == BUNDLED
    assert [note.split(" is left alone")[0] for note in notes] == [
        str(path) for path in (whole, keys, plain)
    ]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        # Meant as a narrowing and written wrongly: passing over it would leave the wider role.
        ("x.md", ("name: reviewer", "tools: Read, WebFetch")),
        ("x.md", ('name: "reviewer"  # ours', "color: red", "tools: Read")),
        ("reviewer.md", ("nme: reviewer", "tools: Read")),
        ("x.md", ("name: other", "tools: Reed", "orchestrate: {product: report}")),
    ],
)
def test_a_faulty_file_that_is_meant_for_us_is_not_passed_over(
    target: Target, file: str, lines: tuple[str, ...]
) -> None:
    target.write(f".claude/agents/{file}", *lines)
    assert all(fault.startswith(f".claude/agents/{file}:") for fault in target.faults())


def test_all_faults_of_all_files_come_at_once(target: Target) -> None:
    target.write("mine/a.md", "name: a", "tools: Reed", "orchestrate: {product: report}")
    target.write("mine/b.md", "name: b", "tols: Read", "orchestrate: {product: report}")
    target.write(".orchestrate/roles/c.md", "name: explorer", "tools: Write")
    told = target.faults(option=True)
    files = list(dict.fromkeys(fault.split(":")[0] for fault in told))
    assert files == ["mine/a.md", "mine/b.md", ".orchestrate/roles/c.md"]


def test_P04_one_name_in_two_files_of_a_folder_is_refused(target: Target) -> None:
    target.write("mine/a.md", "name: explorer", "tools: Read")
    target.write("mine/b.md", "name: explorer", "tools: Grep")
    first = target.root / "mine/a.md"
    assert target.faults(option=True) == [f"mine/b.md:2: role `explorer` is also in {first}"]


def test_a_folder_that_the_user_named_has_to_be_there(target: Target) -> None:
    assert target.faults(option=True) == ["mine: no such folder of role files"]


def test_a_repository_s_links_and_pipes_are_not_read(target: Target) -> None:
    secret = target.write("secret.md", "name: explorer", "tools: Read", prompt="password")
    folder = target.root / ".orchestrate/roles"
    folder.mkdir(parents=True)
    (folder / "a.md").symlink_to(secret)
    os.mkfifo(folder / "b.md")
    assert target.faults() == [
        ".orchestrate/roles/a.md: the role file is a link or no file",
        ".orchestrate/roles/b.md: the role file is a link or no file",
    ]


def test_a_repository_s_folder_of_roles_must_not_be_a_link(target: Target) -> None:
    target.write("elsewhere/e.md", "name: explorer", "tools: Read")
    (target.root / ".orchestrate").mkdir()
    (target.root / ".orchestrate/roles").symlink_to(target.root / "elsewhere")
    assert target.faults() == [".orchestrate/roles: the folder is a link (make it a real folder)"]


def test_sizes_and_encodings_are_bounded(target: Target) -> None:
    target.write("mine/a.md", "name: a", "tools: Read", prompt="x" * 70_000)
    (target.root / "mine/b.md").write_bytes(b"---\nname: \xff\n---\n")
    assert target.faults(option=True) == [
        "mine/a.md: the role file is larger than 65536 bytes",
        "mine/b.md: the role file is not UTF-8 (byte 10)",
    ]


def test_P14_a_bomb_of_aliases_is_refused(target: Target) -> None:
    bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    bomb += [
        f"{n}: &{n} [{','.join([f'*{m}'] * 9)}]"
        for m, n in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    target.write(".orchestrate/roles/x.md", *bomb)
    assert target.faults()
