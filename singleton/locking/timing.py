"""How a lock behaves in time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How a lock behaves in time; all in seconds. Checked by ``SingletonOptions``."""

    period: float = 15.0
    renewal: float | None = None
    poll_min: float = 0.1
    poll_max: float = 5.0
    handoff_window: float = 30.0
