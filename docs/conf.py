"""How Sphinx makes the site. `make docs` starts it, by tools/docs_site.py, which says what the site is made from."""

from __future__ import annotations

import inspect
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any

from tools.docs_site import DOCS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "azure-functions-singleton"
author = "the authors of azure-functions-singleton"
release = metadata.version(project)
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "tools.docs_search",
    "tools.docs_tables",
]
# Code without a language is what a terminal shows.
highlight_language = "text"
suppress_warnings: list[str] = []

myst_heading_anchors = 6
myst_footnote_sort = False

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "inherited-members": True}
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
# Docstrings are Google's style; `x` in them is code.
default_role = "code"
napoleon_numpy_docstring = False
# Each attribute is an entry of its own, which the search finds.
napoleon_use_ivar = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "azure-functions-singleton"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "search.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
# The "$ " of a terminal is not copied, nor what a command prints.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True

_MADE = ("AsyncLockClient", "Contention", "SingletonOptions")
_SOURCE = re.compile(r" \((?:see )?[WDMSHBA]-?\d+[^()]*\)")
"""Numbers of tests/conformance/numbers.md, which stand in the docstrings for those who change the code."""


def _readable(_: object, what: str, __: str, ___: object, ____: object, lines: list[str]) -> None:
    """Leave out of a docstring what is not for its users. Sphinx wants the list itself changed."""
    lines[:] = _SOURCE.sub("", "\n".join(lines)).splitlines()
    if what in {"attribute", "data", "property"} and lines:
        # Napoleon takes what stands before a colon in the first line for a type.
        lines[0] = lines[0].replace(": ", " – ")  # noqa: RUF001 - meant


def _signature(
    _: object, what: str, __: str, thing: object, ___: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show how a class is made only where its users make it: its docstring has arguments then, or it is settings."""
    made = what != "class" or "Args:" in (inspect.getdoc(thing) or "") or getattr(thing, "__name__", "") in _MADE
    return (signature if made and what != "exception" else "", returns)


def _left_out(_: object, what: str, __: str, ___: object, skip: object, ____: object) -> object:
    """Leave out the members of errors: their users read the kind and the attributes."""
    return True if what == "exception" else skip


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what this file adds to Sphinx."""
    # Before napoleon, which takes 500 and makes fields of the sections.
    app.connect("autodoc-process-docstring", _readable, priority=400)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _left_out)
    return {"parallel_read_safe": True}
