"""The errors of waits for locks, and of invocations: is each one true, by the service's own record since it began?

no trouble to tell of  ``StorageUnavailable``, and a usable answer had come in the minute before (single attempts: 10 s)
nobody denied          ``StorageDenied``, and the service had refused this host nothing in the wait
nobody was inside      ``LockNotAcquired``, and nobody had the lock, or a slot of the semaphore, in the wait
trouble to tell of     ``LockNotAcquired``, and at the end of the wait the storage did not answer
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.callers import AT_ONCE, CALL, ONCE, UNANSWERED, slots_of
from simulator.virtual.oracle.conduct import Checks
from singleton.base.errors import LockNotAcquired, SingletonError, StorageDenied, StorageUnavailable
from singleton.locking.seat import seat_name
from singleton.locking.section import Section
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold

_TURN: Final = 1.1
"""Polling intervals for which a process that had its turn leaves a lock alone."""
_LISTENER: Final = "~listener"
_ROUNDING: Final = 0.01
_GIVEN_UP: Final = CALL + 1.5
"""Seconds after which a host knows that an attempt got no answer."""

_UNTRUE: Final[dict[type[SingletonError], str]] = {
    StorageDenied: "nobody denied",
    StorageUnavailable: "no trouble to tell of",
    LockNotAcquired: "nobody was inside",
}

HostBlob = tuple[str, str]
"""The name of a machine, and of a blob."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LockWait:
    """A wait of a host: for a lock, or with a ``limit`` for a slot of a semaphore."""

    machine: Machine
    lock: str
    limit: int | None
    timeout: float | None
    owner: str
    since: float
    failover: bool = False
    """Whether it also looks for a silent holder: an attempt then takes reads, too."""

    @property
    def places(self) -> list[HostBlob]:
        """What the wait may end with: the lock, or any slot."""
        blobs = [self.lock] if self.limit is None else slots_of(self.lock, self.limit)
        return [(self.machine.name, blob) for blob in blobs]


@dataclass(slots=True)
class ErrorChecks(Checks):
    """Told of requests, replies and waits."""

    _failing_since: dict[HostBlob, float] = field(default_factory=dict)
    """When the first attempt was sent of those that brought no usable answer."""
    _unanswered: dict[HostBlob, float] = field(default_factory=dict)
    """The same, whoever got what the last usable answer brought."""
    _failed: dict[HostBlob, float] = field(default_factory=dict)
    """When an attempt was last sent that went wrong."""
    _denied: dict[str, float] = field(default_factory=dict)
    _taken: dict[HostBlob, float] = field(default_factory=dict)
    """When a host was last told that somebody has a lock."""
    _giving_back: dict[HostBlob, float] = field(default_factory=dict)
    """When a release was first sent that is not answered yet."""
    _given_back: dict[HostBlob, float] = field(default_factory=dict)
    _waits: dict[LockWait, None] = field(default_factory=dict)
    _holds: dict[HostBlob, list[weakref.ref[Hold]]] = field(default_factory=lambda: defaultdict(list))

    def sent(self, request: NetworkRequest, *, good: bool) -> None:
        """Take a request."""
        place, now = (request.machine.name, request.name), self.evidence.loop.now
        if request.call in ("acquire", "create"):
            self._failing_since.setdefault(place, now)
            self._unanswered.setdefault(place, now)
        if request.call == "release":
            self._giving_back.setdefault(place, now)
        if not good:
            self._failed[place] = now

    def replied(self, request: NetworkRequest, failure: Exception | None) -> None:
        """Take a reply that reaches its host."""
        place, now = (request.machine.name, request.name), self.evidence.loop.now
        meaning = failure.meaning if isinstance(failure, StoreFailure) else None
        if meaning == "denied":
            self._denied[request.machine.name] = now
        if failure is None or meaning not in (None, "transient", "unknown"):
            self._unanswered.pop(place, None)
        if request.call == "acquire" and meaning in ("held", "lost"):
            self._taken[place] = now
            self._failing_since.pop(place, None)
        if request.call == "release" and (failure is None or meaning is not None):  # the host can read it
            self._given_back[place] = now
            self._giving_back.pop(place, None)

    def waits(self, wait: LockWait) -> None:
        """Take the beginning of a wait."""
        if not any(each.machine is wait.machine and each.lock == wait.lock for each in self._waits):
            self._unanswered.pop((wait.machine.name, wait.lock), None)  # a wait that nobody goes on with had no answer
        self._waits[wait] = None

    def ended(self, wait: LockWait) -> None:
        """Take the end of a wait, after what it ended with."""
        del self._waits[wait]

    def is_waiting(self, machine: Machine) -> bool:
        """Tell whether somebody on a machine waits for a lock."""
        return any(wait.machine is machine for wait in self._waits)

    def acquired(self, wait: LockWait, hold: Hold) -> None:
        """Take the hold that a wait ended with."""
        place = wait.machine.name, hold.lock
        self._failing_since.pop(place, None)
        self._giving_back.pop(place, None)
        self._unanswered.pop(place, None)
        self._holds[place] = [each for each in self._holds[place] if _goes_on(each)] + [weakref.ref(hold)]

    def refused(self, wait: LockWait, error: SingletonError) -> None:
        """Take the error that a wait ended with."""
        told = f"{wait.owner} was told of {wait.lock}, for which it waited {self.evidence.loop.now - wait.since:.1f} s"
        match error:
            case StorageUnavailable():
                self._must_have_failed(wait, error, told)
            case StorageDenied():
                self.evidence.reached["told: denied"] += 1
                giving_back = CALL * self.evidence.bounds.drift  # of a lease whose stamp was denied, before it is told
                if self._denied.get(wait.machine.name, -math.inf) < wait.since - giving_back - _ROUNDING:
                    self._blame("nobody denied", f"{told}: {error}")
            case LockNotAcquired(reason=None | "in use here"):
                self._must_have_been_inside(wait, error, told)
                self._must_not_have_failed(wait.machine, wait.lock, f"{told}: {error}")

    def ended_with(self, machine: Machine, invocation: str, since: float, error: SingletonError) -> None:
        """Judge the error of an invocation that began at ``since``, also one that was made after its waits.

        A candidate tells what its last attempt has shown, however old: ``listeners.py`` judges that.
        """
        bounds, lock = self.evidence.bounds, error.lock or ""
        if lock.endswith(_LISTENER):
            return
        since -= (_TURN * bounds.poll + CALL) * bounds.drift
        ago = self.evidence.loop.now - since
        if machine.stopped_since(ago) or self.conduct.strange(machine, ago):
            return
        match error:
            case StorageDenied():
                true = self._denied.get(machine.name, -math.inf) >= since
            case StorageUnavailable():
                true = self.conduct.met_trouble(machine, lock, since)
                if lock.endswith(seat_name("")):  # it got the first of two seats at the end of its wait
                    true |= self.conduct.last_sent(machine, lock) >= self.evidence.loop.now - AT_ONCE
            case LockNotAcquired(reason="max_waiting"):
                self._must_not_have_failed(machine, lock, f"{invocation} ended with: {error}")
                return
            case LockNotAcquired(reason=None):
                named = error.message  # with also=, the seat of the other name
                if named.startswith("semaphore"):  # see `_knowledge`
                    since -= _TURN * bounds.poll * bounds.drift + ONCE
                answers = (self._taken, self._given_back)
                known = {*self.evidence.service.names(), *(name for _, name in chain(*answers))}  # or deleted since
                blobs = [each for each in known if each.startswith(lock) or repr(each) in named]
                true = any(self.evidence.service.held_until(name) >= since for name in blobs)
                true |= any(times.get((machine.name, name), -math.inf) >= since for name in blobs for times in answers)
            case _:
                return
        self.evidence.reached[f"errors of invocations: {type(error).__name__}"] += 1
        if not true:
            self._blame(_UNTRUE[type(error)], f"{invocation} ended with: {error}; and that was not so for {ago:.0f} s")

    def _must_have_failed(self, wait: LockWait, error: StorageUnavailable, told: str) -> None:
        now, reached = self.evidence.loop.now, self.evidence.reached
        drift = self.evidence.bounds.drift
        silence = max(now - self._failing_since.get(place, now) for place in wait.places)
        if error.code == "ContainerBeingDeleted" or self.conduct.strange(wait.machine, now - wait.since + CALL):
            return
        reached["told: unavailable"] += 1
        if wait.timeout is not None and wait.machine.stopped_since(now - wait.since + CALL):
            return  # an answer may have come while it stood still
        lasts = ONCE if wait.timeout == 0 else wait.timeout
        if wait.failover or (lasts is not None and now - wait.since >= lasts / drift - _ROUNDING):
            failed = max(self._failed.get(place, -math.inf) for place in wait.places)
            lasts_on = any(
                self._failed.get(place, -math.inf) >= self._failing_since.get(place, math.inf) for place in wait.places
            )
            if failed < wait.since - CALL and not lasts_on:
                self._blame("no trouble to tell of", f"{told}: {error}; and every request was answered")
            return
        slot = wait.limit is not None and wait.timeout == 0  # which another attempt may have asked for earlier
        if silence < (ONCE if slot else UNANSWERED) / drift - _ROUNDING:
            self._blame("no trouble to tell of", f"{told}: {error}; and {silence:.1f} s before it was answered")

    def _must_have_been_inside(self, wait: LockWait, error: LockNotAcquired, told: str) -> None:
        self.evidence.reached["told: taken"] += 1
        last = max(self._knowledge(wait, place) for place in wait.places)
        if wait.machine.stopped_since(self.evidence.loop.now - wait.since + last):
            return  # it says what it knew before it stood still
        free = [place[1] for place in wait.places if not self._was_inside(wait, place)]
        every = wait.limit is not None and wait.timeout == 0
        if len(free) == len(wait.places) or (every and free):
            self._blame("nobody was inside", f"{told}: {error}; and nobody had {free[0]} then")

    def _must_not_have_failed(self, machine: Machine, lock: str, told: str) -> None:
        place, drift = (machine.name, lock), self.evidence.bounds.drift
        silence = self.evidence.loop.now - self._unanswered.get(place, math.inf)
        if silence < _GIVEN_UP * drift or machine.stopped_since(silence) or self.conduct.strange(machine, silence):
            return
        if not any(_goes_on(each) for each in self._holds.get(place, ())):
            self._blame("trouble to tell of", f"{told}; and for {silence:.1f} s the storage did not answer")

    def _was_inside(self, wait: LockWait, place: HostBlob) -> bool:
        bounds, since = self.evidence.bounds, wait.since - _ROUNDING
        if wait.timeout == 0 or self._is_behind(wait):  # then it may get the answer to the last request of its process
            since -= self._knowledge(wait, place)
        lapses = (bounds.period + 2 * CALL) * bounds.drift  # a release without an answer leaves the lease to lapse
        return (
            self.evidence.service.held_until(place[1]) >= since
            or self._taken.get(place, -math.inf) >= since
            or self._given_back.get(place, -math.inf) >= since
            or self._giving_back.get(place, -math.inf) >= since - lapses
            or any(_goes_on(each) for each in self._holds.get(place, ()))
        )

    def _knowledge(self, wait: LockWait, place: HostBlob) -> float:
        """Return how old the last answer of a process may be: a poll, and a request that is under way since then.

        A semaphore asks for a slot as a single attempt does. For a slot that the process has had, the semaphore asks
        the slot's lock, which polls by itself.
        """
        poll = _TURN * self.evidence.bounds.poll * self.evidence.bounds.drift
        if wait.limit is None:
            return poll + CALL
        return poll + ONCE + (poll + CALL if place in self._holds else 0.0)

    def _is_behind(self, wait: LockWait) -> bool:
        """Tell whether somebody of the same process came earlier, and waits."""
        mine = [each for each in self._waits if each.machine is wait.machine and each.lock == wait.lock]
        return mine[0] is not wait


def _goes_on(known: weakref.ref[Hold]) -> bool:
    hold = known()
    return isinstance(hold, Section) and not hold.record.over
