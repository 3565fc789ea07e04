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


def docstrings(tree: ast.AST) -> set[int]:
    """The ids of all constants that stand as statements: documentation, which nobody meets at run time."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in a module, with its line, but for documentation."""
    tree = ast.parse(path.read_text("utf-8"))
    known = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known:
            yield node.lineno, node.value


def calls_that_speak(tree: ast.AST) -> Iterator[ast.AST]:
    """What makes a message: an exception that is raised, a line that is logged or printed, an option's help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in {"echo", "say", "option", "argument", "debug", "info", "warning", "error", "log"}:
                yield node


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in what makes a message."""
    for call in calls_that_speak(ast.parse(path.read_text("utf-8"))):
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_text_shows_an_internal_number() -> None:
    """In docstrings they stay, as the source of a rule; the reference drops them."""
    found = [(named(path), *text) for path in SOURCES for text in texts(path)]
    assert [text for text in found if NUMBER.search(text[2]) and WORDS.search(text[2])] == []


def test_no_message_shows_an_internal_number() -> None:
    found = [(named(path), *text) for path in SOURCES for text in said(path)]
    assert len(found) > 1000, "they are still found"
    assert [text for text in found if NUMBER.search(text[2])] == []


def not_filled_in(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in an error that has a placeholder and is no f-string."""
    tree = ast.parse(path.read_text("utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    for node in (part for error in errors for part in ast.walk(error)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield from ((node.lineno, text) for text in (node.value,) if NOT_FILLED_IN.search(text))


def test_no_error_has_a_placeholder_that_nothing_fills_in() -> None:
    """An f is forgotten easily, and the text of an error is seen when it is too late."""
    assert [(named(path), *text) for path in SOURCES for text in not_filled_in(path)] == []


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
