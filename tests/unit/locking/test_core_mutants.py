"""A test that has never failed is worth nothing: the core is broken in three dozen ways, and each is noticed.

A mutant changes the source text of the core (tests/support/mutants.py); the test named beside it must then fail. Those
that concern safety must also be found by random schedules, which know nothing of the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.chaos import World
from tests.support.mutants import Mutant, fails_its_test, found_by_random
from tests.support.virtual import run_virtual
from tests.unit.locking import test_lock_schedules as schedules
from tests.unit.locking.core_mutants import OTHERS, UNSAFE

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.planted,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ALL = UNSAFE + OTHERS


def test_the_real_core_passes_all_of_them() -> None:
    for _, test in ALL:
        test()


@pytest.mark.parametrize(("mutant", "test"), ALL, ids=[str(mutant) for mutant, _ in ALL])
def test_each_mutant_of_the_core_fails_its_test(mutant: Mutant, test: Callable[[], object]) -> None:
    fails_its_test(mutant, test)


@pytest.mark.parametrize("mutant", [mutant for mutant, _ in UNSAFE], ids=str)
def test_random_schedules_find_each_unsafe_mutant(mutant: Mutant) -> None:
    found_by_random(mutant, schedules.schedules, lambda schedule: run_virtual(World().play(*schedule)))
