"""What the oracle of the workload ``ordered`` knows, and what must hold of each message.

sent by nobody         a handler got a message that was not sent, or not for this key
handled out of order   a message was handled before one that was sent earlier, or after one that was sent later
handled again          a message was handled again, and the offset behind it was kept
repeated beside        a message was handled although another was handled, and not kept: more than the one in hand
miscounted             a message was tried as another attempt than the count kept with its key says, or counted twice
tried too early        a message that had failed was tried again before its pause was over
handled while stopped  a message was handled, and its key stands still
offset put back        the service carried out a write of a key's state that forgets what was kept
kept unhandled         an offset was kept behind a message that was neither handled nor put aside
deleted unread         a log was deleted, and the offset behind a message in it was never kept
appended in vain       a message was added to a log that its reader has left
poisoned too soon      a message was put aside, or stopped its key, before its attempts were used up
put aside too late     a message was put aside, and it had been handled, and that was kept
handled though put aside  a message was handled that was put aside before
resumed in vain        an operator has resumed a key, and what failed before keeps its message from being tried
message forgotten      a message that was sent is in no log, or at the end neither handled nor put aside

An operator who deletes the blob of a key's lock deletes its offset: from then on its messages may be repeated. One who
breaks its lease has a consumer that does not know it until its next renewal.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simulator.virtual.storage.network import both
from simulator.virtual.worlds.world import Judge
from singleton.patterns.ordered.entries import entries_in
from singleton.patterns.ordered.protocol import Names, chain_of
from tests.worlds.inboxes.messages import Key, Send, number_in, state_in

if TYPE_CHECKING:
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.log_reader import Position
    from singleton.patterns.ordered.messages import InboxMessage

_EXACT = 1e-3
_LONGEST_PAUSE = 60.0


class _Seen(NamedTuple):
    """A blob by its ETag."""

    etag: str


@dataclass(slots=True)
class Postbook(Judge):
    """Told of sends, of what handlers get and do, and of what the service carries out."""

    names: Names
    attempts: int
    keys: dict[str, Key] = field(default_factory=lambda: defaultdict(Key))
    """By their spots."""
    deleted: set[str] = field(default_factory=set)
    """Spots of keys whose state an operator has deleted."""
    silenced: set[str] = field(default_factory=set)
    """Those that stood still then, until a consumer comes: a stopped key has no bell, so the next look rings."""
    _by_number: dict[int, list[Send]] = field(default_factory=lambda: defaultdict(list))
    _by_id: dict[tuple[str, int], Send] = field(default_factory=dict)

    def __post_init__(self) -> None:
        service = self.world.service
        service.delete = both(self._deletes, service.delete)  # type: ignore[method-assign]

    # --- senders ------------------------------------------------------------------------------------------------------

    def sends(self, machine: Machine, key: str, number: int, *, again: bool = False) -> Send:
        """Take the beginning of a send."""
        send = Send(number, key, machine, self.world.loop.now, again)
        self.keys[self.names.spot(key)].sends.append(send)
        self._by_number[number].append(send)
        return send

    def sent(self, send: Send, *, ok: bool) -> None:
        """Receive the end of a send, or the end of waiting for it."""
        send.ended, send.ok = self.world.loop.now, ok
        self.world.oracle.reached["messages sent" if ok else "sends that failed"] += 1
        if ok and send.id is None:
            self._blame("message forgotten", f"{send} is sent, and in no log")

    @property
    def waiting(self) -> list[Send]:
        """The messages that were sent, and are neither handled nor put aside."""
        return [send for key in self.keys.values() for send in key.sends if send.ok and not send.settled]

    def with_logs(self) -> set[str]:
        """Return the spots of the keys that have a log; parts that follow a full one may be left behind."""
        spots = (name.removeprefix(self.names.logs) for name in self.world.service.logs(self.names.logs))
        return {spot for spot in spots if "/" not in spot}

    # --- handlers -----------------------------------------------------------------------------------------------------

    def begins(self, machine: Machine, hold: Hold, message: InboxMessage) -> Send | None:
        """Take the beginning of a handler."""
        sender, _, number = message.id.rpartition("-")
        spot = self.names.spot(message.key)
        key, send = self.keys[spot], self._by_id.get((sender, int(number)))
        if send is None or send.key != message.key or number_in(message.body) != send.number:
            self._blame("sent by nobody", f"{machine.name} handles {message.id} of {message.key}")
            return None
        self._must_follow(key, send)
        if not self.world.oracle.operated(hold.lease_id) and spot not in self.deleted:
            self._must_be_next(machine, key, send, message.attempt)
        key.begins()
        self.world.oracle.reached["messages begun again"] += send.begun is not None
        send.begun = send.begun or self.world.loop.now
        return send

    def _must_follow(self, key: Key, send: Send) -> None:
        """What was sent before is over; what was sent after has not begun, where this begins for the first time."""
        for other in key.sends:
            if other.ok and other.before(send) and not other.settled:
                self._blame("handled out of order", f"{send} is handled before {other}, which was sent earlier")
            if send.begun is None and other.begun is not None and send.before(other):
                self._blame("handled out of order", f"{send} is handled after {other}, which was sent later")

    def _must_be_next(self, machine: Machine, key: Key, send: Send, attempt: int) -> None:
        assert send.id is not None
        if key.is_kept(send.id):
            self._blame("handled again", f"{send} is handled on {machine.name}, and that it was is kept")
        for other in key.sends:
            if other is not send and other.done and other.id is not None and not key.is_kept(other.id):
                self._blame("repeated beside", f"{send} is handled, and {other}, which was handled, is not kept")
        if send.aside:
            self._blame("handled though put aside", f"{send} is handled on {machine.name}, and put aside")
        if attempt != key.next_attempt:
            self._blame("miscounted", f"{send} is tried as number {attempt}, and counted is {key.kept.tried}")
        if key.kept.stopped:
            self._blame("handled while stopped", f"{send} is handled, and its key stands still")
        if key.kept.failures and _EXACT < (early := key.due - machine.wall()) <= _LONGEST_PAUSE:
            self._blame("tried too early", f"{send} is tried {early:.1f} s too early")

    def done(self, send: Send) -> None:
        """Take the end of a handler."""
        send.done = True
        self.world.oracle.reached["messages handled"] += 1

    def fails(self, machine: Machine, send: Send, attempt: int) -> None:
        """Take the failure of a handler."""
        key = self.keys[self.names.spot(send.key)]
        key.attempt = max(key.attempt, attempt)
        key.failed_at, key.failed_in = machine.wall(), self.world.loop.now
        self.world.oracle.reached["messages that failed"] += 1

    def resumed(self, spot: str, since: float) -> None:
        """Take the end of a resume that an operator began at ``since``."""
        key = self.keys[spot]
        self.world.oracle.reached["keys resumed"] += 1
        if key.failed_in < since and (key.kept.stopped or key.kept.until):
            waits = "stands still" if key.kept.stopped else f"waits until {key.kept.until:.1f}"
            self._blame("resumed in vain", f"{spot} was resumed, and {waits}")

    # --- the service --------------------------------------------------------------------------------------------------

    def answered(self, request: NetworkRequest, failure: Exception | None, _: Passage) -> None:
        """Take what the service has carried out."""
        if failure is not None or request.call not in ("append", "put"):
            if failure is not None and request.call in ("append", "drop"):
                self.world.oracle.reached[f"{request.call} refused"] += 1
            return
        name, names = request.name, self.names
        if request.call == "append":
            (entry,) = entries_in(request.args[0], 0, name)
            self._is_put_aside(entry) if name.startswith(names.asides) else self._landed(name, entry)
        elif name.startswith(names.locks):
            self._is_kept(name.removeprefix(names.locks), state_in(request.args[3]), request.args[0])

    def _landed(self, name: str, entry: Entry) -> None:
        identity = entry.sender, entry.number
        if identity not in self._by_id:
            sends = [each for each in self._by_number[number_in(entry.value)] if each.id is None]
            if sends:
                sends[0].id = identity
                self._by_id[identity] = sends[0]
        else:
            self.world.oracle.reached["messages twice in a log"] += 1
        spot, _, part = name.removeprefix(self.names.logs).partition("/")
        if part:
            self.world.oracle.reached["messages behind a full log"] += 1
            first = self.world.service.etag(self.names.log(spot))
            if first is None or chain_of(_Seen(first)) != part.partition("/")[0]:
                self._blame(
                    "appended in vain", f"{self._by_id.get(identity)} is in {name}, which nobody reads any more"
                )

    def _is_put_aside(self, entry: Entry) -> None:
        send = self._by_id.get((entry.sender, entry.number))
        if send is None or send.aside:
            return
        send.aside = True
        self.world.oracle.reached["messages put aside"] += 1
        spot = self.names.spot(send.key)
        key = self.keys[spot]
        if key.is_kept((entry.sender, entry.number)) and spot not in self.deleted:
            self._blame("put aside too late", f"{send} is put aside, and was handled")
            return
        if key.tried < self.attempts and not key.skips and not key.kept.aside:  # a resume forgets the attempts only
            self._blame("poisoned too soon", f"{send} is put aside after {key.tried} attempts")

    def _is_kept(self, spot: str, state: Position, lease_id: str) -> None:
        key = self.keys[spot]
        for sender, number in key.kept.senders.items():
            if state.senders.get(sender, 0) < number and spot not in self.deleted:
                self._blame("offset put back", f"{spot} forgets {sender}-{number}")
        for sender, number in state.senders.items():
            if number > key.numbers.get(sender, 0):
                key.numbers[sender] = number
        for send in key.sends:
            excused = send.id is None or send.settled or (send.ended is not None and not send.ok)
            if not excused and send.id is not None and key.is_kept(send.id):
                self._blame("kept unhandled", f"{send} is passed over")
        if not key.may_count(state, lease_id):
            self._blame("miscounted", f"{spot} counts {state.tried} attempts after {key.kept.tried}")
        if state.aside and not key.kept.aside and key.tried < self.attempts and not key.skips:
            self._blame("poisoned too soon", f"a message of {spot} is to be put aside after {key.tried} attempts")
        if state.stopped and not key.kept.stopped:
            self.world.oracle.reached["keys stopped"] += 1
            if key.tried < self.attempts:
                self._blame("poisoned too soon", f"{spot} is stopped after {key.tried} attempts")
        if state.until != key.kept.until:
            pause = min(2.0 ** (state.failures - 1), _LONGEST_PAUSE)
            key.due = key.failed_at + pause if state.until else 0.0
        key.kept = state

    def _deletes(self, name: str) -> None:
        names, content = self.names, self.world.service.content(name)
        if name.startswith(names.locks):
            spot = name.removeprefix(names.locks)
            self.deleted.add(spot)
            if self.keys[spot].kept.stopped:
                self.silenced.add(spot)
            self.keys[spot].kept = state_in(b"")
        if not name.startswith(names.logs) or not content:
            return
        spot = name.removeprefix(names.logs).partition("/")[0]
        self.world.oracle.reached["logs deleted"] += 1
        for entry in entries_in(content, 0, name):
            if not self.keys[spot].is_kept((entry.sender, entry.number)):
                self._blame("deleted unread", f"{self._by_id.get((entry.sender, entry.number))} was in {name}")

    def must_be_settled(self) -> None:
        """At the end, each sent message was handled or put aside, or its key stands still."""
        for send in self.waiting:
            if not self.keys[self.names.spot(send.key)].kept.stopped:
                self._blame("message forgotten", f"{send} is neither handled nor put aside")
