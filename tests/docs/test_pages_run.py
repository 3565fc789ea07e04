"""Each block of Python in the documentation runs: page by page, in order, with locks in memory."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING

import pytest

from singleton.testing import memory_locks
from tests.docs.pages import PAGES, ROOT, _bound, blocks, has_prelude, named, prelude
from tests.docs.running import Shown
from tests.support.lock_thread import an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ELSEWHERE = {
    "docs/durable.md": "tests/unit/project/test_docs_of_triggers.py",
    "docs/how-to/in-order.md": "tests/unit/patterns/ordered/test_ordered_docs.py",
    "docs/how-to/outbox.md": "tests/unit/patterns/test_patterns_docs.py",
    "docs/how-to/row-states.md": "tests/unit/patterns/test_patterns_docs.py",
    "docs/testing.md": "tests/unit/testing/test_testing_docs.py",
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/why/database-lock.md": "tests/unit/project/test_docs_of_questions.py",
}
"""Pages whose Python is run by tests of their own, from the first block to the last."""
NEVER_CALLED = {
    ("docs/how-to/from-own-code.md", "# before"): "the code that is to be replaced; its leases last for a real minute",
    ("docs/why/durable-singletons.md", "from typing import Dict"): "asks the Durable host, as the starter "
    "of docs/durable.md does, which is called",
}
"""Blocks whose functions are defined and not called, by page and first line, and why. Keep it short."""
HERE = [
    page for page in PAGES if named(page) not in ELSEWHERE and any(block.language == "python" for block in blocks(page))
]


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    with memory_locks():
        yield


@pytest.mark.parametrize("page", HERE, ids=named)
def test_the_python_of_a_page_runs(page: Path) -> None:
    shown = Shown(page)
    shown.run()
    excused = {line for name, line in NEVER_CALLED if name == named(page)}
    never_ran = shown.never_ran()
    assert set(never_ran) == excused, f"call them in {prelude(page)}.afterwards(shown): {never_ran}"


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_that_is_run_elsewhere_is_named_there(page: str) -> None:
    assert any(block.language == "python" for block in blocks(ROOT / page)), f"{page} has none: take it off the list"
    assert page.rpartition("/")[2] in (ROOT / ELSEWHERE[page]).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_shows_all_that_its_python_uses_in_order(page: Path) -> None:
    known = {"__name__"}
    for block in blocks(page):
        if block.language == "python":
            assert block.lacks - known == set(), f"{block}: show it above, on the page itself"
            known |= block.defines


def test_each_prelude_is_that_of_a_page() -> None:
    used = {prelude(page): page for page in PAGES if has_prelude(page)}
    files = (ROOT / "tests" / "docs" / "preludes").glob("*.py")
    assert {f"tests.docs.preludes.{file.stem}" for file in files} == set(used)


@pytest.mark.parametrize("page", [page for page in PAGES if has_prelude(page)], ids=named)
def test_a_prelude_gives_a_page_no_name(page: Path) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(prelude(page))))
    imported = (ast.Import, ast.ImportFrom)
    defined = {name for statement in tree.body if not isinstance(statement, imported) for name in _bound(statement)}
    assert {name for name in defined if name[0] != "_"} <= {"afterwards", "beforehand"}


def test_the_pages_that_are_excused_are_there() -> None:
    assert {page for page, _ in NEVER_CALLED} <= {named(page) for page in HERE}
    assert set(ELSEWHERE) <= {named(page) for page in PAGES}
