"""YAML 1.2 text as plain data that knows its lines, safe to read from strangers.

Not a general YAML library: one document, keys are text, no tags, no merge keys. It guarantees that
nothing is overwritten silently (a key that stands twice is a fault with both lines), that scalars
are what YAML 1.2's core schema says (`on`, `12:30:00` are text, `010` is ten), and that size,
depth and the expansion of aliases are bounded before anything is built from them.

The parser's events are read in one loop, without recursion: `[` five thousand times is a fault
like any other. What the data means is for pydantic; `faults_of` puts its errors in people's words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from orchestrator.core.wording import explain, shown
from orchestrator.errors import Fault, PlanError

BYTES_MAX = 1024 * 1024
"""Largest text."""
DEPTH_MAX = 64
"""Deepest nesting of lists and mappings, aliases followed."""
NODES_MAX = 200_000
"""Most values, each use of an alias counted with everything in it."""
FAULTS_MAX = 100
"""Most faults that are told of one file."""

JsonLike: TypeAlias = "bool | int | float | str | list[JsonLike] | dict[str, JsonLike] | None"
"""What a document holds. Values behind aliases are shared: read, never changed."""
Path: TypeAlias = tuple[str | int, ...]
"""Place in a document: keys and indices from the top."""

_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_BASES = {"": 10, "0o": 8, "0x": 16}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?(?:\.inf|\.Inf|\.INF)")
_WORDS: dict[str, JsonLike] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOADER: type[yaml.CSafeLoader] | type[yaml.SafeLoader] = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)


@dataclass(slots=True)
class _Node:
    """A value, where it stands and what is below it."""

    value: JsonLike
    line: int
    size: int = 1
    """Values in it, itself included, aliases expanded."""
    height: int = 0
    """Levels of lists and mappings, itself included if it is one."""
    children: dict[str | int, tuple[int, _Node]] | None = None
    """By key or index: the line of the key or of the item, and what is there."""


class Document:
    """Plain data with the line of every value, lines counted from 1."""

    def __init__(self, file: str, root: _Node) -> None:
        self.file = file
        """The path as the user gave it."""
        self.data: JsonLike = root.value
        self._root = root

    def line(self, path: Path) -> int:
        """Line where the value at `path` begins, or its nearest ancestor that there is."""
        return self._find(path)[1].line

    def key_line(self, path: Path) -> int:
        """Line of the key that leads to `path`, or of the item in its list."""
        return self._find(path)[0]

    def _find(self, path: Path) -> tuple[int, _Node]:
        key_line, node = self._root.line, self._root
        for step in path:
            if node.children is None or step not in node.children:
                break
            key_line, node = node.children[step]
        return key_line, node


def load_document(text: bytes | str, file: str) -> Document:
    """Read one YAML 1.2 document of at most `BYTES_MAX` bytes of UTF-8.

    `file` is the path for messages. Raises `PlanError` with everything that is wrong: all
    repeated keys, tags and the like, up to the first place where the text cannot be read on.
    """
    readable = _decoded(text, file)
    reader = _Reader(file)
    root = None
    try:
        root = reader.read(readable)
    except yaml.MarkedYAMLError as error:
        reader.fault(*_syntax(error, readable))
    except yaml.YAMLError as error:
        reader.fault(0, f"is no YAML: {' '.join(str(error).split())[:200]}")
    except _UnreadableError:
        pass
    else:
        if (root is None or root.value is None) and not reader.faults:
            reader.fault(0, "the file is empty")
    if root is None or reader.faults:
        raise PlanError(sorted(reader.faults, key=lambda fault: fault.line))
    return Document(file, root)


def _decoded(text: bytes | str, file: str) -> str:
    """The text without its byte order mark, of characters that YAML allows."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(raw) > BYTES_MAX:
        raise PlanError([Fault(file, 0, f"is larger than {BYTES_MAX} bytes")])
    try:
        decoded = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PlanError([Fault(file, line, "is not UTF-8", "save it as UTF-8")]) from None
    bad = _UNPRINTABLE.search(decoded)
    if bad is not None:
        line = decoded.count("\n", 0, bad.start()) + 1
        message = f"has the control character U+{ord(bad[0]):04X}"
        raise PlanError([Fault(file, line, message, "remove it")])
    return decoded


_MENDS = {
    "mapping values are not allowed in this context": (
        "put a text that holds `: ` in quotes, or mend the indentation"
    ),
    "found character that cannot start any token": "put a text that begins so in quotes",
    "did not find expected alphabetic or numeric character": (
        "a text that begins with `*` or `&` needs quotes"
    ),
    "did not find expected key": "mend the indentation",
    "could not find expected ':'": "mend the indentation, or add the `:` after the key",
}
"""What to do about the commonest of libyaml's complaints."""


def _syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str, str]:
    """Line, message and hint of a text that is no YAML."""
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return 0, f"is no YAML: {error.problem or error.context}", ""
    lines = _LINE_BREAK.split(text, maxsplit=mark.line + 1)
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return mark.line + 1, "there is a tab in the indentation", "use spaces"
    hints = [_MENDS.get(error.problem or "", "")]
    if error.context and start is not None and start.line != mark.line:
        hints.append(f"{error.context} that begins on line {start.line + 1}")
    return mark.line + 1, f"is no YAML: {error.problem}", "; ".join(filter(None, hints))


class _UnreadableError(Exception):
    """The rest of the text is not worth reading; the fault is noted."""


@dataclass(slots=True)
class _Open:
    """A list or mapping that has begun."""

    node: _Node
    anchor: str | None
    wants_key: bool
    """Whether it is a mapping whose next event is a key."""
    key: str = ""
    key_line: int = 0


class _Reader:
    """Builds nodes of events, on a stack of its own."""

    def __init__(self, file: str) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._nodes = 0
        self._root: _Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        """None while the value is still open."""

    def fault(self, line: int, message: str, hint: str = "") -> None:
        """Note what is wrong."""
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(self._file, line, message, hint))

    def read(self, text: str) -> _Node | None:
        """The document's root, None when there is no document."""
        for event in yaml.parse(text, Loader=_LOADER):
            mark = event.start_mark
            line = mark.line + 1 if mark is not None else 0
            match event:
                case yaml.DocumentStartEvent() if self._root is not None:
                    raise self._stop(line, "a second document starts here", "keep one in a file")
                case yaml.ScalarEvent():
                    self._scalar(event, line)
                case yaml.AliasEvent():
                    self._alias(event.anchor or "", line)
                case yaml.SequenceStartEvent():
                    self._start(event, _Node([], line, height=1, children={}))
                case yaml.MappingStartEvent():
                    self._start(event, _Node({}, line, height=1, children={}))
                case yaml.CollectionEndEvent():
                    self._end()
                case _:
                    pass
        return self._root

    def _stop(self, line: int, message: str, hint: str = "") -> _UnreadableError:
        self.fault(line, message, hint)
        return _UnreadableError()

    def _count(self, size: int, height: int, line: int) -> None:
        """Refuse more values, or deeper ones, than there may be."""
        self._nodes += size
        if self._nodes > NODES_MAX:
            raise self._stop(line, f"has more than {NODES_MAX} values, aliases expanded")
        if len(self._open) + height > DEPTH_MAX:
            raise self._stop(line, f"is nested deeper than {DEPTH_MAX} levels")

    def _untagged(self, tag: str | None, line: int) -> None:
        if tag is not None:
            self.fault(line, f"tags are not supported: {shown(tag)}", "put text in quotes instead")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._count(1, 0, line)
        self._untagged(event.tag, line)
        text, plain = event.value, event.implicit[0] and event.tag is None
        value = self._plain(text, line) if plain else text
        if event.anchor is not None:
            self._anchors[event.anchor] = _Node(value, line)
        if self._open and self._open[-1].wants_key:
            self._key(text, value, line, plain)
        else:
            self._put(_Node(value, line), line)

    def _plain(self, text: str, line: int) -> JsonLike:
        """The value of a scalar without quotes, by YAML 1.2's core schema."""
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            digits, base = (text[2:], text[:2]) if text[:2] in _BASES else (text, "")
            if len(digits) > 100 or not -(2**63) <= int(digits, _BASES[base]) < 2**63:
                self.fault(line, "this number is too large", "put it in quotes if it is text")
                return 0
            return int(digits, _BASES[base])
        if _INFINITY.fullmatch(text):
            return float(text.replace(".", ""))
        return float(text) if _FLOAT.fullmatch(text) else text

    def _key(self, text: str, value: JsonLike, line: int, plain: bool) -> None:
        parent = self._open[-1]
        if not isinstance(value, str):
            self.fault(line, f"the key `{shown(text)}` is not text", "put it in quotes")
        elif plain and text == "<<":
            self.fault(line, "merge keys (`<<`) are not supported", "write the keys out")
        children = parent.node.children
        if children is not None and text in children:
            first = children[text][0]
            self.fault(
                line,
                f"the key `{shown(text)}` stands twice, on lines {first} and {line}",
                "rename or remove one",
            )
        parent.key, parent.key_line, parent.wants_key = text, line, False

    def _alias(self, name: str, line: int) -> None:
        if self._open and self._open[-1].wants_key:
            raise self._stop(line, f"the alias `*{shown(name)}` cannot be a key", "write it out")
        if name not in self._anchors:
            raise self._stop(line, f"there is no anchor `&{shown(name)}` before this alias")
        node = self._anchors[name]
        if node is None:
            raise self._stop(line, f"`&{shown(name)}` contains itself")
        self._count(node.size, node.height, line)
        self._put(node, line)

    def _start(self, event: yaml.CollectionStartEvent, node: _Node) -> None:
        if self._open and self._open[-1].wants_key:
            raise self._stop(node.line, "a key must be text, not a list or a mapping")
        self._count(1, 1, node.line)
        self._untagged(event.tag, node.line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(node, event.anchor, isinstance(node.value, dict)))

    def _end(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = done.node
        self._put(done.node, done.node.line)

    def _put(self, node: _Node, line: int) -> None:
        """Put a finished value into what is open, or make it the root."""
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        above = parent.node
        step: str | int
        if isinstance(above.value, dict):
            step, line, parent.wants_key = parent.key, parent.key_line, True
            above.value[parent.key] = node.value
        elif isinstance(above.value, list):
            step = len(above.value)
            above.value.append(node.value)
        else:
            raise TypeError("only lists and mappings are open")
        if above.children is not None:
            above.children[step] = (line, node)
        above.size += node.size
        above.height = max(above.height, node.height + 1)


def faults_of(error: ValidationError, document: Document) -> list[Fault]:
    """What pydantic found wrong with a document's data, in people's words, in line order.

    The error's paths are looked up in the document. At most `FAULTS_MAX` are told, then how many
    there are besides.
    """
    details = error.errors(include_url=False)
    faults = [_fault(detail, document) for detail in details[:FAULTS_MAX]]
    faults.sort(key=lambda fault: fault.line)
    if len(details) > FAULTS_MAX:
        faults.append(Fault(document.file, 0, f"and {len(details) - FAULTS_MAX} more faults"))
    return faults


def _fault(detail: ErrorDetails, document: Document) -> Fault:
    path = tuple(step for step in detail["loc"] if step != "[key]")
    line = document.key_line(path)
    message, hint = explain(detail)
    if detail["type"] != "draft":
        message = f"`{_dotted(path)}` {message}" if path else f"this {message}"
    other = detail.get("ctx", {}).get("other")
    if other:
        first = document.key_line((*path[: -len(other)], *other))
        message += f", on lines {first} and {line}"
    return Fault(document.file, line, message, hint)


def _dotted(path: Path) -> str:
    """`tasks.build.needs[0]`; long paths lose their beginning."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)
    text = "".join(steps).removeprefix(".")
    return text if len(text) <= 120 else "..." + text[-117:]
