"""The site of the documentation: it is made without a warning, has all that is public, and needs no other host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import singleton
from simulator.azurite.install import node
from tests.docs.pages import ROOT
from tools import docs_lists, docs_site, docs_tables

if TYPE_CHECKING:
    from pathlib import Path

FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"[^>]*>')
"""What a browser would ask another host for, by itself."""

BROWSER = """
var SPHINX_HIGHLIGHT_ENABLED = false, window = globalThis, document = { getElementById: () => null };
var _ready = () => {}, _ = (text) => text;
"""
ASKED = """
const first = (query) => Search._performSearch(...Search._parseQuery(query)).at(-1)?.[0];
console.log(JSON.stringify(Object.fromEntries(process.argv.slice(2).map((query) => [query, first(query)]))));
"""
FIRST = {
    "TryAcquireAsync": "how-to/from-distributedlock",
    "lockAtMostFor": "how-to/at-least-at-most",
    "is_locked": "faq",
    "max_instances": "how-to/names",
    "celery": "how-to/names",
    "403": "operations",
    "firewall": "operations",
    "AuthorizationFailure": "operations",
    "idempotency": "how-to/once",
    "semaphore": "how-to/semaphore",
    "acquire_lease": "how-to/from-own-code",
    "leader election": "how-to/leader",
    "VNet": "operations",
    "mock": "testing",
}
"""What people type, and the page that the search of the site has first."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "tools.docs_site", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{(folder / 'docs' / 'index.html').as_uri()}" in result.stdout
    return folder / "docs"


@pytest.mark.process
def test_it_has_all_pages_and_they_are_found_from_each(site: Path) -> None:
    navigation = (site / "tutorial.html").read_text("utf-8").split('class="sidebar-tree"', 1)[1].split("</aside>")[0]
    for page in docs_site.DOCS.rglob("*.md"):
        place = page.relative_to(docs_site.DOCS).with_suffix(".html")
        assert (site / place).is_file()
        assert place.name in {"index.html", "tutorial.html"} or f'href="{place}"' in navigation


@pytest.mark.process
@pytest.mark.parametrize("module", docs_site.MODULES)
def test_it_describes_all_that_is_public(site: Path, module: str) -> None:
    reference = "".join(page.read_text("utf-8") for page in (site / "api").rglob("*.html"))
    names = docs_site.public(module)
    assert names
    assert [name for name in names if f'id="{docs_site.place_of(module, name)}"' not in reference] == []


def test_a_new_name_of_the_package_comes_by_itself() -> None:
    assert docs_site.public("singleton") == sorted(singleton.__all__)


@pytest.mark.process
@pytest.mark.parametrize("name", docs_lists.FOLDED)
def test_a_list_is_closed_until_somebody_opens_it(site: Path, name: str) -> None:
    page = (site / name).with_suffix(".html").read_text("utf-8")
    (listed,) = (ROOT / file for file, place in docs_site.OUTSIDE.items() if place == name)
    rows = re.findall(r"^\| (?!number|planted|---)", listed.read_text("utf-8"), re.MULTILINE)
    assert sum(map(int, re.findall(r"<details>\s*<summary>(\d+) rows", page))) == len(rows) > 300
    assert page.count("<table") == page.count("<details>") > 5


@pytest.mark.process
def test_a_browser_asks_no_other_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert FETCHED.findall(page.read_text("utf-8")) == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text("utf-8")), style


@pytest.mark.process
def test_each_picture_is_there(site: Path) -> None:
    shown = {
        page: re.findall(r'<(?:img|source)\b[^>]*?(?:src|srcset)="([^"]+)"', page.read_text())
        for page in site.rglob("*.html")
    }
    assert sum(map(len, shown.values())) > 8
    assert [file for page, files in shown.items() for file in files if not (page.parent / file).is_file()] == []


@pytest.mark.process
def test_the_search_finds_what_people_type_and_the_page_that_helps_comes_first(site: Path) -> None:
    scripts = "".join(
        (site / name).read_text("utf-8")
        for name in ("_static/searchtools.js", "_static/language_data.js", "searchindex.js")
    )
    command = [str(node()), "-", *FIRST]
    script = f"{BROWSER}{scripts}{ASKED}"
    result = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout) == FIRST


@pytest.mark.process
@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("[x](nowhere.md)", "nowhere.md"),
        ("[x](#nowhere)", "nowhere"),
        ("[x](other.md#nowhere)", "nowhere"),
        ("A note.[^none]", "none"),
    ],
)
def test_a_link_or_a_note_that_leads_nowhere_fails_the_build(tmp_path: Path, page: str, said: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text((docs_site.DOCS / "conf.py").read_text("utf-8"))
    (source / "_static").mkdir()
    (source / "index.md").write_text(f"# One\n\n{page}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Two\n")
    code = (
        "import pathlib, sys; from tools import docs_site; sys.exit(docs_site.build(*map(pathlib.Path, sys.argv[1:])))"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert said in result.stderr


def test_links_out_of_the_docs_lead_to_places_of_the_site(tmp_path: Path) -> None:
    text = docs_site.with_links_of_the_site(ROOT / "CONTRIBUTING.md", tmp_path)
    assert "(docs/" not in text
    assert "(architecture.md)" in text


def test_a_page_that_only_another_page_links_to_is_below_that(tmp_path: Path) -> None:
    pages = {"index.md": "# I", "list.md": "[x](why/x.md) [i](index.md) [z](own/z.md)", "why/x.md": "[y](y.md#a)"}
    for name, text in {**pages, "own.md": "[z](own/z.md)", "own/z.md": "# Z"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "why" / "y.md").write_text("[list](../list.md) [gone](gone.md)")
    docs_site._hang_up_the_others(tmp_path, ["index.md", "list.md", "own.md"])
    below = {page.name: re.findall(r"^/(.*)$", page.read_text(), re.MULTILINE) for page in tmp_path.rglob("*.md")}
    found = {"list.md": ["why/x.md"], "own.md": ["own/z.md"], "x.md": ["why/y.md"]}
    assert below == {"index.md": [], "y.md": [], "z.md": [], **found}


def test_each_section_of_the_front_page_is_one_of_the_navigation() -> None:
    start = "## Start\n\n- [One `x`](one.md): y\n- [Two](two.md#z)\n\n"
    index = f"# A\n\n{start}## None\n\nWords.\n\n## Reference\n\n[One](one.md)\n"
    first, reference = docs_site.navigation(index, ["api/x.md"])
    assert first.splitlines()[2:] == [":caption: Start", "", "One x <one.md>", "Two <two.md>", "```"]
    assert reference.splitlines()[2:] == [":caption: Reference", "", "api/x.md", "```"]


def test_a_long_name_may_break_and_a_cell_carries_the_head_of_its_column() -> None:
    table = (
        '<table class="docutils"><tr><th class="head"><p>an <b>option</b></p></th><th class="head"><p></p></th></tr>'
        '<tr><td><code class="x">short_name</code></td><td>tests/unit/test_one.py::test_two</td></tr></table>'
    )
    assert docs_tables.fitting(f'<code class="x">lock_acquisitionPollingInterval</code>{table}') == (
        '<code class="x long">lock_<wbr/>acquisition<wbr/>Polling<wbr/>Interval</code>'
        + table.replace("<td><code", '<td data-head="an option"><code').replace(
            "tests/unit/test_one.py::test_two", "tests/<wbr/>unit/<wbr/>test_<wbr/>one.<wbr/>py::<wbr/>test_<wbr/>two"
        )
    )
