"""What the documentation shows works: its Python compiles, its apps index, its links lead somewhere."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks() -> list[Any]:
    found = [
        (page, number, code) for page in PAGES for number, code in enumerate(BLOCK.findall(page.read_text("utf-8")))
    ]
    return [pytest.param(code, id=f"{named(page)}-{number}") for page, number, code in found]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings as they are slugged, and those that it names."""
    text = page.read_text("utf-8")
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}
    return slugs | set(re.findall(r'id="([^"]+)"', text))


@pytest.mark.parametrize("code", blocks())
def test_python_in_the_docs_compiles(code: str) -> None:
    compile(textwrap.dedent(code), "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.mark.parametrize("code", [block for block in blocks() if "FunctionApp(" in block.values[0]])
def test_an_app_in_the_docs_indexes(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "shown", "save": lambda *_, **__: None}
    exec(compile(code, str(tmp_path / "function_app.py"), "exec", dont_inherit=True), names)  # noqa: S102 - ours
    assert names["app"].get_functions()
    if "observe" in names:
        names["observe"]()()  # takes the place of the page's, and ends: it would go on in other tests


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{named(page)} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target), f"{named(page)} links to {link}: no such heading"
