"""Calls that this project does not make, each with what to use instead.

A table and a function that reads one file by it; `test_banned.py` applies both to the project, and
tries the function on lines that it must catch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.style.source import Module, dotted

PROGRAM = ("orchestrator/",)
EVERYWHERE = ("orchestrator/", "tests/")


@dataclass(frozen=True, slots=True)
class Ban:
    """Names that may not be used in some places."""

    names: str
    """Dotted names, parted by spaces; `*.x` is an attribute x of anything."""
    instead: str
    where: tuple[str, ...] = EVERYWHERE
    except_in: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether `name` is one of the banned ones."""
        return any(
            name == banned or (banned.startswith("*.") and name.endswith(banned[1:]))
            for banned in self.names.split()
        )


BANS = (
    Ban(
        "time.sleep",
        "the event itself (a process's end, a file's content, an anyio.Event), with a deadline",
        where=("tests/",),
    ),
    Ban(
        "subprocess.run subprocess.Popen subprocess.call subprocess.check_call "
        "subprocess.check_output os.system os.popen os.posix_spawn anyio.open_process "
        "asyncio.create_subprocess_exec",
        "orchestrator.workspace.process, or .git for host-side git: own session, capped output, "
        "a deadline, no orphans",
        where=PROGRAM,
        except_in=("orchestrator/workspace/process.py", "orchestrator/workspace/git.py"),
    ),
    Ban(
        "anyio.run_process asyncio.create_subprocess_shell",
        "orchestrator.workspace.process: run_process waits for the end of the pipe, not of the "
        "child, and leaves grandchildren behind",
    ),
    Ban(
        "sys.exit os._exit exit quit",
        "the ExitCode that a command returns",
        where=PROGRAM,
        except_in=("orchestrator/cli/", "orchestrator/__main__.py"),
    ),
    Ban(
        "print",
        "a value that the caller may show; only the command line speaks",
        where=PROGRAM,
        except_in=("orchestrator/cli/",),
    ),
    Ban(
        "git.Repo git.IndexFile *.IndexFile",
        "git.Git(cwd) for short plumbing with full ids: a Repo caches, IndexFile writes an index "
        "that no filter ever saw",
    ),
    Ban(
        "yaml.load yaml.load_all yaml.safe_load yaml.safe_load_all yaml.full_load yaml.unsafe_load",
        "orchestrator.documents: YAML 1.2 scalars, line numbers, no duplicate keys, caps",
        except_in=("orchestrator/documents.py",),
    ),
    Ban(
        "shutil.rmtree",
        "orchestrator.workspace, which removes only what it made for itself or what a kept ref "
        "can reach",
        where=PROGRAM,
        except_in=("orchestrator/workspace/",),
    ),
    Ban(
        "unittest.mock mock.patch monkeypatch.setattr monkeypatch.setitem mocker.patch",
        "the real thing in tmp_path, or the fake that ships with the seam",
    ),
    Ban(
        "time.time time.monotonic random.random uuid.uuid4 datetime.now",
        "a value that the caller passes in",
        where=("orchestrator/core/",),
    ),
)

_TEXT_METHODS = {"read_text": 0, "write_text": 1}
"""Methods of Path that need an encoding, and its position among the arguments."""


def problems_of(module: Module) -> Iterator[str]:
    """`path:line: what` for every rule that `module` breaks."""
    for node in ast.walk(module.tree):
        for line, problem in _look_at(node, module):
            yield f"{module.path}:{line}: {problem}"


def _look_at(node: ast.AST, module: Module) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Attribute | ast.Name):
        yield from _names(dotted(node), node.lineno, module)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield from _names(alias.name, node.lineno, module)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield from _names(f"{node.module}.{alias.name}", node.lineno, module)
        yield from _names(node.module or "", node.lineno, module)
    if isinstance(node, ast.Call):
        yield from _text_without_encoding(node)
    if module.is_in("tests/"):
        yield from _skip_without_reason(node)


def _names(name: str, line: int, module: Module) -> Iterator[tuple[int, str]]:
    for ban in BANS:
        if module.is_in(*ban.where) and not module.is_in(*ban.except_in) and ban.covers(name):
            yield line, f"{name}; use {ban.instead}"


def _text_without_encoding(call: ast.Call) -> Iterator[tuple[int, str]]:
    """Text files are UTF-8 whatever the machine's locale says."""
    named = {keyword.arg for keyword in call.keywords}
    if "encoding" in named or None in named:
        return
    if isinstance(call.func, ast.Attribute) and call.func.attr in _TEXT_METHODS:
        if len(call.args) <= _TEXT_METHODS[call.func.attr]:
            yield call.lineno, f'{call.func.attr} without encoding; say encoding="utf-8"'
        return
    name = dotted(call.func)
    if name in {"open", "os.fdopen", "io.open"}:
        position = 1
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "open" and name != "os.open":
        position = 0
    else:
        return
    mode = _mode(call, position)
    if mode is not None and "b" not in mode:
        yield call.lineno, 'text file without encoding; say encoding="utf-8"'


def _mode(call: ast.Call, position: int) -> str | None:
    """The mode that a file is opened in; None where it is no plain mode at all."""
    for keyword in call.keywords:
        if keyword.arg == "mode" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    if len(call.args) <= position:
        return "r"
    value = call.args[position]
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value if set(value.value) <= set("rwxabt+") else None
    return None


def _skip_without_reason(node: ast.AST) -> Iterator[tuple[int, str]]:
    """A test that does not run says why."""
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        has_reason = any(keyword.arg in {"reason", None} for keyword in node.keywords)
        if name in {"pytest.skip", "pytest.xfail"} and not (node.args or has_reason):
            yield node.lineno, f"{name} without a reason"
        if name in {"pytest.mark.skipif", "pytest.mark.xfail"} and not has_reason:
            yield node.lineno, f"{name} without a reason"
        if name == "pytest.mark.skip" and not (node.args or has_reason):
            yield node.lineno, f"{name} without a reason"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for decorator in node.decorator_list:
            if dotted(decorator) in {"pytest.mark.skip", "pytest.mark.xfail"}:
                yield decorator.lineno, f"{dotted(decorator)} without a reason"
