"""Fold the long lists of the site: a table is closed until somebody opens it, and each part of a list has a heading.

The lists stand beside the tests that read them. `FOLDED` names their places on the site.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from tests.simulation.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Callable

_TABLE: Final = re.compile(r"(?P<head>^\|.*\n\| ---.*\n)(?P<rows>(?:^\|.*\n?)+)", re.MULTILINE)
_ROOMS: Final = {mutant.name: "/".join(PurePath(mutant.file).parent.parts[:2]) for mutant in MUTANTS}


def _folded(text: str) -> str:
    def fold(table: re.Match[str]) -> str:
        count = len(table["rows"].splitlines())
        return f"<details>\n<summary>{count} rows</summary>\n\n{table[0].rstrip()}\n\n</details>\n"

    return _TABLE.sub(fold, text)


def _by_room(text: str) -> str:
    """Return the page of planted bugs with a table for each part of the source."""

    def divide(table: re.Match[str]) -> str:
        rooms: defaultdict[str, list[str]] = defaultdict(list)
        for row in table["rows"].splitlines(keepends=True):
            rooms[_ROOMS[row.split("|")[1].strip()]].append(row)
        return "\n".join(f"## {room}\n\n{table['head']}{''.join(rows)}" for room, rows in sorted(rooms.items()))

    return _folded(_TABLE.sub(divide, text))


FOLDED: Final[dict[str, Callable[[str], str]]] = {"conformance.md": _folded, "mutants.md": _by_room}
"""What becomes of a page that is a list."""
