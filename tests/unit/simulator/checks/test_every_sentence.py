"""No check without a broken lock or a story of its own: each sentence of the verdict is expected by a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.broken.locks import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
CHECKS: Final = Path(__file__).parents[4] / "simulator" / "checks"
SHORTEST: Final = 8
SAYS: Final = {"violation": 0, "by_function": 1}
"""Functions that make violations, and which of their arguments is the sentence."""


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield the literal texts in a piece of source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sentences() -> Iterator[tuple[str, list[str]]]:
    """Yield where each violation is said, and the words of it that are always the same."""
    for path in sorted(CHECKS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYS:
                words = [text for text in texts_in(node.args[SAYS[node.func.id]]) if len(text) >= SHORTEST]
                if words:
                    yield f"{path.name}:{node.lineno}", words


EXPECTED: Final = {lock.says for lock in BROKEN.values()} | {
    text for path in HERE.glob("test_verdict*.py") for text in texts_in(ast.parse(path.read_text("utf-8")))
}


@pytest.mark.parametrize(("where", "words"), [pytest.param(*each, id=each[1][0][:50]) for each in sentences()])
def test_a_sentence_is_expected_by_a_broken_lock_or_by_a_story(where: str, words: list[str]) -> None:
    def normal(text: str) -> str:
        return re.sub(r"\s+", " ", text).strip()

    said = [text for text in EXPECTED if len(text) >= SHORTEST]
    assert any(normal(word) in text or text in word for word in words for text in said), f"{where}: {words}"
