"""The reference can't drift from the code: its tables are made from it, and name all that is public."""

from __future__ import annotations

from dataclasses import fields

import pytest

import singleton
from singleton import SingletonOptions
from tools import reference

PAGE = "".join(page.read_text(encoding="utf-8") for page in reference.PAGES)


def test_the_tables_are_those_that_the_code_makes() -> None:
    assert reference.made(PAGE) == PAGE, "run python -m tools.reference"


def test_every_part_that_can_be_made_is_in_the_pages() -> None:
    assert {name for name in reference.PARTS if f"<!-- made: {name} -->" in PAGE} == set(reference.PARTS)


@pytest.mark.parametrize("name", singleton.__all__)
def test_everything_public_is_in_the_pages(name: str) -> None:
    assert name in PAGE


@pytest.mark.parametrize("option", fields(SingletonOptions), ids=lambda option: option.name)
def test_every_option_is_there_under_its_name_in_host_json(option: object) -> None:
    assert f"| `{reference.camel(option.name)}` |" in PAGE  # type: ignore[attr-defined]


def test_docstrings_lose_only_their_sources_in_a_table() -> None:
    assert reference.flat("seconds (W-3), above 0 (see M-6 and\nM-7);  ``a | b`` (or so)") == (
        "seconds, above 0; `a \\| b` (or so)"
    )


def test_a_part_that_was_edited_by_hand_is_made_anew() -> None:
    edited = PAGE.replace("| `lockPeriod` | `00:00:15` |", "| `lockPeriod` | `00:00:16` |")
    assert edited != PAGE
    assert reference.made(edited) == PAGE
