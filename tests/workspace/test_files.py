"""File access beneath a root: nothing leads out, whatever was planted there."""

from __future__ import annotations

import itertools
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ports import FileAccessError
from orchestrator.workspace.files import TreeFiles
from orchestrator.workspace.names import is_git_name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`wt-1` with a file, beside `wt-10` and a secret."""
    root = tmp_path / "wt-1"
    (root / "d").mkdir(parents=True)
    (root / "d" / "f").write_bytes(b"inside")
    (tmp_path / "wt-10").mkdir()
    (tmp_path / "wt-10" / "secret").write_bytes(b"secret")
    return root


def access(root: Path) -> TreeFiles:
    return TreeFiles(root, str(root))


def assert_refused(root: Path, path: str, *words: str) -> None:
    """Both directions refuse `path`, nothing outside changes, the message helps."""
    outside = root.parent / "wt-10" / "secret"
    for attempt in (
        lambda: access(root).read(path, bytes_max=100),
        lambda: access(root).write(path, b"overwritten"),
    ):
        with pytest.raises(FileAccessError) as caught:
            attempt()
        assert all(word in str(caught.value) for word in words), str(caught.value)
    assert outside.read_bytes() == b"secret"
    assert sorted(os.listdir(root.parent)) == ["wt-1", "wt-10"]


def test_A06_dots(root: Path) -> None:
    assert_refused(root, "../wt-10/secret", "..")
    assert_refused(root, "d/../../wt-10/secret", "..")


def test_A06_absolute(root: Path) -> None:
    assert_refused(root, str(root.parent / "wt-10" / "secret"), "outside")
    assert_refused(root, "/etc/passwd", "outside")


def test_A06_a_prefix_of_the_name_is_not_the_root(root: Path) -> None:
    assert_refused(root, f"{root}0/secret", "outside")


def test_A06_a_linked_folder(root: Path) -> None:
    (root / "link").symlink_to("../wt-10")
    assert_refused(root, "link/secret", "a link to ../wt-10")


def test_A06_a_dangling_link(root: Path) -> None:
    (root / "link").symlink_to("../made")
    assert_refused(root, "link", "a link to ../made")


def test_A06_a_link_swapped_in_after_the_check(root: Path) -> None:
    stop = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with suppress(OSError):  # folder or link: a write may have made either anew
                os.rename(root / "d", root / f"old-{number}")
            with suppress(OSError):
                os.symlink("../wt-10", root / "d")
            with suppress(OSError):
                os.unlink(root / "d")
            with suppress(OSError):
                os.mkdir(root / "d")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(1500):
            for name in ("d/secret", "d/f"):
                try:
                    assert access(root).read(name, bytes_max=100) != b"secret"
                    access(root).write(name, b"x")
                except FileAccessError:
                    pass
    finally:
        stop.set()
        thread.join()
    assert sorted(os.listdir(root.parent / "wt-10")) == ["secret"]
    assert (root.parent / "wt-10" / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        ".GIT/config",
        ".g\u200cit/config",
        "git~1/config",
        "GIT~1",
        "d/.git/hooks/pre-commit",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/config",
        "\uff0egit/config",
    ],
)
def test_A06_git_internals(root: Path, path: str) -> None:
    assert_refused(root, path, "git's own files")
    assert not (root / ".git").exists()


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".github", "git", "x.git"])
def test_names_that_only_look_like_git(root: Path, name: str) -> None:
    access(root).write(name, b"1")
    assert access(root).read(name, bytes_max=10) == b"1"


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12))
def test_only_spellings_of_git_are_git_names(name: str) -> None:
    if "g" not in name.casefold() and "\uff47" not in name.casefold():
        assert not is_git_name(name)


def test_pipes_and_folders_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert_refused(root, "pipe", "pipe")
    assert_refused(root, "d", "folder")
    assert_refused(root, "d/", "folder")
    assert_refused(root, "", "folder")


def test_a_hard_link_is_replaced_not_followed(root: Path) -> None:
    os.link(root.parent / "wt-10" / "secret", root / "hard")
    access(root).write("hard", b"mine")
    assert (root.parent / "wt-10" / "secret").read_bytes() == b"secret"


def test_reading(root: Path) -> None:
    assert access(root).read("d/f", bytes_max=100) == b"inside"
    assert access(root).read("./d//f", bytes_max=3) == b"ins"
    assert access(root).read(f"{root}/d/f", bytes_max=0) == b""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none", "no such file"),
        ("d/f/g", "a file is where its folder should be"),
        ("x" * 300, "File name too long"),
        ("x/" * 4000, "shorter"),
        ("a\0b", "no usable path"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(root: Path, path: str, words: str) -> None:
    with pytest.raises(FileAccessError, match=words):
        access(root).read(path, bytes_max=10)


def test_writing_keeps_the_mode_and_makes_folders(root: Path) -> None:
    (root / "run").write_bytes(b"old")
    (root / "run").chmod(0o755)
    access(root).write("run", b"new")
    assert (root / "run").read_bytes() == b"new"
    assert stat.S_IMODE((root / "run").stat().st_mode) == 0o755
    access(root).write("a/b/c", b"")
    assert stat.S_IMODE((root / "a/b/c").stat().st_mode) == 0o644
    assert sorted(os.listdir(root)) == ["a", "d", "run"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in ("d/f", "none", "d/f/g", "../x", ".git"):
        for _ in range(5):
            try:
                access(root).read(path, bytes_max=1)
                access(root).write(path, b"")
            except FileAccessError:
                pass
    assert len(os.listdir("/proc/self/fd")) == len(before)
