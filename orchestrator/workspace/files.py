"""Files beneath a root, opened so that nothing leads out of it.

What it guarantees, whatever an agent planted in the tree:

- each folder of a path is opened on its own, relative to the one before and without following
  links, so neither `..`, nor a link, nor one swapped in after a check leads out;
- only regular files are read and written; a pipe or a device is refused, not waited for;
- `.git` is refused in every spelling that some file system takes for it;
- a write replaces the whole file at once and keeps its mode.

All of it blocks for a moment: call it from a thread. Errors say what to do instead.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import DiskFullError, is_disk_full
from orchestrator.ports import FileAccessError
from orchestrator.workspace.names import TEMPORARY_PREFIX, is_git_name

_PATH_CHARACTERS_MAX = 4000
_NEW_FILE_MODE = 0o644
_NEW_FOLDER_MODE = 0o755
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class TreeFiles:
    """File access beneath `root`; agents know it as `location`."""

    def __init__(self, root: Path, location: str) -> None:
        self._root, self._location = root, location

    def read(self, path: str, *, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of a regular file. Raises `FileAccessError`."""
        parts = self._parts(path)
        with _reported(path), self._folder(parts, create=False) as folder:
            self._refuse_link(path, parts[-1], folder)
            descriptor = os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
            with open(descriptor, "rb", buffering=0) as file:
                _require_regular(path, os.fstat(descriptor))
                return _read_up_to(file.fileno(), bytes_max)

    def write(self, path: str, data: bytes) -> None:
        """Replace or create a regular file, folders included. Raises `FileAccessError`."""
        parts = self._parts(path)
        with _reported(path), self._folder(parts, create=True) as folder:
            self._refuse_link(path, parts[-1], folder)
            mode = _NEW_FILE_MODE
            try:
                found = os.lstat(parts[-1], dir_fd=folder)
            except FileNotFoundError:
                pass
            else:
                _require_regular(path, found)
                mode = stat.S_IMODE(found.st_mode) & 0o777
            _replace(folder, parts[-1], data, mode)

    def _parts(self, path: str) -> tuple[str, ...]:
        """The names along a path beneath the root. Raises `FileAccessError`."""
        relative = path
        if path.startswith("/"):
            if not path.startswith(self._location.rstrip("/") + "/"):
                raise FileAccessError(
                    f"{path[:200]}: outside the workspace; use a path relative to its root"
                )
            relative = path[len(self._location.rstrip("/")) :]
        if len(path) > _PATH_CHARACTERS_MAX or "\0" in path:
            raise FileAccessError(f"{path[:80]!r}...: no usable path; give a shorter, plain one")
        parts = tuple(part for part in relative.split("/") if part not in {"", "."})
        if not parts or relative.endswith("/"):
            raise FileAccessError(f"{path or 'empty path'}: a folder; give the path of a file")
        if ".." in parts:
            raise FileAccessError(f"{path}: has `..` in it; give the path from the root instead")
        if any(is_git_name(part) for part in parts):
            raise FileAccessError(f"{path}: git's own files are out of bounds; leave them alone")
        return parts

    @contextmanager
    def _folder(self, parts: Sequence[str], *, create: bool) -> Iterator[int]:
        """Descriptor of the folder that `parts` ends in; nothing on the way may be a link."""
        descriptor = os.open(self._root, _FOLDER_FLAGS)
        try:
            for depth, part in enumerate(parts[:-1], start=1):
                self._refuse_link("/".join(parts[:depth]), part, descriptor)
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, _NEW_FOLDER_MODE, dir_fd=descriptor)
                deeper = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor
        finally:
            os.close(descriptor)

    def _refuse_link(self, path: str, name: str, folder: int) -> None:
        """Say where a link leads. For the message only: opening does not follow links either."""
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:
            return
        raise FileAccessError(f"{path}: a link to {target[:200]}; use the path of the file itself")


@contextmanager
def _reported(path: str) -> Iterator[None]:
    """Turn what the system says into what an agent can act on."""
    try:
        yield
    except FileNotFoundError:
        raise FileAccessError(f"{path}: no such file; look for it with Glob") from None
    except IsADirectoryError:
        raise FileAccessError(f"{path}: a folder; give the path of a file") from None
    except NotADirectoryError:
        raise FileAccessError(f"{path}: a file is where its folder should be") from None
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(f"{path}: {error.strerror}; free some room, then resume") from None
        raise FileAccessError(f"{path}: {error.strerror or error}; use another path") from None


def _require_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileAccessError(f"{path}: a folder; give the path of a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileAccessError(f"{path}: a pipe, socket or device; only regular files are opened")


def _read_up_to(descriptor: int, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    left = bytes_max
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
    """Write beside the file and rename over it, so that nobody sees half of it."""
    temporary = TEMPORARY_PREFIX + secrets.token_hex(8)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
