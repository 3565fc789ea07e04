"""What a user reads at run time, in errors, logs and help texts: no internal numbers in it, and no missing value."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(path for room in ("singleton", "simulator") for path in (ROOT / room).rglob("*.py"))

NUMBER = re.compile(r"\b(?:[WDMSHX]-\d+\w?|B\d{1,2}|A-\d|R-\d+)\b|§")
"""Numbers of the specification, of lessons and of facts."""
NOT_FILLED_IN = re.compile(r"\{[a-z_][a-z0-9_]*(?:[.\[(][^{}]*|![rs])?\}")
WORDS = re.compile(r"\w+ \w+ \w+")


def texts(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each text in a module, with its line, but for documentation: what stands as a statement, which nobody meets."""
    known = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known:
            yield node.lineno, node.value


def calls_that_speak(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """What makes a message: an exception that is raised, a line that is logged or printed, an option's help."""
    for node in nodes:
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in {"echo", "say", "option", "argument", "debug", "info", "warning", "error", "log"}:
                yield node


def said(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each text in what makes a message."""
    for call in calls_that_speak(nodes):
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def not_filled_in(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each text in an error that has a placeholder and is no f-string."""
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    errors = [node.exc for node in nodes if isinstance(node, ast.Raise) and node.exc is not None]
    for node in (part for error in errors for part in ast.walk(error)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield from ((node.lineno, text) for text in (node.value,) if NOT_FILLED_IN.search(text))


def test_no_text_shows_an_internal_number_and_no_error_has_a_placeholder_that_nothing_fills_in() -> None:
    """In docstrings numbers stay, as the source of a rule; the reference drops them.

    An f is forgotten easily, and the text of an error is seen when it is too late.
    """
    messages = 0
    for path in SOURCES:
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        assert [text for text in texts(nodes) if NUMBER.search(text[1]) and WORDS.search(text[1])] == [], path
        found = [*said(nodes)]
        messages += len(found)
        assert [text for text in found if NUMBER.search(text[1])] == [], path
        assert [*not_filled_in(nodes)] == [], path
    assert messages > 1000, "they are still found"


def test_help_texts_show_no_internal_number() -> None:
    """A command's docstring is its help text."""
    from simulator.cli import cli as simulator
    from singleton.cli.main import cli as locks

    for group in (simulator, locks):
        for command in (group, *group.commands.values()):
            assert not NUMBER.search(command.help or ""), command.name
            assert not any(NUMBER.search(getattr(option, "help", "") or "") for option in command.params), command.name


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("level 'host' needs a scope (W-10)", True),
        ("see B24", True),
        ("facts §6 say so", True),
        ("BlobLeaseNotPresent, 409 of B and W", False),
        ("UTF-8, SHA-256 and ISO-8601", False),
    ],
)
def test_it_knows_an_internal_number(text: str, *, is_one: bool) -> None:
    assert bool(NUMBER.search(text)) is is_one
