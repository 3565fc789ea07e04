"""Planted bugs in listeners, candidacies and what a guard answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

LISTENERS: tuple[Mutant, ...] = ()
