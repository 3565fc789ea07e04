"""What stands on a lock's blob as the first body begins under a lease: who has the lock, and for how long.

nobody named    a hold began on a blob that its own process had made, and nobody stands on it
told as older   a hold began, and what stands on the blob is of a hold before it, which would seem to go on
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, OWNER_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.oracle.evidence import Evidence, RunningBody
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.time.machine import Machine


@dataclass(slots=True)
class BlobRecordChecks:
    """Told of what the service has carried out, and of bodies."""

    oracle: Evidence
    strangers: set[Machine] = field(default_factory=set)
    """Machines with an older version, which tells nothing of its holds."""
    _written: set[str] = field(default_factory=set)
    """The leases under which the blob was written."""
    _entered: set[str] = field(default_factory=set)

    def answered(self, request: NetworkRequest, failure: Exception | None) -> None:
        """Take what the service has carried out."""
        if request.call in ("write", "put") and failure is None and request.lease_id is not None:
            self._written.add(request.lease_id)

    def entered(self, body: RunningBody) -> None:
        """Take the beginning of a body: the first under its lease is judged. A listener asks for its lease unnamed."""
        lease_id, tenure = body.hold.lease_id or "", self.oracle.service.tenure(body.lock)
        first = lease_id not in self._entered
        self._entered.add(lease_id)
        counts = body.hold.token is not None and not body.shared and body.machine not in self.strangers
        if first and counts and tenure is not None and tenure.lease_id == lease_id:
            self._judge(body, lease_id, self.oracle.service.metadata(body.lock))

    def _judge(self, body: RunningBody, lease_id: str, metadata: Mapping[str, str]) -> None:
        if EPOCH_KEY not in metadata:
            self.oracle.reached["holds on a blob that was just made"] += 1
            if body.hold.owner and OWNER_KEY not in metadata:
                self.oracle.blame("nobody named", f"{body.machine.name} has made {body.lock}, and nobody stands on it")
        elif lease_id not in self._written:
            self.oracle.reached["holds without a stamp"] += 1
            if (held := metadata.get(HELD_KEY, "0")) != "0":
                told = f"its blob tells of a hold that had lasted {held} s"
                self.oracle.blame("told as older", f"{body.machine.name} has {body.lock}, and {told}")
