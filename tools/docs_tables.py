"""Lets the tables of the site fit into any window: a part of Sphinx for docs/conf.py.

A long name in code or in a table may break where its words meet. Each cell carries the head of its column:
docs/_static/site.css shows it on a phone, where a table is a list of its rows.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONG = 24
"""A name with more characters may break."""
_NAME = re.compile(rf"[^\s<>]{{{LONG + 1},}}")
_CODE = re.compile(r'<code class="(?P<kind>[^"]*)">(?P<text>.*?)</code>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_TEXT = re.compile(r"(?:^|(?<=>))[^<]+")
_JOINT = re.compile(r"(?<=[_/.:,(=])(?=\w)|(?<=[a-z])(?=[A-Z])")
_TABLE = re.compile(r'<table class="docutils.*?</table>', re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)


def fitting(body: str) -> str:
    """Return a page whose long names may break, and whose cells carry the heads of their columns."""
    return _TABLE.sub(lambda table: _breakable(_with_heads(table[0])), _CODE.sub(_code, body))


def _code(code: re.Match[str]) -> str:
    kind = f"{code['kind']} long" if len(_plain(code["text"])) > LONG else code["kind"]
    return f'<code class="{kind}">{_breakable(code["text"])}</code>'


def _breakable(html: str) -> str:
    return _TEXT.sub(lambda text: _NAME.sub(lambda name: _JOINT.sub("<wbr/>", name[0]), text[0]), html)


def _with_heads(table: str) -> str:
    heads = [_plain(head) for head in _HEAD.findall(table)]

    def with_heads(row: re.Match[str]) -> str:
        cells = row[0].split("<td")
        if len(cells) != len(heads) + 1:
            return row[0]
        named = (f' data-head="{escape(head)}"' if head else "" for head in heads)
        return cells[0] + "".join(f"<td{name}{cell}" for name, cell in zip(named, cells[1:], strict=True))

    return _ROW.sub(with_heads, table)


def _plain(html: str) -> str:
    return unescape(_TAG.sub("", html)).strip()


def _fit(_: object, __: str, ___: str, context: dict[str, Any], ____: object) -> None:
    if "body" in context:
        context["body"] = fitting(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this part to Sphinx."""
    app.connect("html-page-context", _fit)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
