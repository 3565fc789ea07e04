"""What the checks of workloads have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.virtual.worlds.world import World


@dataclass(slots=True)
class Judge:
    """Blames what breaks a promise in a world."""

    world: World

    def _blame(self, check: str, text: str) -> None:
        self.world.oracle.blame(check, text)
