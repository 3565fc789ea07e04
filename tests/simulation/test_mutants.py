"""Every planted bug is noticed, or we do not know that exploring notices anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation import mutant_table
from tests.simulation.exchange import exchange
from tests.simulation.mutants import MUTANTS
from tests.simulation.planting import ROOT, SCENARIOS, Hunter, planted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.simulation.planted.mutant import Mutant

_TABLE = (ROOT / "tests" / "simulation" / "planted_bugs.md").read_text(encoding="utf-8")
_FOUND_AFTER = mutant_table.found_after(_TABLE)


@pytest.fixture(scope="session")
def hunter() -> Iterator[Hunter]:
    with Hunter() as running:
        yield running


@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_bug_is_found(hunter: Hunter, mutant: Mutant) -> None:
    # Where it was found last time is where to look first.
    catch = hunter.hunt(mutant, first=_FOUND_AFTER.get(mutant.name, 1))
    assert catch.check is not None, f"{mutant.name}: {mutant.breaks}, and nobody noticed in {SCENARIOS} scenarios"


def test_there_are_many_planted_bugs_each_with_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 90
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_planted_bug_that_only_tests_can_see_says_why() -> None:
    by_tests = [mutant for mutant in MUTANTS if mutant.by]
    assert all(mutant.why for mutant in by_tests)
    assert len(by_tests) < len(MUTANTS) / 5


def test_what_was_planted_can_not_rot() -> None:
    with pytest.raises(AssertionError, match="stands 0 times"):
        planted(MUTANTS[0], "some other source")
    twice = MUTANTS[0].old * 2
    with pytest.raises(AssertionError, match="stands 2 times"):
        planted(MUTANTS[0], twice)


def test_a_bug_is_planted_in_what_is_imported_already_only_if_it_is_within_functions(tmp_path: Path) -> None:
    right = "LIMIT = 3\ndef few(n):\n    return n < LIMIT\ndef many(n=1):\n    return not few(n)\n"
    file = tmp_path / "counting.py"
    counting: dict[str, Any] = {}
    exec(compile(right, str(file), "exec", dont_inherit=True), counting)  # noqa: S102 - our own
    for old, new in (("= 3", "= 4"), ("n=1", "n=2"), ("def few", "def less")):
        assert not exchange(str(file), right, right.replace(old, new)), new
    assert counting["few"](2)
    assert exchange(str(file), right, right.replace("not few(n)", "few(n)"))
    assert counting["many"](2)
    assert not exchange(str(tmp_path / "elsewhere.py"), right, right.replace("not few(n)", "few(n)"))


@pytest.mark.process
def test_the_source_without_a_planted_bug_is_found_innocent_by_the_same_hunt(hunter: Hunter) -> None:
    assert hunter.hunt(None, scenarios=20).check is None


def test_the_table_in_the_docs_has_the_same_planted_bugs() -> None:
    assert mutant_table.names_in(_TABLE) == [mutant.name for mutant in MUTANTS], (
        "run python -m tests.simulation.mutant_table"
    )
