"""Whether hosts ask for the lock that they were declared to have, where it is, and in the way that was deployed.

What is expected comes from the workload, which knows what was meant before it was written down.

wrong lock           an invocation asks for another blob than its declaration, its host and its message say
wrong place          a request goes to another account or container than was deployed, or with another credential
wrong period         a lease is taken for longer, or shorter, than the options of its function say
wrong stamp          a hold has a token against its options, or has none; or a blob is written on in vain
asks too soon        a host polls a taken lock sooner than the shortest interval lets it
asks too seldom      somebody waits, and his host polls less often than the longest interval says
renewed out of time  a lease is renewed sooner or later than the options say, on a good day
gave up early        a caller was told that the lock is taken before its time-out, or its last attempt
late answer          a caller has used up its time-out, or its attempts, and still waits
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.virtual.oracle.callers import AT_ONCE, ONCE
from simulator.virtual.storage.network import both
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from simulator.virtual.oracle.oracle import Oracle
    from simulator.virtual.storage.network import Network, NetworkRequest, Passage
    from simulator.virtual.storage.service import Service, Tenure
    from simulator.virtual.time.machine import Machine
    from singleton.base.events import LockEvent

_EARLY: Final = 0.05
"""Seconds by which something may come too early."""
_LATE: Final = 0.5
"""Seconds by which it may come too late without faults: requests take some of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A lock as it was deployed on a host.

    Attributes:
        name: of its blob.
        endpoint: of the account's blobs.
        way: the credential of the host: ``key …``, ``signature …`` or ``identity …``.
        container: that has the blob.
        period: seconds of its leases.
        renewal: seconds after which a lease is renewed.
        soonest: the shortest delay between two polls.
        latest: the longest one.
        in_line: whether the callers wait in line, with delays that are shortened at random; else each tries by itself.
        written: what is written on the blob.
    """

    name: str
    endpoint: str
    way: str
    container: str
    period: float
    renewal: float
    soonest: float
    latest: float
    in_line: bool
    written: Literal["token", "owner", "nothing"]


@dataclass(slots=True, eq=False)
class _Waiter:
    machine: Machine
    lock: Expected
    owner: str
    limit: float | None
    attempts: int | None
    since: float = math.inf
    over: bool = False


@dataclass(slots=True)
class _Polls:
    """The requests of one host for a lock: when it was refused last, who waited then, and when it asked last."""

    refused: float = -math.inf
    asked: float = -math.inf
    waited: tuple[_Waiter, ...] = ()
    since: float = -math.inf
    refusals: int = 0
    """Number of refusals in a row since ``since``."""

    def begin(self, now: float) -> None:
        """Count anew: the lock is asked for from the beginning."""
        self.since, self.refusals = now, 0

    def delay(self, lock: Expected) -> float:
        """Return the delay after the last refusal: in line it doubles up to the longest."""
        return min(lock.soonest * 2.0 ** min(self.refusals - 1, 20), lock.latest) if lock.in_line else lock.soonest


@dataclass(slots=True)
class Places:
    """Receives every request, lease and event of a world with deployed hosts."""

    oracle: Oracle
    _known: dict[tuple[str, str], Expected] = field(default_factory=dict)
    _invocations: dict[tuple[str, str], _Waiter | None] = field(default_factory=dict)
    _waiting: dict[tuple[str, str], list[_Waiter]] = field(default_factory=dict)
    _polls: dict[tuple[str, str], _Polls] = field(default_factory=dict)
    _renewed: dict[str, float] = field(default_factory=dict)
    _strangers: set[str] = field(default_factory=set)

    def listen(self, network: Network, service: Service) -> None:
        """Receive what the oracle receives, after it."""
        network.on_send = both(network.on_send, self.sent)
        network.on_reply = both(network.on_reply, self.replied)
        service.on_grant = both(service.on_grant, self.granted)
        self.oracle.also_hears = self.heard

    def stranger(self, machine: Machine) -> None:
        """Receive a host of another library: it asks as it likes."""
        self._strangers.add(machine.name)

    def expect(
        self,
        machine: Machine,
        owner: str,
        lock: Expected | None,
        *,
        limit: float | None = None,
        attempts: int | None = None,
    ) -> None:
        """Expect an invocation to ask for a lock (None: for none), for so many seconds or in so many attempts."""
        if lock is None:
            self._invocations[machine.name, owner] = None
            return
        self._known[machine.name, lock.name] = lock
        self._invocations[machine.name, owner] = _Waiter(machine, lock, owner, limit, attempts)

    def ended(self, machine: Machine, owner: str) -> None:
        """Take the end of an invocation."""
        if (waiter := self._invocations.pop((machine.name, owner), None)) is not None:
            self._stop(waiter)

    # --- what the hosts say -------------------------------------------------------------------------------------------

    def heard(self, event: LockEvent, machine: Machine) -> None:
        """Take an event of a host's lock."""
        if (machine.name, event.owner) not in self._invocations:
            return
        waiter = self._invocations[machine.name, event.owner]
        if waiter is None or waiter.lock.name != event.lock:
            wanted = "none" if waiter is None else waiter.lock.name
            self._blame("wrong lock", f"{event.owner} asks for {event.lock}, and {wanted} is its lock")
            return
        match event.kind:
            case "waiting":
                waiter.since = self.oracle.loop.now
                waiting = self._waiting.setdefault((machine.name, event.lock), [])
                if not waiting:
                    self._polls_of(machine, waiter.lock).begin(waiter.since)
                waiting.append(waiter)
                self._set_a_limit(waiter)
            case "acquired":
                self._stop(waiter)
                self._polls_of(machine, waiter.lock).begin(self.oracle.loop.now)
                if (event.token is not None) != (waiter.lock.written == "token"):
                    has = "no token" if event.token is None else f"token {event.token}"
                    self._blame(
                        "wrong stamp", f"{event.owner} has {has}, and the blob is to hold {waiter.lock.written}"
                    )
            case "contended":
                self._stop(waiter)
                self._may_give_up(waiter)

    def _stop(self, waiter: _Waiter) -> None:
        waiter.over = True
        waiting = self._waiting.get((waiter.machine.name, waiter.lock.name), [])
        if waiter in waiting:
            waiting.remove(waiter)

    def _may_give_up(self, waiter: _Waiter) -> None:
        waited = self.oracle.loop.now - waiter.since
        lock, drift = waiter.lock, self.oracle.bounds.drift
        least = math.inf if waiter.limit is None else waiter.limit
        if waiter.limit is None and waiter.attempts is not None:
            least = (waiter.attempts - 1) * lock.soonest
        if waited < least / drift - _EARLY:
            self._blame("gave up early", f"{waiter.owner} gave {lock.name} up after {waited:.1f} s, not {least:.1f} s")

    def _set_a_limit(self, waiter: _Waiter) -> None:
        """Look at a waiter when its time is over.

        A caller that asks once, or waits without a limit, has no time here.
        """
        limit = waiter.limit
        if limit is None and waiter.attempts is not None:
            limit = (waiter.attempts - 1) * waiter.lock.latest + waiter.attempts * _LATE
        if limit:
            self.oracle.later(limit * self.oracle.bounds.drift + AT_ONCE, self._must_be_over, waiter)

    def _must_be_over(self, waiter: _Waiter) -> None:
        waited = self.oracle.loop.now - waiter.since
        if not waiter.over and self.oracle.conduct.well(waiter.machine, waited + ONCE):  # or another's request is out
            self._blame("late answer", f"{waiter.owner} still waits for {waiter.lock.name} after {waited:.1f} s")

    # --- what they send -----------------------------------------------------------------------------------------------

    def sent(self, request: NetworkRequest, _: Passage) -> None:
        """Take a request."""
        machine = request.machine
        of_a_container = not request.name
        if machine.name in self._strangers or request.call.startswith("queue") or of_a_container:
            return
        lock = self._known.get((machine.name, request.name))
        if lock is None:
            self._blame(
                "wrong lock", f"{machine.name} sends a {request.call} of {request.name}, which is no lock of it"
            )
            return
        self._must_be_there(request, lock)
        if request.call == "write" and lock.written == "nothing":
            self._blame("wrong stamp", f"{machine.name} writes on {lock.name}, and nothing is to be written there")
        if request.call == "acquire":
            self._asks(machine, lock)
        if request.call in ("acquire", "renew") and request.lease_id is not None:
            self._renews(request, lock)

    def _must_be_there(self, request: NetworkRequest, lock: Expected) -> None:
        if request.place is None:
            return
        found = (*_reached(request.place.account), request.place.container)
        wanted = (lock.endpoint, lock.way, lock.container)
        wrong = [f"{got!r}, not {right!r}" for got, right in zip(found, wanted, strict=True) if got != right]
        if wrong:
            text = f"{request.machine.name} sends a {request.call} of {lock.name} to {'; and to '.join(wrong)}"
            self._blame("wrong place", text)

    def _asks(self, machine: Machine, lock: Expected) -> None:
        now, polls = self.oracle.loop.now, self._polls_of(machine, lock)
        if polls.refused > polls.asked and self._wait_alike(machine, lock, polls):
            least = polls.delay(lock) / (2 if lock.in_line else 1) / self.oracle.bounds.drift - _EARLY
            gap = now - polls.refused
            if gap < least and self.oracle.conduct.well(machine, gap + 1.0):
                self._blame("asks too soon", f"{machine.name} asks for {lock.name} {gap:.2f} s after a refusal")
        polls.asked = now

    def _wait_alike(self, machine: Machine, lock: Expected, polls: _Polls) -> bool:
        """Tell whether the callers waited at the last refusal already, and have no timeout that is near."""
        waiting = self._waiting.get((machine.name, lock.name), [])
        if not waiting or any(waiter.limit is not None for waiter in waiting):
            return False
        return polls.waited == tuple(waiting) if lock.in_line else polls.waited == (waiting[0],) == tuple(waiting)

    def _renews(self, request: NetworkRequest, lock: Expected) -> None:
        now, machine, lease_id = self.oracle.loop.now, request.machine, request.lease_id or ""
        before = self._renewed.get(lease_id)
        self._renewed[lease_id] = now
        if request.call == "acquire" or before is None:
            return
        gap, drift = now - before, self.oracle.bounds.drift
        fine = lock.renewal / drift - _EARLY <= gap <= lock.renewal * drift + _LATE
        if not fine and self.oracle.conduct.well(machine, gap + 1.0):
            text = f"{machine.name} renews {lock.name} after {gap:.1f} s, and the options say {lock.renewal:g} s"
            self._blame("renewed out of time", text)

    def replied(self, request: NetworkRequest, failure: Exception | None, _: object) -> None:
        """Take a reply that reaches its host."""
        lock = self._known.get((request.machine.name, request.name))
        taken = isinstance(failure, StoreFailure) and failure.meaning == "held"
        if lock is None or not taken or request.call != "acquire" or request.machine.name in self._strangers:
            return
        polls = self._polls_of(request.machine, lock)
        polls.refused = self.oracle.loop.now
        polls.waited = tuple(self._waiting.get((request.machine.name, lock.name), ()))
        polls.refusals += 1
        longest = polls.delay(lock) if lock.in_line else lock.latest
        bound = longest * self.oracle.bounds.drift + _LATE
        self.oracle.later(bound, self._must_have_asked, request.machine, lock, polls.refused)

    def _must_have_asked(self, machine: Machine, lock: Expected, refused: float) -> None:
        polls = self._polls_of(machine, lock)
        waited = self.oracle.loop.now - refused
        well = self.oracle.conduct.well(machine, max(waited, self.oracle.loop.now - polls.since) + 1.0)
        if polls.asked > refused or polls.refused > refused or not well:
            return
        if self._wait_alike(machine, lock, polls) and not self.oracle.runs(machine, lock.name):
            self._blame("asks too seldom", f"{machine.name} has not asked for {lock.name} for {waited:.1f} s")

    def granted(self, tenure: Tenure) -> None:
        """Take a lease's beginning, as the service knows it."""
        lock = self._known.get((str(tenure.machine and tenure.machine.name), tenure.lock))
        if lock is not None and round(tenure.expires - tenure.since, 3) != lock.period:
            text = f"{tenure.machine} took {lock.name} for {tenure.expires - tenure.since:g} s, not {lock.period:g} s"
            self._blame("wrong period", text)

    def _polls_of(self, machine: Machine, lock: Expected) -> _Polls:
        return self._polls.setdefault((machine.name, lock.name), _Polls())

    def _blame(self, check: str, text: str) -> None:
        self.oracle.blame(check, text)


def _reached(account: Any) -> tuple[str, str]:
    """Return an account's endpoint and credential, as the SDK would read it."""
    text = getattr(account, "connection_string", None)
    if text is not None:
        return _by_string(text)
    url, _, query = (account.account_url or "").partition("?")
    spec = account.credential
    if spec is None:
        return url.rstrip("/"), f"signature {query}" if query else "nothing"
    told = [f"{name}={value}" for name, value in spec.arguments if value is not None]
    return url.rstrip("/"), " ".join(("identity", spec.kind, *told))


def _by_string(text: str) -> tuple[str, str]:
    parts = {key.lower(): value for key, _, value in (part.partition("=") for part in text.split(";"))}
    url = parts.get("blobendpoint", "")
    if not url and {"defaultendpointsprotocol", "endpointsuffix"} <= parts.keys():
        url = f"{parts['defaultendpointsprotocol']}://{parts.get('accountname')}.blob.{parts['endpointsuffix']}"
    url = url or f"https://{parts.get('accountname')}.blob.core.windows.net"
    key, signature = parts.get("accountkey"), parts.get("sharedaccesssignature")
    return url.rstrip("/"), f"key {key}" if key else f"signature {signature}" if signature else "nothing"
