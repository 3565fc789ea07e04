"""docs/guarantees.md names what shows each of its statements; none of that may be missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.virtual.search.story_report import promises
from simulator.virtual.workloads import builtin  # noqa: F401 - registers the workloads

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
STATEMENTS, PROOFS = TEXT.split("\n## What shows it\n")
DEFINED = dict(re.findall(r"^\[\^(\w+)\]:(.*?)(?=^\[\^|\Z)", PROOFS, re.MULTILINE | re.DOTALL))
STATED = ("Assumed", "What holds", "Bounds", "What does not hold", "Storage trouble")
TESTS = sorted(set(re.findall(r"`(tests/[^`]+)`", PROOFS)))


def section(title: str) -> str:
    return STATEMENTS.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def statements(title: str) -> list[str]:
    """Return the items and table rows of a section."""
    items = re.findall(r"^- .*?(?=^- |^\S(?<!-)|\Z)", section(title), re.MULTILINE | re.DOTALL)
    rows = [line for line in section(title).splitlines() if line.startswith("| ") and "---" not in line]
    return items + rows[1:]


@pytest.mark.parametrize("title", STATED)
def test_every_statement_says_what_shows_it(title: str) -> None:
    found = statements(title)
    assert found
    assert not [statement for statement in found if "[^" not in statement]


def test_every_mark_leads_to_tests_and_every_proof_is_used() -> None:
    used = set(re.findall(r"\[\^(\w+)\]", STATEMENTS))
    assert used == set(DEFINED)
    for mark, proof in DEFINED.items():
        assert re.search(r"`tests/[^`]+`", proof), mark


def test_what_is_named_exists() -> None:
    assert len(TESTS) > 100
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in {test.partition("::")[0] for test in TESTS}}
    for path, _, name in (test.partition("::") for test in TESTS):
        there = not name or re.search(rf"^(async )?def {name}\(", sources[path], re.MULTILINE)
        assert there, f"{path} has no {name}"


def test_the_checks_of_the_oracle_that_are_named_are_made() -> None:
    named = re.findall(r"\*([a-z][a-z\s]+)\*", section("Exploring"))
    assert len(named) > 10
    files = [*(ROOT / "simulator" / "virtual").rglob("*.py"), *(ROOT / "tests" / "worlds").rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    assert not [name for name in named if f'"{" ".join(name.split())}"' not in source]


def unchecked(rows: list[str]) -> list[str]:
    """Return the rows of the table of bounds that name no check, or a check that there is not."""
    judges = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "simulator" / "checks").glob("*.py"))
    made = promises()
    wrong = []
    for row in rows:
        runs, worlds = row.split(" | ")[-3:-1]
        functions, checks = re.findall(r"`(\w+)`", runs), re.findall(r"\*([a-z ]+)\*", worlds)
        there = [f"\ndef {name}(" in judges for name in functions] + [name in made for name in checks]
        if not there or not all(there):
            wrong.append(row)
    return wrong


def test_every_bound_names_its_check_of_real_runs_or_of_worlds() -> None:
    rows = statements("Bounds")
    assert len(rows) > 10
    assert unchecked(rows) == []


@pytest.mark.parametrize(
    "checks", ["| |", "| `_never_made` | *starved*", "| `_turns` | *never made*", "| | *never made*"]
)
def test_a_bound_without_a_check_or_with_one_that_there_is_not_is_refused(checks: str) -> None:
    row = f"| a waiter has tea | *5 s* {checks} | [^taken] |"
    assert unchecked([row]) == [row]


def test_the_bounds_are_those_of_the_code() -> None:
    from singleton.locking.fencing import SECTIONS
    from singleton.locking.lease import MARGIN
    from singleton.settings.options import SingletonOptions

    assert pytest.approx(1 / 15) == MARGIN
    assert f"`token = epoch · {SECTIONS} + section`" in STATEMENTS
    options = SingletonOptions()
    known = (options.lock_period, options.lock_acquisition_polling_interval, options.handoff_window)
    assert known == (15.0, 5.0, 30.0)
    assert "`lockPeriod`, 15 s" in STATEMENTS
    assert "polling interval (5 s)" in STATEMENTS
    assert "hand-over window (30 s)" in STATEMENTS
