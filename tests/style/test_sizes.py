"""Modules and functions stay small enough to be read in one go."""

from __future__ import annotations

from tests.style.source import modules, report

PROGRAM_MODULE_LINES_MAX = 400
TEST_MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


def test_no_module_is_too_long() -> None:
    problems = []
    for module in modules():
        limit = TEST_MODULE_LINES_MAX if module.is_in("tests/") else PROGRAM_MODULE_LINES_MAX
        if module.lines > limit:
            problems.append(f"{module.path}: {module.lines} lines, at most {limit}")
    assert not problems, report(problems, "Part the module by what changes together:")


def test_no_function_is_too_long() -> None:
    problems = []
    for module in modules():
        for function in module.functions():
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                problems.append(
                    f"{module.path}:{function.lineno}: {function.name} has {lines} lines, "
                    f"at most {FUNCTION_LINES_MAX}"
                )
    assert not problems, report(problems, "Name the steps of the function and call them:")
