"""A request as the test server sees it, what may answer it, and the policies that do.

A policy is a function: it is given the conversation so far and returns the model's next turn. It
keeps nothing between calls: the number of replies in the request says which turn is due, so a
client that was killed and comes back is answered where it was.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from orchestrator.documents import load_document

Raw = dict[str, Any]
"""A JSON object as it came over the wire, or will go."""

_TASK = re.compile(r"^# Task `([^`\n]+)`", re.MULTILINE)
_ATTEMPT = re.compile(r"^## This is attempt (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One parsed request."""

    body: Raw
    task: str
    """The task that the first message names; empty where it names none."""
    attempt: int
    digest: str
    """Its name: 16 hex digits made from the first message. All its requests have the same."""

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.body["model"])

    @property
    def messages(self) -> list[Raw]:
        """What was said so far."""
        return list(self.body["messages"])

    @property
    def turn(self) -> int:
        """How many replies there are: the number of the turn that is due."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def last_results(self) -> str:
        """What the last user message says: results of tools and text, in order."""
        last = self.messages[-1]
        return "\n".join(text_of(block) for block in blocks_of(last)) if _is_user(last) else ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says next."""

    blocks: tuple[Raw, ...] = ()
    """Content blocks of the API. The server fills in ids of calls and signatures of thoughts."""
    stop_reason: str | None = None
    """Left out: `tool_use` with calls, else `end_turn`. With `max_tokens` the last call is cut."""
    stop_details: Raw | None = None

    @property
    def ends_with(self) -> str:
        """Why it stops."""
        calls = any(block["type"] == "tool_use" for block in self.blocks)
        return self.stop_reason or ("tool_use" if calls else "end_turn")


Policy = Callable[[Conversation], Turn]


class OffScript(Exception):
    """The policy has nothing to say; the client is told so with status 400."""


def say(text: str) -> Raw:
    """A block of text."""
    return {"type": "text", "text": text}


def think(text: str) -> Raw:
    """A thought; its signature is the server's."""
    return {"type": "thinking", "thinking": text}


def call(name: str, arguments: Mapping[str, object] | None = None, /, **more: object) -> Raw:
    """A call of a tool; its id is the server's."""
    return {"type": "tool_use", "name": name, "input": {**(arguments or {}), **more}}


def read_conversation(body: Raw) -> Conversation:
    """The conversation of a request that has been found acceptable."""
    opening = "\n".join(text_of(block) for block in blocks_of(body["messages"][0]))
    task, attempt = _TASK.search(opening), _ATTEMPT.search(opening)
    return Conversation(
        body=body,
        task=task[1] if task else "",
        attempt=int(attempt[1]) if attempt else 1,
        digest=sha256(opening.encode()).hexdigest()[:16],
    )


def blocks_of(message: Raw) -> list[Raw]:
    """Content of a message as blocks: a plain string is one block of text."""
    content = message["content"]
    return [say(content)] if isinstance(content, str) else list(content)


def text_of(block: Raw) -> str:
    """Text of a block of text or of a tool's result, else nothing."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    content = block.get("content", "") if block.get("type") == "tool_result" else ""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(inner) for inner in content)


def signature(model: str, thought: str) -> str:
    """The signature that binds a thought to the model that had it."""
    return base64.b64encode(sha256(f"{model}\0{thought}".encode()).digest()).decode()


def finished(turn: Turn, conversation: Conversation, tried: int | None = None) -> Turn:
    """The turn with ids and signatures: the same for each try, or with the try's number in them."""
    prefix = f"toolu_{conversation.digest}_{conversation.turn}"
    if tried is not None:
        prefix += f"_{tried}"
    blocks = []
    for place, block in enumerate(turn.blocks):
        if block["type"] == "tool_use" and "id" not in block:
            block = {"type": "tool_use", "id": f"{prefix}_{place}", **block}
        if block["type"] == "thinking" and "signature" not in block:
            block = {**block, "signature": signature(conversation.model, block["thinking"])}
        blocks.append(block)
    return Turn(tuple(blocks), turn.ends_with, turn.stop_details)


def _is_user(message: Raw) -> bool:
    return bool(message["role"] == "user")


# --- policies ---------------------------------------------------------------------------------


def turns_policy(*turns: Turn) -> Policy:
    """The same turns for every conversation."""

    def policy(conversation: Conversation) -> Turn:
        if conversation.turn >= len(turns):
            raise OffScript(f"there is no turn {conversation.turn + 1}")
        return turns[conversation.turn]

    return policy


def tasks_policy(policies: Mapping[str, Policy], otherwise: Policy | None = None) -> Policy:
    """A policy for each task, by the id that the first message names, and one for all others."""

    def policy(conversation: Conversation) -> Turn:
        chosen = policies.get(conversation.task, otherwise)
        if chosen is None:
            raise OffScript(f"nobody speaks for task `{conversation.task}`")
        return chosen(conversation)

    return policy


def thoughtful(policy: Policy) -> Policy:
    """The same turns, each opened by a thought: what models do that cannot but think."""

    def thinking(conversation: Conversation) -> Turn:
        turn = policy(conversation)
        thought = f'Turn {conversation.turn} of {conversation.task}: \u00e9\u2028\U0001f600 \\ "'
        return Turn((think(thought), *turn.blocks), turn.stop_reason, turn.stop_details)

    return thinking


@dataclass(frozen=True, slots=True)
class _Script:
    tasks: Mapping[str, list[Raw]] = field(repr=False)

    def __call__(self, conversation: Conversation) -> Turn:
        task, attempt, index = conversation.task, conversation.attempt, conversation.turn
        keys = (f"{task}#{attempt}", task, "*")
        turns = next((self.tasks[key] for key in keys if key in self.tasks), [])
        if index >= len(turns):
            raise OffScript(f"script exhausted: no turn {index + 1} for task `{task}`")
        turn = turns[index]
        expected = turn.get("expect")
        if expected is not None and expected not in conversation.last_results:
            raise OffScript(
                f"task `{task}`, turn {index + 1}: expected `{expected}` in the last results"
            )
        text = (say(turn["say"]),) if turn.get("say") else ()
        calls = turn.get("calls") or []
        calls = calls if isinstance(calls, list) else [calls]
        asked = (call(name, arguments) for one in calls for name, arguments in one.items())
        return Turn((*text, *asked), turn.get("stop_reason"))


def script_policy(script: Path | Mapping[str, list[Raw]]) -> Policy:
    """Plays a file of the scripted model, or its tasks: one turn for each reply so far."""
    if not isinstance(script, Path):
        return _Script(json.loads(json.dumps(script)))
    document = load_document(script.read_bytes(), str(script)).data
    assert isinstance(document, dict)
    return _Script(json.loads(json.dumps(document["tasks"])))
