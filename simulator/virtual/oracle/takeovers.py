"""Failover: whether holders touch their locks, and whether others take only what has been silent for long enough.

entered untouched     a body began under a hold that was not touched before, or whose touch took too long
counts on a touch     a host counts on its hold for too long after the sending of its last touch
wrong touch           what a host wrote on a lock does not say its failover, or another epoch
broken too soon       a host broke a lease whose holder it had not seen silent for long enough, or without a condition
broken blindly        a host ended the lease of a silent holder, and not by the lease id that the holder's mark names
refuted stamp used   a host ends a lease anew by a stamp of which the service has told it that it is of another lease
taken from the living  a lease was taken over from a holder that counted on it, or that need not touch it
not taken over        a holder is dead, somebody able waits, and has not taken its lock over within the bound
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.oracle.conduct import Checks
from singleton.base.failover_mark import LEASE_KEY, MARK_KEY
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.virtual.oracle.evidence import RunningBody
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine

    WaitSpans = Iterable[tuple[Machine, float, float]]

_ROUNDING: Final = 1e-6
_GOOD: Final = 14 / 15
_SILENT: Final = 16 / 15
_A_MOMENT: Final = 1e-3
_WRITES: Final = ("write", "put")
"""Requests that write a stamp, and so a mark."""
_CALLS: Final = 1.0
"""Seconds for the requests of a takeover, without faults."""
_ASKS_AGAIN: Final = 60.0
"""Seconds after which a candidate that was denied asks again, if it has not read before of a holder that touches."""
_PATIENCE: Final = 5.5
"""Seconds for which a host waits for the answer to one request, before it goes on."""


@dataclass(slots=True)
class _Readings:
    """What a machine has read of a lock, by its own clock: one ETag, when first answered and when last requested."""

    etag: str
    first_reply: float
    last_sent: float
    failover: float | None
    lease: str | None


@dataclass(slots=True)
class TakeoverChecks(Checks):
    """Told of requests, of their answers, and of bodies."""

    declared: dict[Machine, set[float | None]] = field(default_factory=dict)
    """The values of failover on each machine, which its touches may have. Other machines are not checked."""
    wanting: list[Callable[[str], WaitSpans]] = field(default_factory=list)
    """Functions that return the callers for a lock: the machine, since when, and its failover."""
    _written: dict[str, float | None] = field(default_factory=dict)
    _changed: dict[str, float] = field(default_factory=dict)
    _touched: dict[str, float] = field(default_factory=dict)
    _took: dict[str, float] = field(default_factory=dict)
    """Seconds of the host's clock that the touch of a lease took that was sent last."""
    _entered: set[str] = field(default_factory=set)
    _readings: dict[tuple[Machine, str], _Readings] = field(default_factory=dict)

    _refuted: Counter[tuple[object, ...]] = field(default_factory=Counter)
    """How often a takeover was refused as of another lease: by its machine, lock, lease id and ETag."""

    def of_lease(self, lease_id: str) -> float | None:
        """Return the failover that was last written under a lease."""
        return self._written.get(lease_id)

    def good_until(self, lease_id: str, failover: float | None) -> float:
        """Return until when the last touch is good that was answered, by the clock of its host."""
        return math.inf if failover is None else self._touched.get(lease_id, -math.inf) + failover * _GOOD

    # --- holders ------------------------------------------------------------------------------------------------------

    def sent(self, request: NetworkRequest) -> None:
        """Take a request."""
        if request.call == "break_":
            self._breaks(request.machine, request.name, request.args[0], None)
        elif request.call == "evict":
            self._must_be_news(request)
            self._breaks(request.machine, request.name, request.args[1], request.args[0])

    def _must_be_news(self, request: NetworkRequest) -> None:
        """A refused stamp is refused once: to each lock of a machine, which may have one for each failover."""
        machine, times = request.machine, self._refuted[request.machine, request.name, *request.args]
        if times >= max(1, len(self.declared.get(machine, ()))):
            again = f"the lease {request.args[0]} of {request.name}, and was told {times} times that it is over"
            self._blame("refuted stamp used", f"{machine.name} ends {again}")

    def answered(self, request: NetworkRequest, failure: Exception | None) -> None:
        """Take what the service has carried out."""
        if request.call not in _WRITES or failure is not None or request.lease_id is None:
            return
        metadata: Mapping[str, str] = request.args[1]
        failover, epoch = _mark_of(metadata)
        mine = failover if epoch == metadata.get(EPOCH_KEY) else None
        before = self._written.get(request.lease_id, mine)
        self._written[request.lease_id] = mine
        self._changed[request.name] = self.evidence.loop.now
        allowed = self.declared.get(request.machine)
        if allowed is not None and (mine not in allowed or mine != before):
            self._blame(
                "wrong touch", f"{request.machine.name} writes failover {failover} of {epoch} on {request.name}"
            )
        if mine is not None:
            self._must_end(request.name, mine)

    def replied(self, request: NetworkRequest, failure: Exception | None, answer: Any) -> None:
        """Take a reply that reaches its host."""
        if request.call == "evict" and isinstance(failure, StoreFailure) and failure.meaning == "lost":
            self._refuted[request.machine, request.name, *request.args] += 1
        if failure is not None:
            return
        if request.call in _WRITES and request.lease_id is not None:
            if request.sent >= self._touched.get(request.lease_id, -math.inf):
                self._touched[request.lease_id] = request.sent
                self._took[request.lease_id] = request.machine.reads(self.evidence.loop.now) - request.sent
            self.evidence.later(_A_MOMENT, self._each_under, request.lease_id, request.name)
        elif request.call == "read":
            self._reads(request, answer)

    def entered(self, body: RunningBody) -> None:
        """Take the beginning of a body."""
        if body.failover is None or self.evidence.operated(body.hold.lease_id):
            return
        self.evidence.reached["bodies of a hold that is touched"] += 1
        lease_id = body.hold.lease_id or ""
        began = f"{body.machine.name} began a body of {body.lock}"
        if lease_id not in self._touched:
            self._blame("entered untouched", f"{began} before it has touched it")
        elif self.of_lease(lease_id) != body.failover:
            self._blame("wrong touch", f"{began}, and has another failover")
        elif lease_id not in self._entered and (took := self._took[lease_id]) > body.failover / 2 + _ROUNDING:
            self._blame("entered untouched", f"{began} after a touch that took {took:.3f} s")
        self._entered.add(lease_id)
        self._must_not_hope(body)

    def _each_under(self, lease_id: str, lock: str) -> None:
        for body in tuple(self.evidence.bodies(lock)):
            if body.hold.lease_id == lease_id and body.failover is not None:
                self._must_not_hope(body)

    def _must_not_hope(self, body: RunningBody) -> None:
        lease = body.hold.own_lost._lease  # noqa: SLF001 - there is no other way to ask a host what it believes
        if lease is None or body.failover is None:
            return
        ends = self.good_until(body.hold.lease_id or "", body.failover)
        if lease.deadline > ends + _ROUNDING and not body.knows():
            hope = f"counts on {body.lock} until {lease.deadline - ends:.3f} s after it should"
            self._blame("counts on a touch", f"{body.machine.name} {hope}")

    # --- those who wait -----------------------------------------------------------------------------------------------

    def _reads(self, request: NetworkRequest, state: Any) -> None:
        machine, key = request.machine, (request.machine, request.name)
        before = self._readings.get(key)
        if before is not None and before.etag == state.etag:
            before.last_sent = request.sent
            return
        failover, epoch = _mark_of(state.metadata)
        live = epoch == state.metadata.get(EPOCH_KEY)
        of, _, lease = state.metadata.get(LEASE_KEY, "").partition("/")
        named = lease if of == state.metadata.get(EPOCH_KEY) else None
        self._readings[key] = _Readings(
            state.etag, machine.reads(self.evidence.loop.now), request.sent, failover if live else None, named
        )

    def _breaks(self, machine: Machine, lock: str, etag: str | None, lease: str | None) -> None:
        """A break has an ETag as condition that was read twice, so far apart by the machine's own clock.

        ``lease``: the id of the lease, if only the lease with this id ends.
        """
        seen = self._readings.get((machine, lock))
        if len(self.declared.get(machine, ())) == 1:  # otherwise it has several locks there, and each reads for itself
            self._readings.pop((machine, lock), None)
        self.evidence.reached["breaks of a silent holder's lease"] += 1
        if seen is None or etag is None or seen.etag != etag:
            self._blame("broken too soon", f"{machine.name} breaks the lease of {lock}, and has not read that twice")
        elif seen.failover is None or seen.last_sent - seen.first_reply < seen.failover * _SILENT - _ROUNDING:
            apart = f"read twice within {seen.last_sent - seen.first_reply:.3f} s, for {seen.failover} s"
            self._blame("broken too soon", f"{machine.name} breaks the lease of {lock}, {apart}")
        elif seen.lease != lease:
            ended = f"ends the lease {lease or 'of whoever has it'} of {lock}"
            self._blame("broken blindly", f"{machine.name} {ended}, and its mark names {seen.lease or 'none'}")

    def taken_over(self, tenure: Tenure) -> None:
        """Take the end of a lease that a host has broken."""
        evidence = self.evidence
        evidence.taken_over.add(tenure.lease_id)
        inside = evidence.inside(tenure)
        for body in inside:
            if not body.machine.crashed and not body.knows():
                self._blame(
                    "taken from the living", f"{tenure.ended_by} broke {tenure.lock}, and {body.machine} has it"
                )
        touched = tenure.lease_id in self._written
        used = bool(inside) or (touched and not self.conduct.gave_back(tenure.lease_id))
        if used and self.of_lease(tenure.lease_id) is None:
            self._blame("taken from the living", f"{tenure.ended_by} broke {tenure.lock}, which need not be touched")
        whose = "a dead holder" if _dead(tenure) else "one alive"
        evidence.reached[f"taken over from {whose}" if touched else "taken over before the first touch"] += 1

    def _must_end(self, lock: str, failover: float) -> None:
        """Check at the time by which every able host would have taken over after the last write."""
        drift = self.evidence.bounds.drift
        for share in (1.0, 1.5, 3.0):
            bound = failover * _SILENT * drift * share + _CALLS
            self.evidence.later(bound, self._must_be_taken, lock, self.evidence.loop.now, failover)

    def _must_be_taken(self, lock: str, written: float, failover: float) -> None:
        evidence, now = self.evidence, self.evidence.loop.now
        tenure = evidence.service.tenure(lock)
        if self._changed[lock] != written or tenure is None or not _dead(tenure):
            return
        if self._written.get(tenure.lease_id) is None:  # it has the lease, but must not begin: who had it before?
            return
        drift = evidence.bounds.drift
        for machine, since, own in [each for want in self.wanting for each in want(lock)]:
            bound = (failover * _SILENT + own / 4) * drift + _CALLS
            begun = max(since, written)
            aside = self.conduct.gives_back(machine, lock, now - begun + evidence.bounds.poll * 1.2)
            seen = self._readings.get((machine, lock))
            aside |= self.conduct.denied(machine, _ASKS_AGAIN) and (seen is None or seen.failover is None)
            able = (
                self.conduct.well(machine, bound + own + _PATIENCE) and not aside and not evidence.runs(machine, lock)
            )
            if now - begun >= bound and able:
                silent = f"{tenure.machine} is dead, and has been silent for {now - written:.1f} s"
                self._blame("not taken over", f"{machine.name} waits for {lock}; {silent}")


def _dead(tenure: Tenure) -> bool:
    return tenure.machine is not None and tenure.machine.crashed


def _mark_of(metadata: Mapping[str, str]) -> tuple[float | None, str]:
    """Return the failover in seconds that stands on a blob, and the epoch that it is for."""
    milliseconds, _, epoch = metadata.get(MARK_KEY, "").partition("/")
    return int(milliseconds) / 1000 if milliseconds.isdigit() else None, epoch
