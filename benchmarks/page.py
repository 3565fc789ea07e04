"""The tables of docs/performance.md: each stands between two markers, and is replaced by what was measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE: Final = Path(__file__).parent.parent / "docs" / "performance.md"


def replaced(text: str, section: str, rows: Sequence[Sequence[str]], note: str) -> str:
    """Return the page's text with these rows, the first of them the head, and a line below them.

    Its places are marked as those of ``tools/reference.py`` are.

    Raises:
        ValueError: the page has no such section.
    """
    begin, end = f"<!-- made: {section} -->\n", "<!-- end -->"
    aligned = ["---", *(["---:"] * (len(rows[0]) - 1))]
    lines = [f"| {' | '.join(row)} |" for row in (rows[0], aligned, *rows[1:])]
    made = "\n".join([*lines, "", note, ""])
    changed, count = re.subn(
        f"(?s){re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}{made}{end}", text, count=1
    )
    if not count:
        raise ValueError(f"{PAGE.name} has no section {section!r}: put {begin.strip()} and {end} where it is to stand")
    return changed


def write(section: str, rows: Sequence[Sequence[str]], note: str) -> None:
    """Replace a section of the page."""
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), section, rows, note), "utf-8")
