"""Each relative link of the documentation leads to a file that is there, and each anchor to a heading of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import _FENCE, PAGES, ROOT, named
from tools import docs_site

if TYPE_CHECKING:
    from pathlib import Path

LINKED = [*PAGES, *(ROOT / page for page in docs_site.OUTSIDE if page not in ("README.md", "CONTRIBUTING.md"))]
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", page.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: its headings as GitHub slugs them, and those that it names."""
    found: dict[str, int] = {}
    slugs = set()
    for heading in HEADING.finditer(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"])
        slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        slugs.add(f"{slug}-{count}" if count else slug)
    return slugs | set(re.findall(r'id="([^"]+)"', text))


def broken(page: Path, text: str) -> list[str]:
    """Return the links that lead nowhere."""
    wrong = []
    for link in LINK.finditer(text):
        path, _, anchor = link["target"].partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(text if target == page else prose(target))):
            wrong.append(link["target"])
    return wrong


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, prose(page)) == []


@pytest.mark.parametrize("link", ["nowhere.md", "#nowhere", "guarantees.md#nowhere", "../nowhere"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    page = ROOT / "docs" / "index.md"
    assert broken(page, f"# One\n[x]({link}) [y](#one) [z](guarantees.md#what-holds)") == [link]
