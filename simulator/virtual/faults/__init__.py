"""The faults of virtual worlds. A kind is a class that strikes, and can be drawn, told, saved and shrunk.

To add a kind, write a class in a module of this room, and its kind in `ORDER`. Worlds and judges may not enter.
"""

from __future__ import annotations

from typing import Final

from simulator.virtual.faults import (
    host_faults,
    network_faults,
    point_faults,
    request_faults,
    store_faults,
    wire_faults,
)
from simulator.virtual.faults.world_fault import KINDS, Lasting, WorldFault, fault_from

__all__ = [
    "KINDS",
    "ORDER",
    "Lasting",
    "WorldFault",
    "fault_from",
    "host_faults",
    "network_faults",
    "point_faults",
    "request_faults",
    "store_faults",
    "wire_faults",
]

ORDER: Final = (
    *("partition", "lossy network", "slow network", "failing service", "fading network", "one message"),
    *("crash", "pause", "pause between steps", "blocked loop", "shut down", "clock drift", "operator"),
    *("queue request", "strange error", "failing credentials", "blocked log"),
    *("silenced", "holder dies", "breaks in vain", "short pause"),
    *("state disturbed", "logs disturbed", "log request"),
    *("forgotten connections", "numbered request", "numbered step"),
    *("spoilt answers", "replaced credentials"),
    "seat disturbed",
)
"""The order of `KINDS`: it decides the meaning of a seed."""

for _kind in ORDER:
    KINDS[_kind] = KINDS.pop(_kind)
