"""For tests of guarded functions: locks in memory, waits without real time, other instances. See docs/testing.md."""

from __future__ import annotations

from singleton.testing.acts import Headcount, always_busy, assert_no_leases_left, disabled, held_elsewhere, lose
from singleton.testing.app_check import check_app
from singleton.testing.memory import memory_locks
from singleton.testing.virtual import virtual_time

__all__ = [
    "Headcount",
    "always_busy",
    "assert_no_leases_left",
    "check_app",
    "disabled",
    "held_elsewhere",
    "lose",
    "memory_locks",
    "virtual_time",
]
