"""Each option has a row in the table of checks that compare it, and the table names checks of the verdict."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Final

from simulator.checks.verdict import judge
from singleton import SingletonOptions
from singleton.decorator import DEFAULTS
from tests.support.journals import good_story

PAGE: Final = Path(__file__).parents[3] / "docs" / "fake-host.md"


def rows() -> dict[str, str]:
    section = PAGE.read_text("utf-8").partition("## Which check compares an option")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (?:`(?=\w+`))?(\w+)`? \|", section, re.MULTILINE))


def test_each_option_has_a_row() -> None:
    of_the_app = {each.name for each in fields(SingletonOptions)} - {"lock_acquisition_timeout"}  # ``timeout`` there
    assert rows().keys() == DEFAULTS.keys() | of_the_app


def test_the_table_names_checks_of_the_verdict() -> None:
    checks = {check.name for check in judge(good_story().end(30)).checks}
    assert set(rows().values()) - {"none"} <= checks
