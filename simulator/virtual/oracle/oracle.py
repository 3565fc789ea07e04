"""The oracle: compares what the hosts believe with what the service knows, at the instant.

It does not wait for harm. When a lease ends at the service, its ex-owner must know that at that instant by its own
clock, and must not be inside a guarded body, unless it is paused or dead. This finds a deadline that is a second late
in the first run; "a stale token acted" does not in thousands.

    two inside         two bodies of one lock at once, neither of them paused, dead, or told that its hold is lost
    without lease      a body began although the service had not given its lease
    entered lost       a body began although its hold was lost, or that of a listener or body around it
    believes           by its owner's clock a lease is held for longer than it is, or is held although it has ended
    inside after end   a lease ended and a running async body is inside
    cancellation ignored  a lease ended, and the user's body, which was cancelled before that, goes on
    not told           an operator ended a lease, and its owner's next renewal did not tell him
    callback forgotten  the loss of a hold was told, and a callback that is added then is not called at once
    released inside    a lease was released while its body was inside
    wrong period       a host took a lease for longer, or shorter, than its options say
    taken away         a host ended the lease of another
    token order        an epoch or token that is not greater than all before it

``conduct.py`` judges the requests of hosts, ``callers.py`` the waits of callers, ``listeners.py`` listeners,
``takeovers.py`` failover, ``blob_records.py`` the metadata of blobs, ``errors_told.py`` the errors of waits,
``hold_ends.py`` and ``hosts_at_rest.py`` what is left of holds, ``hold_book.py`` the errors of holds, and
``holders_told.py`` the holders that are named.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from simulator.virtual.oracle.blob_records import BlobRecordChecks
from simulator.virtual.oracle.callers import CallerChecks
from simulator.virtual.oracle.conduct import Conduct
from simulator.virtual.oracle.errors_told import ErrorChecks
from simulator.virtual.oracle.evidence import AROUND, Evidence, Moments, RunningBody
from simulator.virtual.oracle.hold_book import HoldBook
from simulator.virtual.oracle.hold_ends import HoldEndChecks
from simulator.virtual.oracle.holders_told import HolderChecks
from simulator.virtual.oracle.hosts_at_rest import RestChecks
from simulator.virtual.oracle.listeners import ListenerChecks
from simulator.virtual.oracle.takeovers import TakeoverChecks
from simulator.virtual.time.machine import Baton, here
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.storage.network import Network, NetworkRequest, Passage
    from simulator.virtual.storage.service import Service, Tenure
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.base.events import LockEvent
    from singleton.base.hold import Hold

_ROUNDING = 1e-6
_A_MOMENT = 1e-3
"""Seconds in which a running host has understood an answer."""


class Oracle(Evidence):
    """Told of everything by the service, by the network and by the locks' events."""

    def __init__(self, loop: VirtualLoop, network: Network, service: Service, current_hold: Callable[[], Hold]) -> None:
        super().__init__(loop, service)
        self.conduct = Conduct(self)
        self.callers = CallerChecks(self, self.conduct)
        self.errors = ErrorChecks(self, self.conduct)
        self.book = HoldBook(self, self.conduct)
        self.ends = HoldEndChecks(self, self.conduct, self.book)
        self.rest = RestChecks(self, self.conduct)
        self.listening = ListenerChecks(self, self.conduct)
        self.moments = Moments(self.reached)
        self.silence = TakeoverChecks(self, self.conduct, wanting=[self.callers.want])
        self.conduct.touched = self.silence.of_lease
        self.conduct.touch_ends = self.silence.good_until
        self.signs = BlobRecordChecks(self)
        self.holders = HolderChecks(self, self.conduct, self.book, self.signs.strangers)
        self.also_hears: Callable[[LockEvent, Machine], None] = lambda *_: None
        """Hears the events, too: a workload's own checks."""
        self.last_checks: list[Callable[[], None]] = []
        """A workload's own, for when all is over and no promise is broken by then."""
        self._current_hold = current_hold
        self._tokens: dict[str, int] = {}
        self._showed: dict[str, tuple[int, str | None, weakref.ref[Hold]]] = {}
        self._epochs: dict[str, int] = {}
        network.on_send = self._sent
        network.on_reply = self._replied
        service.on_grant = self._granted
        service.on_end = self._ended
        service.on_epoch = self._epoch

    # --- what the hosts say -------------------------------------------------------------------------------------------

    def hear(self, event: LockEvent) -> None:
        """Take an event of a host's lock, in that host's context."""
        machine = here()
        self.callers.hear(event, machine)
        self.listening.hear(event, machine)
        self.also_hears(event, machine)
        match event.kind:
            case "lost":
                for body in self._bodies[event.lock]:
                    if body.machine is machine and event.owner == ("" if body.shared else body.hold.owner):
                        body.told_at = self.loop.now
                        self.conduct.lost(body, event.reason)
            case "acquired" if event.mode == "listener" and (tenure := self.service.tenure(event.lock)) is not None:
                self.reached["terms as a listener"] += 1
                self.conduct.leads(tenure)
            case "body_started":
                shared = event.mode == "listener"
                sync = Baton.held() or not self.callers.are_cancelled(event.function)
                if not shared and self.listens_no_longer(machine, event.owner):
                    self.blame("entered lost", f"{event.owner} began a body, and its process listens no longer")
                if self.runs_under_a_loss():
                    self.blame("entered lost", f"{event.owner} began a body of {event.lock} inside one of a lost hold")
                body = RunningBody(event.lock, machine, self._current_hold(), sync, self.loop.now, shared=shared)
                body.failover = self.callers.failover_of(event.function)
                self.enter(body)
                self.holders.listed(machine)
                AROUND.set((*AROUND.get(), body))
            case "body_ended":
                self._must_call_back(hold := self._current_hold())
                self.leave(hold)
                AROUND.set(tuple(body for body in AROUND.get() if body.hold is not hold))
                if event.mode == "listener":
                    self.listening.left(machine, event, hold)

    def _must_call_back(self, hold: Hold) -> None:
        """Check that a callback is called which a body adds after the loss: a body may add callbacks until its end."""
        if any(body.hold is hold and body.told_at < self.loop.now for body in self._bodies[hold.lock]):
            called: list[str] = []
            hold.lost.add_callback(called.append)
            self.reached["callbacks after a loss"] += 1
            if not called:
                self.blame("callback forgotten", f"{hold.owner} lost {hold.lock}, and its callback was not told")

    def leave(self, hold: Hold) -> None:
        """Take the end of the body under this hold."""
        bodies = self._bodies[hold.lock]
        bodies[:] = [body for body in bodies if body.hold is not hold]

    def enter(self, body: RunningBody) -> None:
        """Take the beginning of a body."""
        self.reached["bodies"] += 1
        if body.shared and not any(known.owner == body.hold.owner for known in self.book.open(body.machine)):
            self.ends.begun(body.machine, body.hold)  # of a listener's lease: no wait ended with it
        self.conduct.entered(body)
        for other in self._bodies[body.lock]:
            self._meet(body, other)
        tenure = self.service.tenure(body.lock)
        if (tenure is None or tenure.lease_id != body.hold.lease_id) and not self.operated(body.hold.lease_id):
            self.blame("without lease", f"{body.machine.name} began a body of {body.lock} without the lease")
        if body.knows():
            self.blame("entered lost", f"{body.machine.name} began a body of {body.lock} with a lost hold")
        token = body.hold.token
        if token is not None and not self.operated(body.hold.lease_id):
            last = self._tokens.get(body.lock, 0)
            if token <= last and not self._is_known(body):
                self.blame("token order", f"{body.machine.name} got token {token} of {body.lock} after {last}")
            self._tokens[body.lock] = max(token, last)
            self._showed[body.lock] = token, body.hold.lease_id, weakref.ref(body.hold)
        self._bodies[body.lock].append(body)
        self._must_not_hope(body)
        self.silence.entered(body)
        self.signs.entered(body)

    def _is_known(self, body: RunningBody) -> bool:
        """Tell whether the last body was under the same hold, or under another of the same listener's lease."""
        token, lease_id, hold = self._showed.get(body.lock, (0, None, None))
        if body.shared:
            return (token, lease_id) == (body.hold.token, body.hold.lease_id)
        return hold is not None and hold() is body.hold

    def _must_not_hope(self, body: RunningBody) -> None:
        """A host must not count on its lease for longer than the service will keep it."""
        tenure = self.service.tenure(body.lock)
        if tenure is not None and tenure.lease_id == body.hold.lease_id and not body.knows():
            too_long = body.believes_until(self.loop.now) - tenure.expires
            if too_long > _ROUNDING:
                hope = f"counts on the lease of {body.lock} until {too_long:.3f} s after its end"
                self.blame("believes", f"{body.machine.name} {hope}")

    def _meet(self, body: RunningBody, other: RunningBody) -> None:
        if other.machine is body.machine and body.shared:
            self.reached["bodies together under a listener"] += 1
        elif other.machine is body.machine:
            self.blame("two inside", f"{body.machine.name} runs two bodies of {body.lock} at once")
        elif other.machine.crashed or other.machine.stopped or other.machine.resumed_at == self.loop.now:
            self.reached["entered while the old holder was paused or dead"] += 1
        elif not other.machine.tells and other.knows():
            self.reached["entered while the old holder could not be told"] += 1
        elif self.operated(other.hold.lease_id) or self.operated(body.hold.lease_id):
            self.reached["entered after an operator ended a lease"] += 1
        elif other.sync and other.knows():
            self.reached["entered while a sync body that was told lingers"] += 1
        else:
            inside = f"while {other.machine.name} is inside and running"
            self.blame("two inside", f"{body.machine.name} entered {body.lock} {inside}")

    def is_at_rest(self, machine: Machine, seconds: float) -> bool:
        """Tell whether a machine has run for so long, and has neither a lock nor somebody who waits for one."""
        uses = self.book.open(machine) or self.errors.is_waiting(machine)
        return not (uses or machine.leaving or machine.stopped_since(seconds))

    # --- what the network carries -------------------------------------------------------------------------------------

    def _sent(self, request: NetworkRequest, passage: Passage) -> None:
        self.conduct.sent(request, passage)
        self.errors.sent(request, good=passage.good)
        self.listening.sent(request)
        self.silence.sent(request)
        if request.call == "acquire":
            self.callers.asked(request, self.conduct.silent_since(request))

    def _replied(self, request: NetworkRequest, failure: Exception | None, answer: Any) -> None:
        self.silence.replied(request, failure, answer)
        self.conduct.replied(request, failure, answer)
        self.errors.replied(request, failure)
        self.listening.replied(request, failure)
        status = failure.status if isinstance(failure, StoreFailure) else None
        if request.call == "acquire" and status in (401, 403):
            self.callers.refused(request)
        elif request.call == "renew" and request.lease_id is not None:
            if failure is None:
                self.later(_A_MOMENT, self._each_under, request, self._must_not_hope)
            elif status in (404, 409, 412) and not _made_up(failure):
                self.later(_A_MOMENT, self._each_under, request, self._must_know_by_now)

    def _each_under(self, request: NetworkRequest, check: Callable[[RunningBody], None]) -> None:
        for body in tuple(self._bodies[request.name]):
            if body.hold.lease_id == request.lease_id:
                check(body)

    def _must_know_by_now(self, body: RunningBody) -> None:
        if not body.machine.stopped_since(_A_MOMENT) and not body.knows():
            self._not_told(body)

    # --- what the service knows ---------------------------------------------------------------------------------------

    def answered(self, request: NetworkRequest, failure: Exception | None, tenure: Tenure | None) -> None:
        """Take what the service has carried out, and who has the lease now."""
        self.moments.answered(request, failure, tenure, self.loop.now)
        self.silence.answered(request, failure)
        self.signs.answered(request, failure)

    def _granted(self, tenure: Tenure) -> None:
        self.reached["leases"] += 1
        self._operated.discard(tenure.lease_id)
        length = round(tenure.expires - tenure.since, 3)
        if tenure.machine is not None and length not in self.bounds.periods:
            self.blame("wrong period", f"{tenure.machine.name} took {tenure.lock} for {length:g} s")
        self.callers.granted(tenure)
        self.book.granted(tenure)

    def _ended(self, tenure: Tenure) -> None:
        match tenure.ending:
            case "released":
                self._released(tenure)
            case "expired":
                self._expired(tenure)
            case "taken over":
                self.silence.taken_over(tenure)
            case "taken away":
                text = f"{tenure.ended_by} ended the lease of {tenure.lock} that {tenure.machine} has"
                self.blame("taken away", text)
            case _:
                self._operated.add(tenure.lease_id)
                self.reached["leases ended by an operator"] += 1
                self.later(self.bounds.period, self._must_know, tenure)
                self.later(self.bounds.renewal * self.bounds.drift + 0.5, self._must_have_heard, tenure)
                if (failover := self.silence.of_lease(tenure.lease_id)) is not None:
                    self.later(failover / 3 * self.bounds.drift + 0.5, self._must_have_touched, tenure)
        self.callers.tenure_ended(tenure)
        self.book.lease_ended(tenure)
        self.moments.ended(tenure)

    def _released(self, tenure: Tenure) -> None:
        for body in self.inside(tenure):
            told = not body.guarded and body.machine.stopped and body.knows()
            # A listener that lost its lease waits for a period; late renewals may have kept the lease for longer.
            told |= body.shared and self.loop.now - body.told_at > min(self.bounds.periods) / self.bounds.drift - 1.0
            if not body.machine.crashed and not told:
                self.blame("released inside", f"{body.machine.name} released {tenure.lock} with its body inside")

    def _expired(self, tenure: Tenure) -> None:
        machine = tenure.machine
        if machine is None:
            return
        if machine.crashed:
            self.reached["leases of dead hosts that expired"] += 1
            return
        inside = self.inside(tenure)
        for body in inside:
            if not body.knows():
                self.blame("believes", f"the lease of {tenure.lock} ended, and {machine.name} still counts on it")
            elif machine.stopped or not machine.tells or machine.resumed_at == self.loop.now:
                self.reached["paused past the lease inside a body"] += 1
            elif not body.sync and (text := self.ignoring(body)):
                self.blame("cancellation ignored", text)
            elif not body.sync:
                self.blame("inside after end", f"the lease of {tenure.lock} ended with {machine.name} inside")
        if not inside:
            self.conduct.lapsed(tenure, machine)

    def _must_know(self, tenure: Tenure) -> None:
        """By now its deadline has come, with any network."""
        for body in self._ousted(tenure):
            if not body.machine.crashed and not body.knows():
                self._not_told(body)

    def _must_have_heard(self, tenure: Tenure) -> None:
        """By now a renewal was answered, if the network was good and it renews: a caller that leaves does not."""
        for body in self._ousted(tenure):
            well = self.conduct.well(body.machine, self.bounds.period) and not body.machine.leaving
            if well and not body.knows():
                self._not_told(body)

    def _must_have_touched(self, tenure: Tenure) -> None:
        """By now a touch was answered, if the network was good. A touch under a lease that is being broken succeeds."""
        if tenure.lasts < self.loop.now:
            self._must_have_heard(tenure)

    def _ousted(self, tenure: Tenure) -> list[RunningBody]:
        """Return the bodies whose lease an operator ended. A late copy of the acquire may have acquired it anew."""
        return self.inside(tenure) if self.operated(tenure.lease_id) else []

    def _not_told(self, body: RunningBody) -> None:
        whose = f"a body of {body.hold.owner} on {body.machine.name}"
        self.blame("not told", f"{whose} does not know that the lease of {body.lock} was taken away")

    def _epoch(self, lock: str, epoch: int, machine: Machine | None) -> None:
        if epoch < self._epochs.get(lock, 0):
            self.blame("token order", f"{machine} wrote epoch {epoch} of {lock} after {self._epochs[lock]}")
        self._epochs[lock] = max(epoch, self._epochs.get(lock, 0))


def _made_up(failure: Exception) -> bool:
    """Tell whether a fault made this answer, so that the service knows nothing of it."""
    return isinstance(failure, StoreFailure) and failure.detail == "simulated"
