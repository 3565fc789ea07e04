"""Planted bugs in which lock and which account: connections, host ids, names, layouts, options."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

NAMES: tuple[Mutant, ...] = ()
