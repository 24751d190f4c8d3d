"""Which characters are shown as escapes, to a model and to a person."""

from __future__ import annotations

import unicodedata

from orchestrator.core.characters import without_controls, without_tricks

HARMLESS = "a\tb\nc é 中 🙂 \N{NO-BREAK SPACE}"


def test_what_everybody_sees() -> None:
    assert without_controls(HARMLESS) == without_tricks(HARMLESS) == HARMLESS


def test_no_control_reaches_anybody() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\t\n":
            for shown in (without_controls(character), without_tricks(character)):
                assert shown.isascii()
                assert shown.startswith("\\")
    for character in "\u202e\u2066\u061c\u200f":  # they turn the reading order round
        assert without_controls(character) == f"\\u{ord(character):04x}"


def test_a_model_sees_files_as_they_are_and_a_person_what_hides() -> None:
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}"
    assert without_controls(family) == family
    assert without_tricks(family) == "\N{MAN}\\u200d\N{WOMAN}"
    for hidden in "\u200b\u2060\ufeff\ufff9\U000e0041":
        assert without_controls(hidden) == hidden
        assert without_tricks(hidden) == f"\\u{ord(hidden):04x}"
