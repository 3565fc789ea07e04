"""The address of a lock and its timing: the registry's key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from singleton.locking.phase import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.kinds import Stamp
    from singleton.settings.accounts import LockContainer
    from singleton.settings.options import SingletonOptions


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

    @staticmethod
    def of(place: LockContainer, name: str, options: SingletonOptions, stamp: Stamp = "token") -> Address:
        """Return the address of the lock ``name`` under the options."""
        return address_maker(options, stamp)(place, name)


_timing = lru_cache(64)(Timing)
"""Shared by locks with equal timing."""


def address_maker(options: SingletonOptions, stamp: Stamp = "token") -> Callable[[LockContainer, str], Address]:
    """Return a function which returns the address of a lock under the options: container, name."""
    timing = _timing(
        period=options.lock_period,
        renewal=options.renewal_interval,
        poll_min=options.lock_acquisition_min_polling_interval,
        poll_max=options.lock_acquisition_polling_interval,
        handoff_window=options.handoff_window,
        failover=options.failover,
    )
    return partial(Address, timing=timing, stamp=stamp if options.fencing_tokens else "none")
