"""`roles`: which roles there are, where each comes from, and what is wrong with role files.

    list    every role that a plan here can name; what the target's files narrowed
    check   every fault of role files at once, file and line; of a run's folders, or of FILE|DIR

Not the rules themselves, which are `orchestrator.roles`. A path given to `check` is judged by where
it lies: below `.orchestrate/roles/` or `.claude/agents/` as a repository's, elsewhere as the user's
own. Everything printed was written by strangers and is cleaned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from orchestrator.cli.lookup import checkout_of
from orchestrator.cli.options import NAMED_FILE, repo_option
from orchestrator.cli.terminal import note, out
from orchestrator.core.roles import Limits, Role
from orchestrator.data import builtin
from orchestrator.errors import ExitCode, Fault, PlanError, UsageError
from orchestrator.observers.summary import table
from orchestrator.observers.text import clean_line, plural
from orchestrator.roles import FoundRole, Origin, RoleSource, find_roles, role_sources

ORIGINS = {
    Origin.OPTION: "--roles",
    Origin.PROJECT: ".orchestrate/roles",
    Origin.AGENTS: ".claude/agents",
    Origin.BUNDLED: "bundled",
}
"""Where a role comes from, as people know it."""

CELL_CHARS_MAX = 60


@click.command()
@click.argument("what", type=click.Choice(["list", "check"]), default="list")
@click.argument("paths", nargs=-1, type=NAMED_FILE)
@repo_option
@click.option(
    "--roles", "option", type=NAMED_FILE, metavar="DIR", help="A folder of role files, first."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON line for each role or fault.")
def roles(
    what: str, paths: tuple[Path, ...], repo: Path | None, option: Path | None, as_json: bool
) -> int:
    """List the roles there are, or check role files.

    `check` without PATHS reads the folders that a run would; PATHS are role files or folders.
    """
    if paths and what == "list":
        raise click.UsageError("PATHS go with `check`: orchestrate roles check PATHS")
    target = checkout_of(repo or Path())
    sources = role_sources(bundled=builtin("roles"), target=target, option=option)
    if what == "list":
        return _list(sources, as_json)
    return _check(paths, sources, as_json)


# --- list -----------------------------------------------------------------------------------------


def _list(sources: Sequence[RoleSource], as_json: bool) -> int:
    found = find_roles(sources, note=_note)
    bundled = {name: one.role for name, one in find_roles(sources[-1:]).items()}
    if as_json:
        out(json.dumps(_record(one, bundled.get(name))) for name, one in found.items())
        return ExitCode.OK
    head = ["role", "from", "product", "tools", "model", "budget"]
    for cells in table([head, *(_row(one) for one in found.values())]):
        out(["  ".join(cells).rstrip()])
    changed = [line for name, one in found.items() for line in _changes(one, bundled.get(name))]
    out(["", *changed] if changed else [])
    return ExitCode.OK


def _row(found: FoundRole) -> list[str]:
    role = found.role
    return [
        role.name,
        ORIGINS[found.origin],
        role.product + (" (writes)" if role.writes else ""),
        clean_line(" ".join(role.tools), CELL_CHARS_MAX),
        clean_line(role.model or "the plan's", CELL_CHARS_MAX),
        _limits(role.limits),
    ]


def _limits(limits: Limits) -> str:
    parts = [
        f"${limits.usd:g}" if limits.usd is not None else "",
        plural(limits.tokens, "token") if limits.tokens is not None else "",
        plural(limits.turns, "turn") if limits.turns is not None else "",
        f"{limits.minutes:g} minutes" if limits.minutes is not None else "",
    ]
    return ", ".join(part for part in parts if part) or "none"


def _changes(found: FoundRole, bundled: Role | None) -> Iterator[str]:
    """One line for a role that is not the bundled one: its file, and how it differs."""
    if found.origin is Origin.BUNDLED:
        return
    what = "a new role" if bundled is None else "; ".join(differences(found.role, bundled))
    yield f"{found.role.name}: {clean_line(found.file)}: {what or 'another prompt or description'}"


def differences(role: Role, bundled: Role) -> list[str]:
    """How `role` differs from the bundled one of its name, in words; texts aside."""
    lost = sorted(set(bundled.tools) - set(role.tools))
    gained = sorted(set(role.tools) - set(bundled.tools))
    said = [f"without {' '.join(lost)}"] if lost else []
    said += [f"with {clean_line(' '.join(gained))}"] if gained else []
    for key in Limits.model_fields:
        before, after = getattr(bundled.limits, key), getattr(role.limits, key)
        if before != after:
            said.append(f"{key} {_shown(before)} -> {_shown(after)}")
    if role.product != bundled.product:
        said.append(f"product {bundled.product} -> {role.product}")
    if role.model != bundled.model:
        said.append(f"model {bundled.model or 'none'} -> {clean_line(role.model or 'none')}")
    return said


def _shown(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"


def _record(found: FoundRole, bundled: Role | None) -> dict[str, object]:
    """A role as a JSON line."""
    role = found.role
    return {
        "role": role.name,
        "from": ORIGINS[found.origin],
        "file": found.file,
        "description": role.description,
        "product": role.product,
        "writes": role.writes,
        "tools": role.tools,
        "model": role.model,
        "limits": role.limits.model_dump(),
        "differs": differences(role, bundled) if bundled is not None else [],
    }


# --- check ----------------------------------------------------------------------------------------


def _check(paths: Sequence[Path], sources: Sequence[RoleSource], as_json: bool) -> int:
    """Read role files and tell every fault; exit code 2 when there is one."""
    read = _named(paths, sources[-1]) if paths else [(sources, None)]
    faults: list[Fault] = []
    files: set[str] = set()
    for folders, only in read:
        try:
            found = find_roles(folders, note=_note)
        except PlanError as error:
            told = [fault for fault in error.faults if only is None or fault.file in only]
            faults += told
        else:
            files |= {one.file for one in found.values() if _is_meant(one, bool(paths), only)}
    faults = list(dict.fromkeys(faults))
    if as_json:
        out(json.dumps(_fault_record(fault)) for fault in faults)
        return ExitCode.USAGE if faults else ExitCode.OK
    if faults:
        raise PlanError(faults)
    out([f"no faults in {plural(len(files), 'role file')}"])
    return ExitCode.OK


def _is_meant(found: FoundRole, by_name: bool, only: frozenset[str] | None) -> bool:
    """Whether a role's file is one that was to be checked."""
    if only is not None:
        return found.file in only
    return not by_name or found.origin is not Origin.BUNDLED


def _named(
    paths: Sequence[Path], bundled: RoleSource
) -> Iterator[tuple[tuple[RoleSource, ...], frozenset[str] | None]]:
    """What to read for each path: its folder, and for a file whose faults are meant.

    Raises `UsageError` for a path that is neither a folder nor a role file.
    """
    for path in paths:
        if path.is_dir():
            yield (_source(path), bundled), None
        elif path.suffix != ".md" or not path.exists():
            why = "there is no such file" if path.suffix == ".md" else "a role file ends with .md"
            raise UsageError(f"{path}: {why}; give a role file or a folder of them")
        else:
            only = frozenset({str(path), str(path.parent)})
            yield (_source(path.parent), bundled), only


def _source(folder: Path) -> RoleSource:
    """The folder as a run would see it: a repository's is not trusted, wherever it is read from."""
    last = folder.resolve().parts[-2:]
    for origin in (Origin.PROJECT, Origin.AGENTS):
        if "/".join(last) == ORIGINS[origin]:
            return RoleSource(folder, origin)
    return RoleSource(folder, Origin.OPTION)


def _fault_record(fault: Fault) -> dict[str, object]:
    return {
        "file": fault.file,
        "line": fault.line,
        "message": fault.message,
        "hint": fault.hint,
    }


def _note(text: str) -> None:
    note(clean_line(text))
