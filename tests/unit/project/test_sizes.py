"""A module and a function are short enough to be read at once, or on a list that says why they are not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.project.limits import FUNCTION_LINES, LONG_FUNCTIONS, LONG_MODULES, MODULE_LINES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("singleton", "simulator", "tools", "benchmarks")
MODULES = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for folder in FOLDERS
    for file in sorted((ROOT / folder).rglob("*.py"))
}


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from ``def`` to the end: decorators and comments above are not counted."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_a_module_has_at_most_five_hundred_lines_or_a_reason() -> None:
    assert len(MODULES) > 300
    long = {module for module, source in MODULES.items() if len(source.splitlines()) > MODULE_LINES}
    assert long == LONG_MODULES.keys()


def test_a_function_has_at_most_seventy_lines_or_a_reason() -> None:
    long = {
        f"{module}:{function.name}"
        for module, source in MODULES.items()
        for function in functions(source)
        if lines_of(function) > FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS.keys()


def test_each_reason_is_one() -> None:
    assert all(len(reason.split()) > 3 for reason in (*LONG_MODULES.values(), *LONG_FUNCTIONS.values()))
