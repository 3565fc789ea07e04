"""Planted bugs in what stands around locks: calls, clients, registry, slots, leaderships, periodic work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

CLIENTS: tuple[Mutant, ...] = ()
