"""Reads what an agent is told of the repository before its first call: the parts of its prompt.

Everything is read by commit, nothing from a workspace. The rules come from the run's base, so an
agent that edits AGENTS.md does not steer those after it; file tree and context files come from
where the attempt starts. What is read here stands for the whole attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import sha256

from anyio import to_thread

from orchestrator.agent.parts import NamedText, PromptParts
from orchestrator.agent.rules import Reach, Rules, choose, reach, rules_files, wanted
from orchestrator.attempt.facts import COMMITS_MAX, Findings, describe, wanted_files
from orchestrator.core.roles import Role
from orchestrator.spec import AttemptSpec
from orchestrator.workspace.reading import CommitReader

PART_BYTES_MAX = 128 * 1024
"""Most that is read of one file."""


async def read_parts(
    reader: CommitReader, spec: AttemptSpec, role: Role, *, start: str
) -> PromptParts:
    """The parts for the attempt `spec` by `role`, which starts from the tree of commit `start`.

    Without the diff, which only a reviewer of an attempt that runs is given.
    """
    named = await reader.files(spec.base)
    tree = named if start == spec.base else await reader.files(start)
    context = tuple(dict.fromkeys(spec.task.context))
    writes = spec.task.writes if role.writes else None
    about = await to_thread.run_sync(reach, writes, context, named)
    rules = await _rules(reader, spec.base, named, about)
    read = {path: await _text(reader, start, path) for path in context}
    shown = {item.text.strip() for item in (*rules.project, *rules.nested)}
    return PromptParts(
        rules=rules.project,
        nested=rules.nested,
        more_rules=rules.more,
        tree=tree,
        context=tuple(
            NamedText(path, text)
            for path, text in read.items()
            if text is not None and text.strip() not in shown
        ),
        missing=tuple(path for path, text in read.items() if text is None),
        facts=await _facts(reader, spec.base) if role.product == "plan" else "",
    )


async def rules_digests(reader: CommitReader, base: str) -> dict[str, str]:
    """SHA-256 of every rules file of the commit `base` by its path, as far as agents are shown it.

    Before the hub is open `reader` is `Repository.reader`, later `Hub.reader`.
    """
    digests: dict[str, str] = {}
    for path in rules_files(await reader.files(base)):
        data = await reader.read(base, path, PART_BYTES_MAX)
        if data is not None:
            digests[path] = sha256(data).hexdigest()
    return digests


async def _rules(reader: CommitReader, base: str, paths: Iterable[str], about: Reach) -> Rules:
    files = rules_files(paths)
    read = {path: await _text(reader, base, path) for path in wanted(files, about)}
    texts = {path: text for path, text in read.items() if text is not None}
    return await to_thread.run_sync(choose, files, texts, about)


async def _facts(reader: CommitReader, base: str) -> str:
    sizes = await reader.sizes(base)
    read = {path: await _text(reader, base, path) for path in wanted_files(sizes)}
    findings = Findings(
        sizes=sizes,
        texts={path: text for path, text in read.items() if text is not None},
        changes=await reader.changes(base, COMMITS_MAX),
    )
    return await to_thread.run_sync(partial(describe, findings))


async def _text(reader: CommitReader, commit: str, path: str) -> str | None:
    """A file's text; None where there is no such file, or it is no text."""
    data = await reader.read(commit, path, PART_BYTES_MAX)
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
