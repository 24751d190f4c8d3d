"""How a text file is written down: byte order mark, encoding, ends of lines; and what is no text.

Everything is decided from the bytes alone. Latin-1 stands for every encoding that is not UTF-8: it
maps each byte to one character and back, so bytes that nobody touches stay as they are.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

from orchestrator.ports import ToolError

FILE_BYTES_MAX = 16 * 1024 * 1024
"""Largest file that is read whole for paging or editing."""

_SNIFFED_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Form:
    """The conventions of one file."""

    bom: bytes
    """Its UTF-8 byte order mark, or nothing."""
    encoding: Literal["utf-8", "latin-1"]
    crlf: bool
    """Whether most of its lines end with CR LF."""

    @property
    def notes(self) -> str:
        """What a reader should know, empty for plain UTF-8 with LF."""
        notes = []
        if self.encoding != "utf-8":
            notes.append("not UTF-8, shown as Latin-1")
        if self.crlf:
            notes.append("lines end with CR LF")
        if self.bom:
            notes.append("starts with a byte order mark")
        return ", ".join(notes)

    def encode(self, text: str, *, path: str) -> bytes:
        """`text` (LF) as this file's bytes, without the mark, or `ToolError`."""
        lines = text.replace("\r\n", "\n")
        try:
            data = lines.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"{path} is not UTF-8 and {lines[error.start]!r} cannot be written in it without"
                " harming the rest: use characters up to U+00FF, or convert the file with a"
                " command first"
            ) from error
        return data.replace(b"\n", b"\r\n") if self.crlf else data


PLAIN = Form(bom=b"", encoding="utf-8", crlf=False)
"""How new files are written."""


def form_of(data: bytes) -> Form:
    """The conventions of a text file with these bytes."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        encoding = "latin-1"
    return Form(bom=bom, encoding=encoding, crlf=2 * data.count(b"\r\n") > data.count(b"\n"))


def refuse_binary(data: bytes, path: str) -> None:
    """Raise `ToolError` where the file is no text: like git, by a zero byte near its start."""
    if b"\0" in data[:_SNIFFED_BYTES]:
        raise ToolError(
            f"{path} is a binary file ({len(data):,} bytes read): look at it with a command"
            " such as `file` or `xxd` where there is Bash"
        )


def lines_of(data: bytes) -> list[bytes]:
    """Lines without their ends; like git's, they end at LF only. An empty file has none."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return lines
