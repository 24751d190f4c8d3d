"""When two requests are the same, and what is remembered to tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.messages import Message, Request, TextBlock
from orchestrator.models.contents import CONVERSATIONS_MAX, Contents, Latest
from tests.models.conversing import opening, reply, then


def test_who_has_not_come_for_longest_is_forgotten() -> None:
    latest: Latest[int] = Latest()
    for number in range(CONVERSATIONS_MAX):
        latest.put((f"t{number}", 1), number)
    latest.put(("t0", 1), 0)
    latest.put(("new", 1), -1)
    assert latest.get(("t1", 1)) is None
    assert (latest.get(("t0", 1)), latest.get(("new", 1)), latest.get(("t2", 1))) == (0, -1, 2)


def test_a_forgotten_conversation_has_the_same_content() -> None:
    contents = Contents()
    request = opening()
    before = contents.of(request)
    for number in range(CONVERSATIONS_MAX):
        contents.of(opening(task=f"t{number}"))
    longer = then(request, reply(1), "one")
    assert contents.of(longer) == Contents().of(longer)
    assert contents.of(longer).beginnings[:1] == before.beginnings
    assert contents.of(longer).head == before.head


def told(texts: list[str], *, task: str = "a", system: str = "s") -> Request:
    messages = tuple(Message(role="user", blocks=(TextBlock(text=text),)) for text in texts)
    return opening(task=task, system=(system,)).model_copy(update={"messages": messages})


some = st.lists(st.sampled_from(["one", "two", "three"]), max_size=5)


@given(st.lists(st.tuples(some, st.sampled_from("st")), min_size=1, max_size=8))
def test_what_was_asked_before_is_no_part_of_it(asked: list[tuple[list[str], str]]) -> None:
    contents = Contents()
    found = {}
    for texts, system in asked:
        content = contents.of(told(texts, system=system))
        assert content == Contents().of(told(texts, system=system, task="b"))
        found[tuple(texts), system] = content.key
    assert len(set(found.values())) == len(found)
