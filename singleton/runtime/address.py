"""The address of a lock and its timing: the registry's key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from singleton.locking.phase import Timing

if TYPE_CHECKING:
    from singleton.base.kinds import Stamp
    from singleton.settings.accounts import LockContainer
    from singleton.settings.options import SingletonOptions

_timing = lru_cache(64)(Timing)
"""Shared by locks with equal timing."""


@dataclass(frozen=True, slots=True)
class Address:
    """Container, blob name, timing and stamp of a lock."""

    place: LockContainer
    name: str
    timing: Timing
    stamp: Stamp = "token"

    def __hash__(self) -> int:
        """Return the hash of the name, which a string caches: an acquisition looks the lock up several times."""
        return hash(self.name)

    @property
    def blob(self) -> tuple[LockContainer, str]:
        """Container and name of the blob."""
        return self.place, self.name

    @classmethod
    def of(cls, place: LockContainer, name: str, options: SingletonOptions, stamp: Stamp = "token") -> Address:
        """Return the address of the lock ``name`` under the options."""
        timing = _timing(
            period=options.lock_period,
            renewal=options.renewal_interval,
            poll_min=options.lock_acquisition_min_polling_interval,
            poll_max=options.lock_acquisition_polling_interval,
            handoff_window=options.handoff_window,
            failover=options.failover,
        )
        return cls(place, name, timing, stamp if options.fencing_tokens else "none")
