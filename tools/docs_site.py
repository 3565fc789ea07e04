"""Make the site of the documentation in build/docs: `make docs`, or `python -m tools.docs_site` (FOLDER for another).

The pages are docs/*.md as they are, CONTRIBUTING.md and CHANGELOG.md, two lists that stand beside their tests, and a
reference that Sphinx makes from the docstrings of all public names. They are copied to build/docs-source, because
Sphinx wants all its pages in one folder.
On the way:

- links to files outside of docs/ get the address that these have on the site, and those from a public name to its
  source lead to its description;
- the sections of docs/index.md become the site's navigation. A page that is linked from one of its pages only is found
  below that page, and one that is linked from none fails the build;
- each module of `MODULES` gets pages for its `__all__`, by kind, and each class one: a new name comes by itself.

A warning of Sphinx is an error: a link or an anchor that leads nowhere fails the build, too.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docs_lists import FOLDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/conformance/numbers.md": "conformance.md",
    "tests/simulation/planted_bugs.md": "mutants.md",
}
"""Pages that are kept beside docs/, and where they are on the site; the README's place is taken by the front page."""
MODULES = {
    "singleton": "",
    "singleton.testing": "For tests of your own functions: [how to](../testing.md).",
    "singleton.patterns.outbox": "The relay of an outbox, whatever its store: [how to](../how-to/outbox.md).",
    "singleton.patterns.sql": "Outbox and row states in your database: [outbox](../how-to/outbox.md), "
    "[row states](../how-to/row-states.md).",
}
"""What the reference describes, and what its page says first."""
KINDS: dict[str, Callable[[object], bool]] = {
    "Functions and decorators": inspect.isroutine,
    "Errors": lambda thing: isinstance(thing, type) and issubclass(thing, BaseException),
    "Classes": lambda thing: isinstance(thing, type),
    "Types": lambda _: True,
}
"""How the names of `singleton` are divided; each name is in the first that fits."""
FENCE = re.compile(r"^ *(?P<fence>```+).*?^ *(?P=fence) *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")


def public(module: str) -> list[str]:
    """Return the public names of a module."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    if names is None:
        names = [
            name
            for name, thing in vars(found).items()
            if getattr(thing, "__module__", None) == module and not name.startswith("_") and isinstance(thing, type)
        ]
    return sorted(names)


def pages_of_reference() -> dict[str, str]:
    """Return the pages that Sphinx fills from docstrings, by their paths, in the order of the navigation."""
    pages = {}
    left = public("singleton")
    for kind, fits in KINDS.items():
        names = [name for name in left if fits(getattr(importlib.import_module("singleton"), name))]
        left = [name for name in left if name not in names]
        place = f"api/{kind.split()[0].lower()}"
        if kind == "Classes":
            listed = ["```{toctree}", ":maxdepth: 1", "", *(f"classes/{name}" for name in names), "```"]
            pages[f"{place}.md"] = "\n".join([f"# {kind} of `singleton`", "", *listed, ""])
            pages |= {f"{place}/{name}.md": _page(name, "", "singleton", [name]) for name in names}
        elif names:
            pages[f"{place}.md"] = _page(f"{kind} of `singleton`", "", "singleton", names)
    for module, intro in MODULES.items():
        if module != "singleton":
            pages[f"api/{module.rpartition('.')[2]}.md"] = _page(f"`{module}`", intro, module, public(module))
    return pages


def home(module: str, name: str) -> str:
    """Return the module that defines a public name."""
    found = importlib.import_module(module)
    place = getattr(found, "_MODULES", {}).get(name) or getattr(getattr(found, name), "__module__", None)
    return str(place or module)


def place_of(module: str, name: str) -> str:
    """Return the place of a public name on the site."""
    return f"{module if _directive(module, name) != 'autodata' else home(module, name)}.{name}"


def _page(title: str, intro: str, module: str, names: list[str]) -> str:
    parts = [f"# {title}", *filter(None, [intro]), "```{eval-rst}\n.. highlight:: python\n```"]
    for name in names:
        kind = _directive(module, name)
        options = "   :show-inheritance:\n" if kind == "autoexception" else ""
        parts += [
            *([f"## {name}"] if name != title else []),
            f"```{{eval-rst}}\n.. {kind}:: {place_of(module, name)}\n{options}```",
        ]
    return "\n\n".join(parts) + "\n"


def _directive(module: str, name: str) -> str:
    thing = getattr(importlib.import_module(module), name)
    if isinstance(thing, type):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(thing) else "autodata"


def placed_in(source: Path, page: Path) -> Path:
    """Return where the site's pages have a page of the project."""
    return source / OUTSIDE.get(str(page.relative_to(ROOT)), os.path.relpath(page, DOCS))


def with_links_of_the_site(page: Path, source: Path) -> str:
    """Return a page's text with links that lead where the site has what they mean."""
    placed = placed_in(source, page)

    def link(found: re.Match[str]) -> str:
        path, mark, anchor = found["target"].partition("#")
        target = (page.parent / path).resolve()
        if not path or ":" in path or (target.is_relative_to(DOCS) and page.is_relative_to(DOCS)):
            return found[0]
        if target.is_relative_to(ROOT / "singleton") and (name := found["text"].strip("`")) in public("singleton"):
            return f"[{found['text']}](#{place_of('singleton', name)})"
        if target.is_relative_to(DOCS):
            there = source / target.relative_to(DOCS)
        elif place := OUTSIDE.get(str(target.relative_to(ROOT))):
            there = source / place
            # The front page has not the headings of the README.
            mark, anchor = (mark, anchor) if place != "index.md" else ("", "")
        elif target.is_file():
            there = source / "files" / target.relative_to(ROOT)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, there)
        else:
            raise SystemExit(f"{page.relative_to(ROOT)} links to {found['target']}, which is not there")
        return f"[{found['text']}]({os.path.relpath(there, placed.parent)}{mark}{anchor})"

    return "".join(piece if code else LINK.sub(link, piece) for code, piece in _divided(page.read_text("utf-8")))


def _divided(text: str) -> Iterator[tuple[bool, str]]:
    """Yield a page piece by piece, and whether it is a block of code."""
    end = 0
    for block in FENCE.finditer(text):
        yield False, text[end : block.start()]
        yield True, block[0]
        end = block.end()
    yield False, text[end:]


def navigation(index: str, reference: list[str]) -> Iterator[str]:
    """Yield a table of contents for each section of the front page, and one for the reference from docstrings."""
    seen = {"index.md"}
    for section in re.split(r"^(?=##+ )", index, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        entries = []
        for link in LINK.finditer(FENCE.sub("", body)):
            path = link["target"].partition("#")[0]
            if path.endswith(".md") and ":" not in path and path not in seen:
                seen.add(path)
                entries.append(f"{link['text'].replace('`', '')} <{path}>")
        if heading.strip("# ") == "Reference":
            entries += reference
        if entries:
            yield _toctree(heading.strip("# "), entries)


def _toctree(caption: str, entries: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries, "```"])


def _hang_up_the_others(source: Path, listed: list[str]) -> None:
    """Put pages that the front page does not list below the first page that links to them.

    A page of a folder is below the page that is named as the folder, if there is one.
    """
    for page in listed:  # which grows
        owners = {place: f"{Path(place).parent}.md" for place in _linked(source, page) if place not in listed}
        found = [place for place, owner in owners.items() if owner == page or not (source / owner).is_file()]
        if found:
            listed += found
            with (source / page).open("a", encoding="utf-8") as file:
                file.write(f"\n\n{_toctree('', [f'/{place}' for place in found])}\n")


def _linked(source: Path, page: str) -> list[str]:
    """Return the pages that a page links to, each once, in their order."""
    file = source / page
    text = "".join("" if code else piece for code, piece in _divided(file.read_text("utf-8")))
    paths = (link["target"].partition("#")[0] for link in LINK.finditer(text))
    targets = ((file.parent / path).resolve() for path in paths if path.endswith(".md") and ":" not in path)
    return list(dict.fromkeys(os.path.relpath(target, source) for target in targets if target.is_file()))


def gather(source: Path) -> None:
    """Put all that the site is made from into this folder."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("__pycache__"))
    for page in (*DOCS.rglob("*.md"), *(ROOT / name for name, place in OUTSIDE.items() if place != "index.md")):
        placed = placed_in(source, page)
        text = with_links_of_the_site(page, source)
        placed.write_text(FOLDED.get(placed.name, str)(text), "utf-8")
    reference = pages_of_reference()
    for path, text in reference.items():
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_text(text, "utf-8")
    index = source / "index.md"
    text = index.read_text("utf-8")
    trees = list(navigation(text, [path for path in reference if "/classes/" not in path]))
    index.write_text("\n\n".join([text, *trees]) + "\n", "utf-8")
    _hang_up_the_others(
        source, ["index.md", *re.findall(r"^(?:.* <)?([\w/-]+\.md)>?$", "\n".join(trees), re.MULTILINE)]
    )


def build(source: Path, site: Path) -> int:
    """Let Sphinx make the site; return its exit code, which is not 0 after a warning."""
    from sphinx.cmd.build import main as sphinx

    shutil.rmtree(site, ignore_errors=True)
    # Pages that are gone, and anchors that were renamed, are remembered by nobody.
    trees = source.with_name("docs-trees")
    shutil.rmtree(trees, ignore_errors=True)
    return sphinx(["-q", "-W", "--keep-going", "-j", "2", "-d", str(trees), str(source), str(site)])


def main(arguments: list[str]) -> int:
    """Make the site, and say where it is."""
    folder = Path(arguments[0]).absolute() if arguments else BUILD
    site = folder / "docs"
    gather(folder / "docs-source")
    code = build(folder / "docs-source", site)
    if code == 0:
        sys.stdout.write(f"The site is made. Open {(site / 'index.html').as_uri()}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
