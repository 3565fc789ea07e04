"""What hosts saw of leases on the network."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.facts import Acquisition
    from simulator.history.journal import Record

_GRANTED: Final = frozenset({200, 201})


class Leases:
    """Knows which workers were granted leases, and counts their renewals."""

    def __init__(self) -> None:
        self._blobs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        """When a worker was last granted the lease of a blob."""

    def take(self, record: Record, held: Iterable[Acquisition]) -> None:
        """Take a request for a lease and its answer, while locks are ``held``."""
        worker, blob = int(record.get("worker") or 0), record.text("blob")
        granted = record.get("status") in _GRANTED
        theirs = self._blobs[record.host, worker]
        if granted and (record.get("action") == "acquire" or blob in theirs):
            theirs[blob] = record.t
        if record.get("action") != "renew":
            return
        for got in held:
            if (got.host, got.worker) == (record.host, worker) and _is_of(blob, got.blob or got.lock):
                got.asked += 1
                got.renewed += granted
                got.granted += [record.t] * granted

    def known(self, got: Acquisition) -> Acquisition:
        """Note whether its worker was given this lock's lease over the network."""
        theirs = self._blobs[got.host, got.worker].items()
        got.granted = [t for blob, t in theirs if _is_of(blob, got.blob or got.lock)]
        got.seen = bool(got.granted)
        return got


def _is_of(blob: str, lock: str) -> bool:
    """Tell whether this is the path to a lock's blob. The kind of address decides how much is above it."""
    return blob.endswith(f"/{lock}")
