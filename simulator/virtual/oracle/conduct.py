"""The requests of hosts to the service, and the reasons for which hosts lose or keep leases.

used after release   a request under the id of a lease that its host has given back
used after its store  a request by a connection that its host has closed
used after closing   a request for a lock by a process that has closed its locks
flood                a host asks for a taken lock again and again without a pause
left to lapse        a lease of a live host ran out, and nothing but that host can be the reason
lost in peace        a hold expired although one renewal at the most went wrong
false loss           a host was told that its lease was taken away, and nobody had taken it
expired too soon     a hold was lost as expired before its deadline: 14/15 of its period after the last granted request
renewed late         a host sent a renewal later than its interval says, and no request of it had gone wrong
released for long    a host tries to release a lease after the five seconds for that
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.storage.network import SOON
from singleton.base.hold import single_holds
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.oracle.evidence import Evidence, RunningBody
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine

_WINDOW: Final = 10.0
_MOST_IN_WINDOW: Final = 40
"""Failed attempts of one host for one lock within the window: polling slows down to some seconds."""
_SECOND_TRY: Final = 4.0
"""Seconds within which a release without an answer is sent again and answered."""
_SLOW: Final = 0.1
"""Seconds of a request's way and back, above which several touches in a row may go wrong."""
_GOOD: Final = 14 / 15
_ROUNDING: Final = 1e-3
_RELEASE: Final = 5.0
"""Seconds in which a release is tried."""
_IN_TURN: Final = 0.5
"""Seconds that a renewal may wait for its turn among others."""
_STILL_ASKING: Final = 11.0
"""Seconds after an attempt without an answer within which the next one comes."""


@dataclass(slots=True)
class Checks:
    """Checks that look at the evidence of a world, and at the conduct of its hosts."""

    evidence: Evidence
    conduct: Conduct

    def _blame(self, check: str, text: str) -> None:
        self.evidence.blame(check, text)


@dataclass(frozen=True, slots=True)
class _Sent:
    at: float
    good: bool
    hopeless: bool
    """Whether the answer says that another request is useless."""


@dataclass(slots=True)
class Conduct:
    """Told of each request and each reply."""

    evidence: Evidence
    _releases: dict[str, list[_Sent]] = field(default_factory=lambda: defaultdict(list))
    _kept: set[str] = field(default_factory=set)
    _closing: dict[str, float] = field(default_factory=dict)
    _closed: set[str] = field(default_factory=set)
    _led: set[str] = field(default_factory=set)
    _doubled: set[str] = field(default_factory=set)
    """Ids under which the second copy of a request may acquire the lease, long after the answer to the first."""
    _asked: dict[str, float] = field(default_factory=dict)
    _periods: dict[str, float] = field(default_factory=dict)
    _granted: dict[str, float] = field(default_factory=dict)
    """When the last request for a lease was sent that was granted and answered in time, by the clock of its host."""
    _known: set[str] = field(default_factory=set)
    """The ids of leases of which their hosts have heard."""
    _last: dict[tuple[str, str], float] = field(default_factory=dict)
    _gave_back: dict[tuple[str, str], float] = field(default_factory=dict)
    _refused: dict[tuple[str, str], float] = field(default_factory=dict)
    _last_renewal: dict[str, float] = field(default_factory=dict)
    _renewals: dict[str, list[_Sent]] = field(default_factory=lambda: defaultdict(list))
    _bad: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    _condition_failed: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a host was last told that a blob, or its lease, is another one than it thought."""
    _in_vain: dict[tuple[str, str], deque[float]] = field(default_factory=lambda: defaultdict(deque))
    _silent_since: dict[tuple[str, str], float] = field(default_factory=dict)
    _trouble: dict[str, float] = field(default_factory=dict)
    _denied: dict[str, float] = field(default_factory=dict)
    _strange: dict[str, float] = field(default_factory=dict)
    attempts: dict[tuple[Machine, str], float] = field(default_factory=dict)
    """When each machine last asked for a lock."""
    reads: dict[tuple[Machine, str], float] = field(default_factory=dict)
    """When each machine last read a lock's blob, to see who has the lock: not for a stamp under its own lease."""
    keeps: Callable[[Tenure], bool] = lambda _: False
    """Tells whether a host has a reason to keep a lease without a body inside: a set of locks, or ``at_least``."""

    asked_by: Callable[[str], int] = lambda _: 0
    """Returns how many ask for a lock beside its waiters, each by itself and with pauses of its own."""

    touched: Callable[[str], float | None] = lambda _: None
    """Returns the failover of a lease that is touched."""

    touch_ends: Callable[[str, float | None], float] = lambda *_: math.inf
    """Returns until when the last touch of a lease with a failover is good, by the clock of its host."""

    # --- for others who judge -----------------------------------------------------------------------------------------

    def troubled(self, machine: Machine, seconds: float) -> bool:
        """Tell whether a request of a machine went wrong in the last ``seconds``."""
        return self.evidence.loop.now - self._trouble.get(machine.name, float("-inf")) <= seconds

    def well(self, machine: Machine, seconds: float) -> bool:
        """Tell whether a machine was up in the last ``seconds``, and none of its requests went wrong."""
        return not machine.stopped_since(seconds) and not self.troubled(machine, seconds)

    def met_trouble(self, machine: Machine, lock: str, since: float) -> bool:
        """Tell whether a request for a lock, one of its slots or its seat went wrong, or was slow, since a time."""
        bad = {place: times[-1] for place, times in self._bad.items() if times}
        met = (*bad.items(), *self._condition_failed.items())
        return any(at >= since for (host, name), at in met if host == machine.name and name.startswith(lock))

    def denied(self, machine: Machine, seconds: float) -> bool:
        """Tell whether the service denied a machine anything in the last ``seconds``."""
        return self.evidence.loop.now - self._denied.get(machine.name, float("-inf")) <= seconds

    def strange(self, machine: Machine, seconds: float) -> bool:
        """Tell whether a machine's store raised what no store should in the last ``seconds``."""
        return self.evidence.loop.now - self._strange.get(machine.name, float("-inf")) <= seconds

    def last_sent(self, machine: Machine, lock: str) -> float:
        """Return when a machine last sent a request for a lock."""
        return self._last.get((machine.name, lock), float("-inf"))

    def refused_since(self, machine: Machine, lock: str, since: float) -> bool:
        """Tell whether the service has told a machine, at that time or later, that it does not have a lock."""
        return self._refused.get((machine.name, lock), float("-inf")) >= since

    def asked(self, lease_id: str) -> float:
        """Return when an acquire of a lease was last sent."""
        return self._asked.get(lease_id, float("-inf"))

    def last_renewal(self, lease_id: str) -> float:
        """Return when a renewal of a lease was last requested."""
        return self._last_renewal.get(lease_id, float("-inf"))

    def lapses(self, lease_id: str) -> float:
        """Return when a lease has lapsed by the clock of its host, which counts from its last request for the lease."""
        sent = max(self.last_renewal(lease_id), self.asked(lease_id))
        return sent + self._periods.get(lease_id, math.inf) * self.evidence.bounds.drift

    def gives_back(self, machine: Machine, lock: str, seconds: float) -> bool:
        """Tell whether a machine sent a release of a lock in the last ``seconds``: it may be under way."""
        return self.evidence.loop.now - self._gave_back.get((machine.name, lock), float("-inf")) <= seconds

    def asks(self, machine: Machine, lock: str) -> bool:
        """Tell whether a request of a machine for a lock may be under way, without faults."""
        return self.evidence.loop.now - self.last_sent(machine, lock) < SOON

    def silent_since(self, request: NetworkRequest) -> float:
        """Return since when the service has answered no attempt of this kind."""
        return self._silent_since[request.machine.name, request.name]

    def gave_back(self, lease_id: str) -> bool:
        """Tell whether the host has asked the service to end this lease."""
        return lease_id in self._releases

    def closing(self, machine: Machine) -> None:
        """Receive the beginning of a machine's end.

        A lease with a body inside is left to expire: that is right (B10).
        """
        self._closing[machine.name] = self.evidence.loop.now
        mine = [tenure for tenure in self.evidence.service.tenures() if tenure.machine is machine]
        kept = [each for each in mine if self.evidence.inside(each) or self.keeps(each) or machine.stopped]
        self._kept |= {tenure.lease_id for tenure in kept}

    def entered(self, body: RunningBody) -> None:
        """Receive the beginning of a body. A body that begins while its process ends keeps its lease too."""
        if body.machine.name in self._closing:
            self._kept |= {each.lease_id or "" for each in single_holds(body.hold)}

    def closed(self, machine: Machine) -> None:
        """Receive the end of the closing: leases without a running body are released.

        A machine that stood still meanwhile may have used up the five seconds that closing waits for storage.
        """
        self._closed.add(machine.name)
        if machine.stopped_since(self.evidence.loop.now - self._closing[machine.name]):
            return
        for tenure in self.evidence.service.tenures():
            if tenure.machine is machine and tenure.lease_id not in self._kept | self._doubled | set(self._releases):
                self.evidence.blame(
                    "left to lapse", f"{machine.name} ended, and left the lease of {tenure.lock} to lapse"
                )

    # --- requests -----------------------------------------------------------------------------------------------------

    def sent(self, request: NetworkRequest, passage: Passage) -> None:
        """Take a request, and what the network will do to it."""
        now = self.evidence.loop.now
        machine = request.machine
        self._last[machine.name, request.name] = now
        if not passage.good:
            self._trouble[machine.name] = now
        if not passage.good or passage.out + passage.back > _SLOW:
            self._bad[machine.name, request.name].append(now)
        if request.closed and not machine.leaving:
            act = f"{request.call} of {request.name}"
            self.evidence.blame(
                "used after its store", f"{machine.name} sends {act} by a connection that it has closed"
            )
        if request.call == "read" and not self._has(machine, request.name):
            self.reads[machine, request.name] = now
        if passage.strange:
            self._strange[machine.name] = now
        if (lease_id := request.lease_id) is None:
            return
        if machine.name in self._closed:
            self.evidence.blame("used after closing", f"{machine.name} sends a {request.call} of {request.name}")
        sent = _Sent(now, passage.good, passage.denied or passage.strange)
        if request.call == "release":
            self._must_still_try(request, lease_id)
            self._releases[lease_id].append(sent)
            self._gave_back[machine.name, request.name] = now
            return
        if lease_id in self._releases:
            act = f"{request.call} of {request.name}"
            self.evidence.blame("used after release", f"{machine.name} sends {act} under an id that it has given back")
        if request.call == "acquire":
            self._asked[lease_id] = now
            self._periods[lease_id] = float(request.args[1])
            self.attempts[machine, request.name] = now
            self._silent_since.setdefault((machine.name, request.name), now)
            if passage.copies > 1:
                self._doubled.add(lease_id)
        if request.call == "renew":
            self._must_be_in_time(request, lease_id)
            self._renewals[lease_id].append(sent)
            self._last_renewal[lease_id] = now

    def _has(self, machine: Machine, lock: str) -> bool:
        has = self.evidence.service.tenure(lock)
        return has is not None and has.machine is machine

    def replied(self, request: NetworkRequest, failure: Exception | None, answer: Any = None) -> None:
        """Take a reply that reaches its host: an error, or an answer."""
        now = self.evidence.loop.now
        told = isinstance(failure, StoreFailure) and failure.meaning != "transient"
        status = failure.status if isinstance(failure, StoreFailure) and told else None
        if request.call == "renew" and request.lease_id is not None and failure is None:
            self._renewals[request.lease_id].clear()
            if request.machine.reads(now) < self.deadline(request.lease_id):
                self._granted[request.lease_id] = request.sent
        if request.call == "acquire" and failure is None:
            self._known.add(request.lease_id or "")
            self._granted[request.lease_id or ""] = request.sent
        if failure is None or told:
            self._silent_since.pop((request.machine.name, request.name), None)
        if status in (401, 403):
            self._denied[request.machine.name] = now
        if status == 412:
            self._condition_failed[request.machine.name, request.name] = now
        refused = status in (404, 409, 412) and request.call in ("acquire", "write", "put")
        if refused or (request.call == "read" and failure is None and answer.held):
            self._refused[request.machine.name, request.name] = now
        if status == 409 and request.call == "acquire":
            times = self._in_vain[request.machine.name, request.name]
            times.append(now)
            while times[0] < now - _WINDOW:
                times.popleft()
            if len(times) > _MOST_IN_WINDOW + _WINDOW * self.asked_by(request.name):
                often = f"{len(times)} times in {now - times[0]:.1f} s"
                self.evidence.blame("flood", f"{request.machine.name} asks for {request.name} {often}")
                times.clear()

    def deadline(self, lease_id: str) -> float:
        """Return when a lease counts as lost by its renewals, by the clock of its host; never, if it is not known."""
        return self._granted.get(lease_id, math.inf) + self._periods.get(lease_id, math.inf) * _GOOD

    def _must_be_in_time(self, request: NetworkRequest, lease_id: str) -> None:
        """Judge when a renewal is sent: after a request that went wrong, others come sooner."""
        machine, bounds = request.machine, self.evidence.bounds
        pause = self.evidence.loop.now - max(self.last_renewal(lease_id), self.asked(lease_id))
        interval = bounds.renewals.get(self._periods.get(lease_id, math.inf), math.inf)
        if pause > interval * bounds.drift + _IN_TURN and self.well(machine, pause + _IN_TURN):
            late = f"{pause:.1f} s after the last request, and its interval is {interval:g} s"
            self.evidence.blame("renewed late", f"{machine.name} renews {request.name} {late}")

    def _must_still_try(self, request: NetworkRequest, lease_id: str) -> None:
        tries = self._releases.get(lease_id)
        tried = self.evidence.loop.now - tries[0].at if tries else 0.0
        if tried > _RELEASE * self.evidence.bounds.drift and not request.machine.stopped_since(tried):
            held = f"{tried:.1f} s after the first release, and a release may take {_RELEASE:g} s"
            self.evidence.blame("released for long", f"{request.machine.name} still releases {request.name} {held}")

    # --- leases -------------------------------------------------------------------------------------------------------

    def lapsed(self, tenure: Tenure, machine: Machine) -> None:
        """Judge a lease that expired with nobody inside: was a release sent, and could it succeed?"""
        if machine.stopped_since(self.evidence.bounds.period) or tenure.lease_id in self._kept | self._doubled:
            return
        now = self.evidence.loop.now
        releases = self._releases.get(tenure.lease_id, [])
        known = tenure.lease_id in self._known
        if not releases and known and (tenure.lease_id in self._led or self.keeps(tenure)):
            self._ran_out(machine, tenure.lock, [tenure.lease_id])
            return
        if not releases and now - self._asked.get(tenure.lease_id, now) > _STILL_ASKING:
            self.evidence.blame("left to lapse", f"{machine.name} left the lease of {tenure.lock} to lapse")
        if not releases:
            return
        overtaken = releases[-1].at < tenure.since
        late = releases[0].at > now - _SECOND_TRY
        bad = sum(not release.good for release in releases)
        if machine.name in self._closed and bad == len(releases):  # it waits five seconds for storage, and ends
            return
        if not overtaken and not late and bad <= 1 and not any(release.hopeless for release in releases):
            self.evidence.blame("left to lapse", f"{machine.name} did not get rid of the lease of {tenure.lock}")

    def lost(self, body: RunningBody, reason: str | None) -> None:
        """Judge the loss of a hold with a body inside."""
        machine, lease_id = body.machine, body.hold.lease_id or ""
        ids = [each.lease_id or "" for each in single_holds(body.hold)]
        if reason in ("stolen", "broken", "blob gone") and not any(map(self.evidence.ended_by_others, ids)):
            self.evidence.blame(
                "false loss", f"{machine.name} is told that {body.lock} is {reason}, and nobody did that"
            )
        if reason != "expired" or machine.stopped_since(self.evidence.bounds.period * self.evidence.bounds.drift):
            return
        if (failover := self.touched(lease_id)) is None or not self._often_bad(machine, body.lock, within=failover):
            self._ran_out(machine, body.lock, ids)
        ends, has = min(map(self.deadline, ids)), self.evidence.service.tenure(body.lock)
        early = min(ends, self.touch_ends(lease_id, failover)) - machine.reads(self.evidence.loop.now)
        if _ROUNDING < early < math.inf and has is not None and has.lease_id == lease_id:
            soon = f"{early:.1f} s before its deadline, 14/15 of its period after the last granted request"
            self.evidence.blame("expired too soon", f"{machine.name} is told that {body.lock} is expired, {soon}")

    def _often_bad(self, machine: Machine, lock: str, *, within: float) -> bool:
        """Tell whether more than one request for a lock went wrong lately: then a touched hold may be lost."""
        since = self.evidence.loop.now - within * self.evidence.bounds.drift
        return sum(at >= since for at in self._bad[machine.name, lock]) > 1

    def leads(self, tenure: Tenure) -> None:
        """Receive the beginning of a listener's lease: it is kept without a body inside."""
        self._led.add(tenure.lease_id)

    def _ran_out(self, machine: Machine, lock: str, lease_ids: list[str]) -> None:
        """Judge an expiry, of one lease or of several that are held as one: one of the leases must have run out."""
        bad = max(sum(not renewal.good for renewal in self._renewals.get(each, [])) for each in lease_ids)
        if bad <= 1 and not any(map(self.evidence.operated, lease_ids)):
            went_wrong = "one renewal" if bad else "no renewal"
            self.evidence.blame("lost in peace", f"{machine.name} lost {lock}, and {went_wrong} went wrong")
