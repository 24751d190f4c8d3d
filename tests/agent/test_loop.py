"""The loop: which replies run what, how calls are answered, how an attempt ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agent.checks import NOTHING_SAID, check_request
from orchestrator.core.events import FailureReason
from orchestrator.core.products import Change
from orchestrator.core.usage import Usage
from orchestrator.messages import OpaqueBlock, StopReason, TextBlock
from orchestrator.ports import ModelError
from tests.agent.examples import Desk, EndlessModel, ListModel, reply, role, say, use
from tests.agent.rig import results, rig

SUBMIT = use("SubmitChange", summary="done")


@pytest.mark.asyncio
async def test_an_agent_reads_edits_and_hands_in(tmp_path: Path) -> None:
    model = ListModel(
        [
            reply(
                TextBlock(text="I look."), use("Read", file_path="a.txt"), use("Glob", pattern="*")
            ),
            reply(use("Edit", file_path="a.txt", old_string="two", new_string="2")),
            reply(SUBMIT),
        ]
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert (ended.accepted, ended.reason, ended.evidence) == (True, None, "")
        assert attempt.desk.products == [Change(summary="done")]
        assert await attempt.content("a.txt") == "one\n2\n"
        assert (ended.usage.calls, ended.usage.tokens) == (3, 45)

    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        check_request(later, earlier)
        assert len(later.messages) == len(earlier.messages) + 2
    shown = results(model.requests[1].messages[2])
    assert [block.tool_use_id for block in shown] == ["id-Read", "id-Glob"]
    assert "     2\ttwo" in shown[0].content


@pytest.mark.asyncio
async def test_everything_is_in_the_transcript_in_order(tmp_path: Path) -> None:
    thinking = OpaqueBlock(raw={"type": "thinking", "signature": "s"})
    paid = Usage(cache_read_tokens=7, output_tokens=2, usd=0.01, calls=1)
    model = ListModel([reply(thinking, use("Glob", pattern="*"), usage=paid), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        await attempt.run(model)
        written = attempt.written()
    assert written.header is not None
    assert written.header.tools == (
        *("Bash", "Edit", "Glob", "Grep", "Read", "SubmitChange", "TodoWrite", "Write"),
    )
    roles = [entry.message.role for entry in written.entries]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    sent = [entry.message for entry in written.entries]
    assert tuple(sent[:3]) == model.requests[1].messages
    assert written.entries[1].usage == paid
    assert written.entries[1].stop_reason == "tool_use"
    assert thinking in sent[1].blocks
    assert results(sent[4])[0].content == "accepted"


@pytest.mark.asyncio
async def test_a_reply_is_on_disk_before_its_tools_run(tmp_path: Path) -> None:
    command = f'grep -c \'"type":"message"\' {tmp_path / "transcript.jsonl"}'
    model = ListModel([reply(use("Bash", command=command)), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        await attempt.run(model)
    assert results(model.requests[1].messages[2])[0].content == "2\n[exit status 0]"


@pytest.mark.asyncio
async def test_P13_the_first_accepted_product_ends_the_run(tmp_path: Path) -> None:
    model = EndlessModel(
        lambda number: reply(
            use("Read", file_path="a.txt"),
            SUBMIT,
            use("Bash", command="touch after"),
            use("SubmitChange", "second", summary="again"),
        )
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert ended.accepted
        assert len(model.requests) == 1
        assert len(attempt.desk.products) == 1
        assert not attempt.exists("after")
        last = results(attempt.written().entries[-1].message)
    assert [block.content.startswith("not run") for block in last] == [False, False, True, True]


@pytest.mark.asyncio
async def test_a_returned_product_is_an_error_result_and_the_agent_goes_on(tmp_path: Path) -> None:
    model = ListModel([reply(SUBMIT), reply(use("Bash", command="echo mended")), reply(SUBMIT)])
    async with rig(tmp_path, desk=Desk("gate `unit tests` is red:\n3 failed")) as attempt:
        ended = await attempt.run(model)
        assert ended.accepted
        assert len(attempt.desk.products) == 2
    first = results(model.requests[1].messages[2])[0]
    assert first.is_error
    assert first.content == "gate `unit tests` is red:\n3 failed"


@pytest.mark.asyncio
async def test_A02_a_cut_reply_runs_none_of_its_tools(tmp_path: Path) -> None:
    cut = reply(
        TextBlock(text="I write"),
        use("Write", "w", file_path="new.txt"),
        use("Bash", "b", command="rm -rf a.txt"),
        stop="max_tokens",
    )
    model = ListModel([cut, reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert ended.accepted
        assert attempt.exists("a.txt")
        assert not attempt.exists("new.txt")
    answer = results(model.requests[1].messages[2])
    assert [block.tool_use_id for block in answer] == ["w", "b"]
    assert {block.content for block in answer} == {"cut, nothing was run: send it again, smaller"}
    assert model.requests[1].max_tokens > model.requests[0].max_tokens


@pytest.mark.asyncio
async def test_A10_cut_replies_are_asked_for_again_twice_at_most(tmp_path: Path) -> None:
    model = EndlessModel(
        lambda number: reply(use("Bash", f"b{number}", command="echo"), stop="max_tokens")
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
    assert ended.reason == "limit"
    assert "output_too_long" in ended.evidence
    assert len(model.requests) == 3


@pytest.mark.asyncio
async def test_A10_a_cut_reply_without_a_call_is_answered_too(tmp_path: Path) -> None:
    model = ListModel([say("I ramble", stop="max_tokens"), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
    assert "cut at its longest" in model.requests[1].messages[2].text


@pytest.mark.asyncio
async def test_A03_saying_done_is_answered_once_then_a_failure(tmp_path: Path) -> None:
    model = ListModel([say("All tests pass"), say("It is done, really")])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert attempt.desk.products == []
    assert (ended.accepted, ended.reason) == (False, "nothing_handed_in")
    assert "It is done, really" in ended.evidence
    assert "Only a call of SubmitChange hands it in" in model.requests[1].messages[2].text


@pytest.mark.asyncio
async def test_A03_an_agent_that_was_reminded_can_still_hand_in(tmp_path: Path) -> None:
    model = ListModel([say("done"), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted


@pytest.mark.asyncio
async def test_A25_an_empty_reply_is_answered_and_nothing_empty_is_sent(tmp_path: Path) -> None:
    model = ListModel([reply(stop="end_turn"), reply(TextBlock(text=" \n"), SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
        stored = [entry.message for entry in attempt.written().entries]
    assert stored[1].text == NOTHING_SAID
    assert stored[3].blocks == (SUBMIT,)


@pytest.mark.asyncio
async def test_calls_of_a_reply_that_ended_otherwise_are_not_run(tmp_path: Path) -> None:
    odd = reply(use("Bash", command="touch made"), stop="end_turn")
    model = ListModel([odd, reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
        assert not attempt.exists("made")
    answer = model.requests[1].messages[2]
    assert results(answer)[0].content == "not run: the reply did not stop for tools"
    assert "Only a call of SubmitChange" in answer.text


@pytest.mark.asyncio
async def test_a_hand_in_counts_although_the_reply_ends_with_it_and_nothing_else_is_run(
    tmp_path: Path,
) -> None:
    model = ListModel([reply(use("Bash", command="touch made"), SUBMIT, stop="end_turn")])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert not attempt.exists("made")
    assert ended.accepted
    assert len(model.requests) == 1


@pytest.mark.asyncio
async def test_A17_a_refusal_is_final(tmp_path: Path) -> None:
    model = ListModel([reply(stop="refusal")])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
    assert (ended.reason, len(model.requests)) == ("refused", 1)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("stop", "reason", "said"),
    [
        ("model_context_window_exceeded", "limit", "longer than the window"),
        ("unknown", "provider", "unknown"),
    ],
)
async def test_other_ends_run_nothing(
    tmp_path: Path, stop: StopReason, reason: str, said: str
) -> None:
    model = ListModel([reply(use("Bash", command="touch made"), stop=stop)])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
        assert not attempt.exists("made")
    assert ended.reason == reason
    assert said in ended.evidence


@pytest.mark.asyncio
async def test_a_pause_is_continued_with_what_was_said_so_far(tmp_path: Path) -> None:
    model = ListModel([say("so far", stop="pause_turn"), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant"]
    check_request(model.requests[1], model.requests[0])


@pytest.mark.asyncio
async def test_pauses_end(tmp_path: Path) -> None:
    model = EndlessModel(lambda _: say("so far", stop="pause_turn"))
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
    assert (ended.reason, len(model.requests)) == ("provider", 6)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("said", "reason"),
    [("script", "script"), ("provider", "provider"), ("limit", "limit"), ("odd", "provider")],
)
async def test_A16_a_model_that_has_no_answer_ends_the_attempt(
    tmp_path: Path, said: str, reason: FailureReason
) -> None:
    model = ListModel([ModelError(said, "the arguments of a call are no JSON")])
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model)
    assert ended.reason == reason
    assert "the arguments of a call are no JSON" in ended.evidence


@pytest.mark.asyncio
async def test_a_hard_limit_of_the_provider_is_raised(tmp_path: Path) -> None:
    paused = ModelError("pause", "the credit is used up")
    async with rig(tmp_path) as attempt:
        with pytest.raises(ModelError) as caught:
            await attempt.run(ListModel([reply(use("Glob", pattern="*")), paused]))
        assert caught.value is paused
        assert len(attempt.written().entries) == 3


@pytest.mark.asyncio
async def test_A26_a_tool_that_the_role_lacks_is_refused_and_nothing_is_done(
    tmp_path: Path,
) -> None:
    reader = role("Read", "Glob")
    model = ListModel(
        [reply(use("Write", file_path="a.txt", content="x")), say("I wrote it."), say("Done.")]
    )
    async with rig(tmp_path) as attempt:
        ended = await attempt.run(model, acting=reader)
        assert await attempt.content("a.txt") == "one\ntwo\n"
    refused = results(model.requests[1].messages[2])[0]
    assert refused.is_error
    assert refused.content == "there is no tool Write here; there are Glob, Read, SubmitChange"
    assert (ended.accepted, ended.reason) == (False, "nothing_handed_in")


@pytest.mark.asyncio
async def test_A16_arguments_that_make_no_sense_are_told(tmp_path: Path) -> None:
    model = ListModel([reply(use("Bash", cmd="ls"), use("SubmitChange", text="x")), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
    first, second = results(model.requests[1].messages[2])
    assert "command: Field required" in first.content
    assert first.is_error
    assert second.is_error


@pytest.mark.asyncio
async def test_halves_of_surrogate_pairs_never_reach_a_file_or_a_request(tmp_path: Path) -> None:
    odd = use("Write", file_path="odd.txt", content="a\ud800b")
    model = ListModel([reply(odd, use("Read", file_path="no\udfffne")), reply(SUBMIT)])
    async with rig(tmp_path) as attempt:
        assert (await attempt.run(model)).accepted
        assert await attempt.content("odd.txt") == "a\ufffdb"
    model.requests[1].model_dump_json().encode()
