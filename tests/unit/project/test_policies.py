"""A policy of contention is in each list: what users read, what `check` says, and what the verdict says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from simulator.appcheck.command import text_report
from simulator.checks import coverage
from singleton import singleton
from singleton.base.kinds import POLICIES
from tools.reference import section

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parents[3]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def quoted(text: str) -> set[str]:
    return set(re.findall(r'"(\w+)"', text))


def row(page: str, begin: str) -> str:
    (found,) = [line for line in read(page).splitlines() if line.startswith(begin)]
    return found


LISTS: Final[dict[str, Iterable[str]]] = {
    "docs/triggers.md, table of policies": quoted(row("docs/triggers.md", '| trigger | `"wait"`')),
    "README.md, row of on_contention": quoted(row("README.md", "| `on_contention` |")),
    "docstring of @singleton, on_contention": quoted(section(singleton, "Args")["on_contention"]),
    "simulator/appcheck/command/text_report.py, _POLICIES": text_report._POLICIES,
    "simulator/checks/coverage.py, _POLICIES": coverage._POLICIES,
}


@pytest.mark.parametrize("place", LISTS)
def test_a_list_of_policies_has_each(place: str) -> None:
    assert set(LISTS[place]) == set(POLICIES)
