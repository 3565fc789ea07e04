"""Moments worth reaching: when a fault hits just then, a lock shows its worth. Explorations count them.

renewed at the last moment           a renewal arrived when its lease had less than two seconds left
raced for a lease that expired       two hosts asked for it within a tenth of a second of one another; one got it
raced for a lease that was released  the same, for a lease that was given back
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections import Counter

    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.storage.service import Ending, Tenure

MOMENTS: Final = (
    "renewed at the last moment",
    "raced for a lease that expired",
    "raced for a lease that was released",
)
_LAST: Final = 2.0
_TOGETHER: Final = 0.1


@dataclass(slots=True)
class Moments:
    """Told of leases and of requests as the service carries them out."""

    reached: Counter[str]
    _expires: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, Ending | None] = field(default_factory=dict)
    _raced: set[str] = field(default_factory=set)

    def ended(self, tenure: Tenure) -> None:
        """Take the end of a lease."""
        self._expires.pop(tenure.lease_id, None)
        self._ended[tenure.lock] = tenure.ending

    def answered(self, request: NetworkRequest, failure: Exception | None, tenure: Tenure | None, now: float) -> None:
        """Take a request that was carried out at ``now``; ``tenure`` is who has the lease after it."""
        if tenure is None:
            return
        if failure is None:
            expires = self._expires.get(tenure.lease_id, now + _LAST)
            if request.call == "renew" and expires - now < _LAST:
                self.reached["renewed at the last moment"] += 1
            self._expires[tenure.lease_id] = tenure.expires
        elif request.call == "acquire" and _held(failure) and now - tenure.since <= _TOGETHER:
            self._race(request, tenure)

    def _race(self, request: NetworkRequest, winner: Tenure) -> None:
        if winner.machine in (None, request.machine) or winner.lease_id in self._raced:
            return
        self._raced.add(winner.lease_id)
        match self._ended.get(winner.lock):
            case "expired":
                self.reached["raced for a lease that expired"] += 1
            case "released":
                self.reached["raced for a lease that was released"] += 1


def _held(failure: Exception) -> bool:
    return isinstance(failure, StoreFailure) and failure.meaning == "held"
