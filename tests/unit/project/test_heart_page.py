"""Whoever reads the files of docs/heart.md has read the lock: they are there, and few enough for an afternoon."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LINES = 4000
TEXT = (ROOT / "docs" / "heart.md").read_text(encoding="utf-8")
FILES = re.findall(r"`(singleton/[\w/]+\.py)`", TEXT)


def test_the_files_have_at_most_four_thousand_lines_together() -> None:
    lines = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert len(lines) == len(FILES) > 10
    assert sum(lines.values()) <= LINES, lines


def test_what_the_page_tells_to_look_for_is_in_one_of_them() -> None:
    sources = "".join((ROOT / file).read_text(encoding="utf-8") for file in FILES)
    names = {name for code in re.findall(r"`([A-Za-z_.]+)(?:\(\))?`", TEXT) for name in code.split(".")}
    assert {name for name in names if not re.search(rf"\b{name}\b", sources)} == set()
