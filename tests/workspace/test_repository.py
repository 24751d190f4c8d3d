"""The user's repository: what is found in it, what is refused, and that nothing else is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import ExitCode, InfrastructureError, RepositoryError
from orchestrator.workspace.hub import Hub
from orchestrator.workspace.repository import Repository
from tests.support.repositories import (
    commit_files,
    fingerprint,
    git,
    git_succeeds,
    make_repository,
    shared_folder,
)


@pytest.mark.asyncio
async def test_what_is_known_of_a_plain_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "shop.git" / "shop", {"a": "1"}, branch="trunk")
    repository = await Repository.open(top)
    assert repository.common_dir == top / ".git"
    assert repository.top == top
    assert repository.name == "shop"
    assert repository.object_format == "sha1"
    assert repository.head_branch == "trunk"
    assert not repository.shallow


@pytest.mark.asyncio
async def test_T05_a_subfolder_finds_its_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a/b/c": "1"})
    repository = await Repository.open(top / "a" / "b")
    assert repository.top == top
    assert await repository.resolve("HEAD") == git(top, "rev-parse", "HEAD")


@pytest.mark.asyncio
async def test_T05_W12_a_linked_worktree_is_the_callers_own_tree(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(top, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "linked"))
    ahead = commit_files(tmp_path / "linked", {"a": "2"})
    repository = await Repository.open(tmp_path / "linked")
    assert repository.common_dir == top / ".git"
    assert repository.top == tmp_path / "linked"
    assert repository.name == "r"
    assert repository.head_branch == "feature"
    assert await repository.resolve("HEAD") == ahead


@pytest.mark.asyncio
async def test_W32_a_bare_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(tmp_path, "clone", "-q", "--bare", str(top), "bare.git")
    repository = await Repository.open(tmp_path / "bare.git")
    assert repository.top is None
    assert repository.name == "bare"
    assert await repository.resolve("HEAD") == git(top, "rev-parse", "HEAD")


@pytest.mark.asyncio
async def test_W32_a_detached_head(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(top, "checkout", "-q", "--detach")
    repository = await Repository.open(top)
    assert repository.head_branch is None
    assert await repository.resolve("HEAD") == git(top, "rev-parse", "main")


@pytest.mark.asyncio
async def test_a_sha256_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"}, object_format="sha256")
    repository = await Repository.open(top)
    assert repository.object_format == "sha256"
    assert len(await repository.resolve("HEAD")) == 64


@pytest.mark.asyncio
async def test_a_shallow_clone_is_known_as_one(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    commit_files(top, {"a": "2"})
    git(tmp_path, "clone", "-q", "--depth=1", top.as_uri(), "clone")
    assert (await Repository.open(tmp_path / "clone")).shallow


@pytest.mark.asyncio
@pytest.mark.parametrize("revision", ["nope", "", "--output=x", "HEAD:a", "a\0b", "x" * 5000])
async def test_an_unknown_revision_is_one_line(tmp_path: Path, revision: str) -> None:
    repository = await Repository.open(make_repository(tmp_path / "r", {"a": "1"}))
    with pytest.raises(RepositoryError) as caught:
        await repository.resolve(revision)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert sorted(os.listdir(tmp_path / "r")) == [".git", "a"]


@pytest.mark.asyncio
async def test_a_tag_resolves_to_its_commit(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(top, "tag", "-a", "-m", "x", "v1")
    assert await (await Repository.open(top)).resolve("v1") == git(top, "rev-parse", "HEAD")


async def refusal(path: Path) -> str:
    with pytest.raises(RepositoryError) as caught:
        await Repository.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.asyncio
async def test_no_repository(tmp_path: Path) -> None:
    assert "not in a git repository" in await refusal(tmp_path)


@pytest.mark.asyncio
async def test_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in await refusal(tmp_path / "nowhere")


@pytest.mark.asyncio
async def test_W27_no_commits(tmp_path: Path) -> None:
    assert "make a first commit" in await refusal(make_repository(tmp_path / "r"))


@pytest.mark.asyncio
async def test_a_branch_called_orchestrate_is_in_the_way(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(top, "branch", "orchestrate")
    assert "git branch -m orchestrate" in await refusal(top)


@pytest.mark.asyncio
async def test_a_partial_clone(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    git(top, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", top.as_uri(), "clone")
    assert "partial clone" in await refusal(tmp_path / "clone")


@pytest.mark.asyncio
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's repository")
async def test_W30_another_users_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    subprocess.run(["chown", "-R", "65534", top], check=True)
    assert "safe.directory" in await refusal(top)


@pytest.mark.asyncio
async def test_the_branch_is_created_moved_and_deleted(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    first = git(top, "rev-parse", "HEAD")
    second = commit_files(top, {"a": "2"})
    repository = await Repository.open(top)
    assert await repository.branch("r1") is None
    for _ in range(2):  # a second time, as after a crash, changes nothing
        await repository.create_branch("r1", first)
        assert git(top, "rev-parse", "orchestrate/r1") == first
    for _ in range(2):
        await repository.move_branch("r1", first, second)
        assert await repository.branch("r1") == git(top, "rev-parse", "orchestrate/r1") == second
    for _ in range(2):
        await repository.delete_branch("r1", second)
        assert not git_succeeds(top, "rev-parse", "--verify", "refs/heads/orchestrate/r1")


@pytest.mark.asyncio
async def test_a_branch_that_somebody_moved_is_left_alone(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    first = git(top, "rev-parse", "HEAD")
    second = commit_files(top, {"a": "2"})
    git(top, "branch", "orchestrate/r1", second)
    repository = await Repository.open(top)
    with pytest.raises(RepositoryError, match="rename or delete"):
        await repository.create_branch("r1", first)
    third = commit_files(top, {"a": "3"})
    with pytest.raises(RepositoryError, match="rename or delete"):
        await repository.move_branch("r1", first, third)
    with pytest.raises(RepositoryError, match="rename or delete"):
        await repository.delete_branch("r1", first)
    assert git(top, "rev-parse", "orchestrate/r1") == second


@pytest.mark.asyncio
async def test_a_lock_in_the_way_is_named(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    repository = await Repository.open(top)
    folder = top / ".git" / "refs" / "heads" / "orchestrate"
    folder.mkdir()
    (folder / "r1.lock").touch()
    with pytest.raises(RepositoryError, match=r"cannot be written.*"):
        await repository.create_branch("r1", git(top, "rev-parse", "HEAD"))


@pytest.mark.asyncio
@pytest.mark.parametrize("run", ["", "../x", "a b", "x.lock", "-x", "a/b"])
async def test_a_run_cannot_name_another_ref(tmp_path: Path, run: str) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    repository = await Repository.open(top)
    with pytest.raises(InfrastructureError):
        await repository.create_branch(run, git(top, "rev-parse", "HEAD"))


def hostile_settings(top: Path, marker: Path) -> None:
    """Everything a user may have set that must neither run nor matter."""
    hook = f"#!/bin/sh\ntouch {marker}\nexit 1\n"
    for name in ("reference-transaction", "post-checkout", "pre-commit", "post-index-change"):
        path = top / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(hook, encoding="utf-8")
        path.chmod(0o755)
    git(top, "config", "commit.gpgsign", "true")
    git(top, "config", "gpg.program", f"{top}/.git/hooks/pre-commit")
    git(top, "config", "core.fsmonitor", f"{top}/.git/hooks/pre-commit")
    git(top, "config", "user.useConfigOnly", "true")


@pytest.mark.asyncio
async def test_W15_W16_W25_W29_nothing_but_the_branch_is_written(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"a": "1\n", "b": "1\n"})
    (top / "a").write_text("stashed\n", encoding="utf-8")
    git(top, "stash")
    (top / "a").write_text("staged\n", encoding="utf-8")
    git(top, "add", "a")
    (top / "b").write_text("unstaged\n", encoding="utf-8")
    (top / "new").write_text("untracked\n", encoding="utf-8")
    hostile_settings(top, tmp_path / "marker")
    base = git(top, "rev-parse", "HEAD")
    before = fingerprint(top)

    repository = await Repository.open(top)
    await repository.create_branch("r1", base)
    after_create = fingerprint(top)
    branch = ".git/refs/heads/orchestrate/r1"
    assert set(after_create) - set(before) == {branch, ".git/logs/refs/heads/orchestrate/r1"}
    assert {path: after_create[path] for path in before} == before
    await repository.delete_branch("r1", base)
    assert fingerprint(top) == before
    assert not (tmp_path / "marker").exists()


@pytest.mark.asyncio
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write as another user")
async def test_root_writes_as_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    with shared_folder() as place:
        top = make_repository(place / "r", {"a": "1"})
        subprocess.run(["chown", "-R", "65534:65534", top], check=True)
        config = place / "config"
        config.write_text(f"[safe]\n\tdirectory = {top}\n", encoding="utf-8")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        repository = await Repository.open(top)
        hub = await Hub.open(place / "hub.git", repository)
        base = await repository.resolve("HEAD")
        commit = await hub.commit(await hub.tree_of(base), (base,), message="m", date=1)
        await hub.send(repository, commit)
        await repository.create_branch("r1", commit)
        owners = {path.lstat().st_uid for path in top.rglob("*")}
        assert owners == {65534}
        assert (top / ".git" / "refs" / "heads" / "orchestrate" / "r1").exists()
        assert len(list((top / ".git" / "objects" / "pack").glob("*.pack"))) == 1


@pytest.mark.asyncio
async def test_inherited_git_variables_have_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make_repository(tmp_path / "r", {"a": "1"})
    other = make_repository(tmp_path / "other", {"b": "2"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    repository = await Repository.open(top)
    assert repository.common_dir == top / ".git"


def test_M16_an_old_or_missing_git_is_one_line(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    script = (
        "import anyio\n"
        "from orchestrator.errors import RepositoryError\n"
        "from orchestrator.workspace.git import require_git\n"
        "try:\n"
        "    anyio.run(require_git)\n"
        "except RepositoryError as error:\n"
        "    print(error)\n"
    )
    root = Path(__file__).parents[2]

    def says() -> str:
        env = {"PATH": str(fake.parent), "PYTHONPATH": str(root)}
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True)
        return done.stdout.decode() + done.stderr.decode()

    assert says() == "git: not found on PATH; install git 2.38 or newer\n"
    sh = shutil.which("sh")
    fake.write_text(f"#!{sh}\necho git version 2.34.1\n", encoding="utf-8")
    fake.chmod(0o755)
    assert "2.34.1, but 2.38 or newer" in says()


@pytest.mark.asyncio
async def test_files_that_a_commit_does_not_have_are_named(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "r", {"docs/a.md": "1", "b": "2"})
    repository = await Repository.open(top)
    base = await repository.resolve("HEAD")
    (top / "untracked").write_text("3", encoding="utf-8")
    asked = ["b", "docs", "docs/a.md", "../b", "untracked", "docs"]
    assert await repository.missing(base, asked) == ("docs", "../b", "untracked")
    assert await repository.missing(base, []) == ()


@pytest.mark.asyncio
async def test_a_repository_whose_real_path_is_no_text_is_refused(tmp_path: Path) -> None:
    odd = tmp_path / "r\udcff"
    make_repository(odd, {"a": "1"})
    (tmp_path / "plain").symlink_to(odd)
    for path in (odd, tmp_path / "plain"):
        with pytest.raises(RepositoryError, match="not UTF-8; rename the folder"):
            await Repository.open(path)
