"""When an agent goes round in circles, and when it only looks like it."""

from __future__ import annotations

from orchestrator.agent.repeats import Repeats


def turn(
    repeats: Repeats,
    args: dict[str, object],
    result: str,
    *,
    name: str = "Bash",
    failed: bool = False,
    writes: bool = True,
) -> int:
    repeats.new_turn()
    return repeats.count(name, args, result, failed=failed, writes=writes)  # type: ignore[arg-type]


def test_A09_identical_calls_are_counted_turn_by_turn() -> None:
    repeats = Repeats()
    counts = [turn(repeats, {"command": "make"}, "error", failed=True) for _ in range(5)]
    assert counts == [1, 2, 3, 4, 5]


def test_A09_order_of_arguments_and_words_for_people_do_not_matter() -> None:
    repeats = Repeats()
    turn(repeats, {"command": "make", "timeout": 1, "description": "try"}, "error", failed=True)
    again = {"timeout": 1, "description": "try once more", "command": "make"}
    assert turn(repeats, again, "error", failed=True) == 2


def test_A09_durations_and_addresses_in_results_do_not_matter() -> None:
    repeats = Repeats()
    turn(repeats, {"command": "t"}, "1 failed in 0.21s at 0x7f00aa", failed=True)
    assert turn(repeats, {"command": "t"}, "1 failed in 1.02s at 0x7f11bb", failed=True) == 2


def test_A09_a_drifting_number_in_a_failing_call_counts() -> None:
    repeats = Repeats()
    counts = [
        turn(repeats, {"depth": depth}, f"no depth {depth}", name="Find", failed=True, writes=False)
        for depth in range(5)
    ]
    assert counts == [1, 2, 3, 4, 5]


def test_A09_a_drifting_number_in_a_command_counts() -> None:
    repeats = Repeats()
    counts = [turn(repeats, {"command": f"run {n}"}, "refused", failed=True) for n in range(5)]
    assert counts[-1] == 5


def test_paging_through_a_file_is_no_repeat() -> None:
    repeats = Repeats()
    counts = [
        turn(repeats, {"offset": n}, "same line", name="Read", writes=False) for n in range(9)
    ]
    assert set(counts) == {1}


def test_A21_waiting_for_what_changes_is_no_repeat() -> None:
    repeats = Repeats()
    counts = [turn(repeats, {"command": "tail log"}, f"{n} of 60 done") for n in range(20)]
    assert set(counts) == {1}


def test_the_same_check_after_different_edits_is_no_repeat() -> None:
    repeats = Repeats()
    counts = []
    for number in range(8):
        turn(repeats, {"old": str(number)}, "Edited", name="Edit")
        counts.append(turn(repeats, {"command": "test"}, "failed", failed=True))
    assert set(counts) == {1}


def test_A09_edits_that_go_to_and_fro_are_a_repeat() -> None:
    repeats = Repeats()
    counts = []
    for _ in range(6):
        turn(repeats, {"old": "a", "new": "b"}, "Edited", name="Edit")
        counts.append(turn(repeats, {"command": "test"}, "failed", failed=True))
        turn(repeats, {"old": "b", "new": "a"}, "Edited", name="Edit")
    assert max(counts) >= 5


def test_the_same_call_many_times_in_one_turn_counts_once() -> None:
    repeats = Repeats()
    repeats.new_turn()
    counts = [
        repeats.count("Read", {"file_path": "a"}, "x", failed=False, writes=False) for _ in range(6)
    ]
    assert counts == [1] * 6


def test_A09_reading_two_files_in_turns_for_ever_is_a_repeat() -> None:
    repeats = Repeats()
    counts = [
        turn(repeats, {"file_path": path}, path, name="Read", writes=False) for path in "abab" * 3
    ]
    assert counts[-1] == 6
