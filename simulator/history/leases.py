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
        self._blobs: dict[tuple[str, int], set[str]] = defaultdict(set)

    def take(self, record: Record, held: Iterable[Acquisition]) -> None:
        """Take a request for a lease and its answer, while locks are ``held``."""
        worker, blob = int(record.get("worker") or 0), record.text("blob")
        granted = record.get("status") in _GRANTED
        if record.get("action") == "acquire" and granted:
            self._blobs[record.host, worker].add(blob)
        if record.get("action") != "renew":
            return
        for got in held:
            if (got.host, got.worker) == (record.host, worker) and _is_of(blob, got.blob or got.lock):
                got.asked += 1
                got.renewed += granted

    def known(self, got: Acquisition) -> Acquisition:
        """Note whether its worker was given this lock's lease over the network."""
        got.seen = any(_is_of(blob, got.blob or got.lock) for blob in self._blobs[got.host, got.worker])
        return got


def _is_of(blob: str, lock: str) -> bool:
    """Tell whether this is the path to a lock's blob. The kind of address decides how much is above it."""
    return blob.endswith(f"/{lock}")
