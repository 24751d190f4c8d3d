"""Which role files count, and what a file that comes with the target repository may say.

Looked up in this order, the first one found of a name counts: the folder given with `--roles`
(trusted, may say anything), the target's `.orchestrate/roles/` and `.claude/agents/` (untrusted),
the bundled ones. A file with the name of a bundled role inherits what it leaves unsaid.

An untrusted file may narrow and never widen: under a bundled name it keeps product and writing, its
tools are a part of that role's, its budget is no larger; prompt and model are free, since gates
judge the work and the budget bounds the cost. A role with a new name is accepted in
`.orchestrate/roles/` only and must fit inside a bundled role in the same way. Files in
`.claude/agents/` that were written for another program are left alone, with a note.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from orchestrator.core.roles import Limits, Role
from orchestrator.errors import Fault, PlanError
from orchestrator.roles.format import RoleFile, parse_role

FILE_BYTES_MAX = 64 * 1024
"""Largest role file."""
FILES_MAX = 200
"""Most role files in a folder."""

Note = Callable[[str], None]


class Origin(Enum):
    """Where a folder of role files comes from."""

    OPTION = "option"
    """Named by the user: trusted."""
    PROJECT = "project"
    """The target's `.orchestrate/roles/`: untrusted, may bring new roles."""
    AGENTS = "agents"
    """The target's `.claude/agents/`: untrusted, mostly another program's."""
    BUNDLED = "bundled"
    """Comes with this program."""

    @property
    def trusted(self) -> bool:
        """Whether its files may say anything."""
        return self in (Origin.OPTION, Origin.BUNDLED)


@dataclass(frozen=True, slots=True)
class RoleSource:
    """A folder that is looked at for `*.md`; need not exist unless the user named it."""

    directory: Path
    origin: Origin


def role_sources(
    *, bundled: Path, target: Path | None = None, option: Path | None = None
) -> tuple[RoleSource, ...]:
    """The folders of a run in lookup order. `target` is the top of the target's checkout."""
    sources = []
    if option is not None:
        sources.append(RoleSource(option, Origin.OPTION))
    if target is not None:
        sources.append(RoleSource(target / ".orchestrate" / "roles", Origin.PROJECT))
        sources.append(RoleSource(target / ".claude" / "agents", Origin.AGENTS))
    return (*sources, RoleSource(bundled, Origin.BUNDLED))


@dataclass(frozen=True, slots=True)
class FoundRole:
    """A role that counts, and where it was found."""

    role: Role
    file: str
    """Path of its file."""
    origin: Origin


def load_roles(
    directories: Sequence[RoleSource], *, note: Note = lambda _: None
) -> dict[str, Role]:
    """All roles by name. Raises `PlanError` with every fault of all files, in lookup order.

    `note` is told in one sentence each what was left alone.
    """
    return {name: found.role for name, found in find_roles(directories, note=note).items()}


def find_roles(
    directories: Sequence[RoleSource], *, note: Note = lambda _: None
) -> dict[str, FoundRole]:
    """The same with the file that each role comes from."""
    faults: list[Fault] = []
    bundled = _bundled(directories, faults)
    roles: dict[str, FoundRole] = {}
    for source in directories:
        seen: dict[str, RoleFile] = {}
        for file in _files_of(source, bundled, faults, note):
            if file.name in seen:
                first = seen[file.name].file
                faults.append(file.fault(("name",), f"role `{file.name}` is also in {first}"))
                continue
            seen[file.name] = file
            problems = [] if source.origin.trusted else list(_widening(file, source, bundled))
            role = _complete(file, bundled.get(file.name) or _pattern(file, source, bundled))
            problems = problems or list(_contradictions(file, role))
            faults += sorted(problems, key=lambda fault: fault.line)
            if role is not None and not problems:
                roles.setdefault(file.name, FoundRole(role, file.file, source.origin))
    if faults:
        raise PlanError(list(dict.fromkeys(faults)))
    return dict(sorted(roles.items()))


def _bundled(directories: Sequence[RoleSource], faults: list[Fault]) -> dict[str, Role]:
    """The bundled roles, against which untrusted files are measured."""
    files = [
        file
        for source in directories
        if source.origin is Origin.BUNDLED
        for file in _files_of(source, {}, faults, lambda _: None)
    ]
    complete = (_complete(file, None) for file in files)
    return {role.name: role for role in complete if role is not None}


def _files_of(
    source: RoleSource, bundled: Mapping[str, Role], faults: list[Fault], note: Note
) -> Iterator[RoleFile]:
    """The folder's role files in order of their names; those that are faulty go to `faults`."""
    for path in _paths(source, faults):
        try:
            file = parse_role(_read(path, source), str(path))
        except PlanError as error:
            if _is_foreign(path, source, bundled):
                note(f"{path} is left alone: it is no role file of this program")
            else:
                faults += error.faults
            continue
        if (
            source.origin is Origin.AGENTS
            and file.front.orchestrate is None
            and file.name not in bundled
        ):
            note(f"{path} is left alone: it has no key `orchestrate`")
            continue
        yield file


def _paths(source: RoleSource, faults: list[Fault]) -> list[Path]:
    """The `*.md` of a folder, sorted; a folder that must be there and is not is a fault."""
    directory = source.directory
    if not source.origin.trusted and (directory.is_symlink() or directory.parent.is_symlink()):
        faults.append(Fault(str(directory), 0, "the folder is a link", "make it a real folder"))
        return []
    if not directory.is_dir():
        if source.origin.trusted:
            faults.append(Fault(str(directory), 0, "no such folder of role files"))
        return []
    paths = sorted(directory.glob("*.md"))
    if len(paths) > FILES_MAX:
        faults.append(Fault(str(directory), 0, f"{len(paths)} role files, at most {FILES_MAX}"))
        return []
    return paths


def _read(path: Path, source: RoleSource) -> str:
    """The file's text. A repository's link could lead anywhere, a pipe would hang: refused."""
    try:
        mode = (path.stat() if source.origin.trusted else path.lstat()).st_mode
        if not stat.S_ISREG(mode):
            problem = "is a link or no file"
        else:
            with path.open("rb") as stream:
                data = stream.read(FILE_BYTES_MAX + 1)
            if len(data) <= FILE_BYTES_MAX:
                return data.decode("utf-8")
            problem = f"is larger than {FILE_BYTES_MAX} bytes"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.start})"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise PlanError([Fault(str(path), 0, f"the role file {problem}")])


def _is_foreign(path: Path, source: RoleSource, bundled: Mapping[str, Role]) -> bool:
    """Whether a faulty file in `.claude/agents/` belongs to another program.

    It is ours when it is named like a bundled role or has our key: then a narrowing that was meant
    and is written wrongly must not be passed over.
    """
    if source.origin is not Origin.AGENTS or path.stem in bundled:
        return False
    try:
        text = _read(path, source)
    except PlanError:
        return True
    lines = [line.split("#")[0].split(":", 1) for line in text.splitlines()]
    keys = {parts[0].strip(): parts[-1].strip(" \"'") for parts in lines if len(parts) == 2}
    return "orchestrate" not in keys and keys.get("name") not in bundled


def _complete(file: RoleFile, base: Role | None) -> Role | None:
    """The role that a file gives, with `base` for what it leaves unsaid; None without a product."""
    product = file.product or (base.product if base else None)
    if product is None:
        return None
    said_model = "model" in file.front.model_fields_set
    return Role(
        name=file.name,
        description=file.front.description or (base.description if base else ""),
        tools=file.tools,
        model=file.front.model if base is None or said_model else base.model,
        product=product,
        writes=product == "change",
        limits=file.limits.over(base.limits) if base else file.limits,
        prompt=file.prompt,
    )


def _pattern(file: RoleFile, source: RoleSource, bundled: Mapping[str, Role]) -> Role | None:
    """The bundled role whose limits a repository's new role gets where it has none."""
    return None if source.origin.trusted else _like(file, bundled)


def _like(file: RoleFile, bundled: Mapping[str, Role]) -> Role | None:
    """The bundled role with the same product whose tools the file's are nearest to."""
    alike = [role for role in bundled.values() if role.product == file.product]
    return min(alike, key=lambda role: len(set(file.tools) - set(role.tools)), default=None)


def _widening(file: RoleFile, source: RoleSource, bundled: Mapping[str, Role]) -> Iterator[Fault]:
    """Where an untrusted file says more than the bundled role it stands for allows."""
    base = bundled.get(file.name)
    if base is None and source.origin is Origin.AGENTS:
        hint = "move it to .orchestrate/roles/"
        yield file.fault(("name",), f"`{file.name}` is a new role in .claude/agents/", hint)
        return
    base = base or _like(file, bundled)
    if base is None:
        if file.product is not None:
            message = f"no bundled role hands in a {file.product}"
            yield file.fault(("orchestrate", "product"), message)
        return
    hint = f"a repository's role may narrow `{base.name}`, never widen it; use --roles to trust it"
    added = sorted(set(file.tools) - set(base.tools))
    if added:
        yield file.fault(("tools",), f"adds {_quoted(added)} to `{base.name}`", hint)
    if file.product not in (None, base.product):
        yield file.fault(
            ("orchestrate", "product"),
            f"changes the product of `{base.name}` from {base.product} to {file.product}",
            hint,
        )
    for key in _raised(file.limits, base.limits):
        given, allowed = getattr(file.limits, key), getattr(base.limits, key)
        message = f"raises {key} of `{base.name}` from {allowed} to {given}"
        yield file.fault(("orchestrate", "budget", key), message, hint)


def _raised(limits: Limits, base: Limits) -> Iterator[str]:
    """Names of limits that are above the base's."""
    for key in Limits.model_fields:
        given, allowed = getattr(limits, key), getattr(base, key)
        if given is not None and allowed is not None and given > allowed:
            yield key


def _contradictions(file: RoleFile, role: Role | None) -> Iterator[Fault]:
    """What is wrong only once it is known what the file inherits."""
    if role is None:
        hint = "write orchestrate: {product: report}"
        yield file.fault(("orchestrate",), "no `orchestrate.product`", hint)
    elif file.writes not in (None, role.writes):
        said = str(file.writes).lower()
        message = f"`writes: {said}` does not go with the product `{role.product}`"
        yield file.fault(("orchestrate", "writes"), message)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
