"""Planted bugs in what puts messages back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

DEFERRALS: tuple[Mutant, ...] = ()
