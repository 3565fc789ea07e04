"""How a lock behaves in time."""

from __future__ import annotations

from dataclasses import dataclass

from singleton.base.failover import LOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How a lock behaves in time; all in seconds. Checked by ``SingletonOptions``."""

    period: float = 15.0
    renewal: float | None = None
    poll_min: float = 0.1
    poll_max: float = 5.0
    handoff_window: float = 30.0
    failover: float | None = None

    @property
    def longest_pause(self) -> float:
        """The longest time between two polls."""
        return self.poll_max if self.failover is None else min(self.poll_max, self.failover / LOOKS)
