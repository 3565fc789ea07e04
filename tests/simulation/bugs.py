"""Planted bugs by name, exchanged in the running code: for tests that need a broken core in this very process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation.mutants import MUTANTS
from tests.support.mutants import Mutant, applied

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def bug(name: str) -> Iterator[None]:
    """Run the block with this one of ``MUTANTS`` in the code."""
    planted = next(mutant for mutant in MUTANTS if mutant.name == name)
    module = planted.file.removeprefix("singleton/").removesuffix(".py").replace("/", ".")
    with applied(Mutant(planted.name, module, planted.old, planted.new)):
        yield
