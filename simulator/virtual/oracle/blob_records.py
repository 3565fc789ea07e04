"""What stands on a lock's blob as the first body begins under a lease: who has the lock, and for how long.

nobody named    a hold began on a blob that its own process had made, and nobody stands on it
told as older   a hold began, and what stands on the blob is of a hold before it, which would seem to go on
another named   a host wrote who has its lock, and somebody else of that host was inside
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, OWNER_KEY, header_safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.oracle.evidence import Evidence, RunningBody
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.time.machine import Machine

_LATELY: Final = 1.0
"""Seconds for which a body was inside before a request that must name its caller."""


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
            if float(request.args[1].get(HELD_KEY, "0")) > 0:
                self._must_be_inside(request, request.lease_id, request.args[1])

    def _must_be_inside(self, request: NetworkRequest, lease_id: str, written: Mapping[str, str]) -> None:
        """Judge what is written at a renewal: all that time one body was inside, which the record must name."""
        machine = request.machine
        for body in self.oracle.bodies(request.name):
            lasted = request.sent - machine.reads(body.since)
            mine = body.hold.lease_id == lease_id and body.hold.owner and not body.shared
            if not mine or lasted < _LATELY:
                continue
            self.oracle.reached["holds named at a renewal"] += 1
            if written.get(OWNER_KEY) != header_safe(body.hold.owner):
                named = f"names {written.get(OWNER_KEY)!r}, and {body.hold.owner!r} is inside"
                self.oracle.blame("another named", f"{machine.name} writes on {body.lock} who has it: it {named}")

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
