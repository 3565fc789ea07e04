"""What goes wrong in virtual worlds: each kind a class that strikes, is drawn, told, saved and shrunk.

To add a kind, write a class here, and import it below. Worlds and those who judge them may not enter.
"""

from __future__ import annotations

from simulator.virtual.faults.fault import KINDS, Fault, Lasting, fault_from
from simulator.virtual.faults.hosts import BlockedLoop, Crash, Drift, Operator, Pause, PauseBetweenSteps, ShutDown
from simulator.virtual.faults.network import Fading, Failing, Lossy, OneMessage, Partition, Slow

__all__ = [
    "KINDS",
    "BlockedLoop",
    "Crash",
    "Drift",
    "Fading",
    "Failing",
    "Fault",
    "Lasting",
    "Lossy",
    "OneMessage",
    "Operator",
    "Partition",
    "Pause",
    "PauseBetweenSteps",
    "ShutDown",
    "Slow",
    "fault_from",
]
