"""The end of each message, judged at the queue service, at the instant, whatever hosts and locks say of it.

A message and the copies in whose place it went back say the same, and no two messages of a world do. So a message is
known by its text, in its queue and in the poison queue.

gone                 the last of a message was deleted, and no invocation of it had succeeded with its body
altered              a message was put back, or poisoned, with another body, or into another queue
two of one           a message lies there twice; no host died or stood still, and each request was answered
ran again            a message ran to a good end twice; no host died or stood still, and each request was answered soon
burnt                a message was received more often than it had failed, and nothing went wrong
wrong delay          a message was put back for a time that its function's options don't allow
wrong life           a copy lives longer, or shorter, than what was left of its original's life
poison too soon      a message was moved to the poison queue before it had been tried as often as it may be
tried too often      a body failed for its message more often than it may, and nobody had forgotten a failure
output of nobody     an invocation that put its message back answered with a value
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from simulator.virtual.hosts.queue_host import VISIBILITY
from simulator.virtual.hosts.queue_service import QueueRequest
from simulator.virtual.storage.network import both
from singleton.defer.trigger_queue import poison_queue
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Container

    from simulator.virtual.hosts.queue_service import Stored
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_ANSWER: Final = 9.8
"""Seconds after which a request to a queue without an answer counts as failed."""
_OF_A_NOTE: Final = 4.9
"""The same for the notes on how often a message has failed."""
_WHOLE_SECOND: Final = 1.0
"""The service tells times in whole seconds: so much sooner a guard takes a receipt for too old."""
_SLOW: Final = 4.0
"""Seconds by which one request may be late, so that a message may be received again."""
_AFTERWARDS: Final = 21.0
"""Seconds in which the original of a copy is deleted, if each request is answered."""
_RETRIED: Final = 3
"""Failed deletes after which a message may stay."""
_HELD_UP: Final = 45.0
"""Seconds that may pass from the reading of what is left of a life to the sending of the copy."""
_CUT_OFF: Final = 2.0
"""Seconds of a life that are lost each time: the service tells whole ones, and takes whole ones."""
_ROUND: Final = 0.5
_JITTER: Final = 0.25


@dataclass(slots=True)
class MessageEntry:
    """A message and its copies."""

    number: int  # which it is
    queue: str  # the queue of the message
    expires: float = math.inf  # when its life ends
    there: dict[tuple[str, str], Stored] = field(default_factory=dict)  # what of it lies in queues now, by queue and id
    machines: dict[Machine, float] = field(default_factory=dict)
    """The machines that have received the message, each with the time of the receipt."""
    receives: int = 0  # how often it was received
    since: float = 0.0  # when it was received last
    answered: int = 0  # how many of its invocations ended as a success
    failures: Counter[str] = field(default_factory=Counter)  # how many failed, by the id that it had
    own: int = 0  # how often its body failed
    done: int = 0  # how often its body ran to a good end, and its invocation succeeded
    dropped: bool = False  # whether its function chose not to run
    uncounted: bool = False  # whether its host has counted failures of which no guard knows
    refused: bool = False  # whether a queue refused a copy of it
    unanswered: bool = False  # whether there may be two of it, as nobody knows what became of a request
    slow: bool = False  # whether it may have been received again meanwhile
    forgotten: bool = False  # whether a note of its failures may be lost, or its last failure not make it poison
    troubled: bool = False  # whether any request about it went wrong
    vain: int = 0


_OF_NOBODY: Final = -1
"""The number of a message that no producer has put there."""


class Ledger:
    """Watches the queues of a world. ``delay`` and ``most`` are what its functions' options say."""

    def __init__(self, world: World, *, delay: float, most: int) -> None:
        self.world = world
        self.entries: dict[str, MessageEntry] = {}
        self._delay = delay
        self._most = most
        self._names: dict[str, MessageEntry] = {}
        self._bad_until: dict[Machine, float] = {}
        """Until when what a machine receives may be visible again before it knows."""
        world.network.on_send = both(world.network.on_send, self._asked)

    # --- what is fed, and what its invocations say --------------------------------------------------------------------

    def fed(self, number: int, queue: str, stored: Stored) -> None:
        """Receive a message that a producer has put into a queue."""
        entry = MessageEntry(number, queue, stored.expires)
        self.entries[stored.text] = self._names[stored.id] = entry
        entry.there[queue, stored.id] = stored

    def failed(self, name: str, *, own: bool, last: bool) -> None:
        """Receive the failure of an invocation for the message of an id: by its body, or not.

        ``last``: its host tries no more. A guard that hid the message, and whose copy was refused, has made the host's
        receipt void: the host copies the message to the poison queue, and can't delete it. A body that took longer than
        its message was hidden for at the receipt may fail once more: its guard can't tell whose the message is now.
        """
        entry = self._names[name]
        entry.forgotten |= self.world.loop.now - entry.since > VISIBILITY - _WHOLE_SECOND
        entry.unanswered |= last and entry.refused
        entry.failures[name] += 1
        entry.own += own
        self._tried(entry)

    def _tried(self, entry: MessageEntry) -> None:
        forgotten = entry.forgotten or entry.unanswered or entry.slow or self._struck(entry)
        if entry.own > self._most and not forgotten:
            self._blame("tried too often", entry, f"failed {entry.own} times, and may fail {self._most} times")

    def cancelled(self, name: str, *, last: bool, hidden: bool) -> None:
        """Receive the cancellation of an invocation; ``last``: its host tries no more.

        A message that goes back just then is in its queue; its host, which can't know, copies it to the poison queue.

        ``hidden``: the body hides the host's dequeue count. No guard counts a cancelled invocation, and the host does:
        at the host's last try, guard and host may each put the message into the poison queue.
        """
        self._names[name].unanswered |= last
        self._names[name].uncounted |= hidden
        self.failed(name, own=False, last=last)

    def succeeded(
        self, name: str, *, ran: bool, dropped: bool, value: object, tried: int = 0, own: bool = False
    ) -> None:
        """Receive the success of an invocation: whether its body ran or should not run, and what it returned.

        ``tried``: its tries that failed before; ``own``: whether one of them failed by its body. What is put back then
        has failed once. If a queue refused the copy of a try before, the host's receipt is void.
        """
        entry = self._names[name]
        entry.unanswered |= tried > 0 and entry.refused
        entry.answered += ran or not tried
        if not ran:
            entry.own += own
            self._tried(entry)
            entry.dropped |= dropped
            if value is not None:
                self._blame("output of nobody", entry, f"was put back, and its invocation returned {value!r}")
            return
        entry.done += 1
        if entry.done > 1 and not (entry.unanswered or entry.slow or self._struck(entry)):
            self._blame("ran again", entry, "ran again")

    # --- what happens at the service ----------------------------------------------------------------------------------

    def sent(self, queue: str, stored: Stored, by_locks: Machine | None, delay: float, life: float | None) -> None:
        """See ``Watcher.sent``."""
        entry = self.entries.get(stored.text)
        if entry is None or queue not in {entry.queue, poison_queue(entry.queue)}:
            self.world.oracle.blame("altered", f"{queue} got {stored.text!r}, which nobody had put there")
            self.fed(_OF_NOBODY, queue, stored)
            return
        self.world.note("world", "message_copied", queue=queue, id=stored.id, first=self._first(entry))
        self._names[stored.id] = entry
        if queue != entry.queue:
            tries = entry.receives - entry.answered
            if tries < self._most and not (entry.unanswered or self._struck(entry)):
                self._blame("poison too soon", entry, f"is poison after {tries} tries of {self._most}")
        elif by_locks is not None:
            self._is_put_back(entry, delay, life)
        entry.there[queue, stored.id] = stored
        self.world.later(_AFTERWARDS, self._must_be_one, entry, set(entry.there))

    def received(self, queue: str, stored: Stored, machine: Machine) -> None:
        """See ``Watcher.received``."""
        now, entry = self.world.loop.now, self._names[stored.id]
        failed = entry.failures[stored.id]
        if stored.dequeued > failed and not (entry.troubled or self._struck(entry)):
            again = f"is received after {stored.dequeued} times as {stored.id} in {queue}, and failed {failed} times"
            self._blame("burnt", entry, again)
        entry.receives += 1
        entry.since = now
        entry.machines.setdefault(machine, now)
        if now <= self._bad_until.get(machine, -1.0):
            entry.troubled = entry.slow = True

    def deleted(self, queue: str, stored: Stored) -> None:
        """See ``Watcher.deleted``."""
        entry = self._names[stored.id]
        entry.there.pop((queue, stored.id), None)
        now = self.world.loop.now
        if not (entry.done or entry.dropped or self._there(entry)) and now < stored.expires - _CUT_OFF:
            self._blame("gone", entry, "was deleted, and no invocation of it has succeeded with its body")

    # --- judging ------------------------------------------------------------------------------------------------------

    def _asked(self, request: NetworkRequest, passage: Passage) -> None:
        """Take a request, and what the network will do to it."""
        length = passage.out + passage.back
        unanswered = passage.lost or passage.reply_lost or passage.reset or passage.unread is not None
        if request.call in {"note", "noted", "remove", "queue create", "queue time"}:
            late = length > _OF_A_NOTE or passage.copies > 1
            if unanswered or late or passage.answer is not None:
                noted = self._names.get(unquote(request.name).rpartition("/")[2])
                for each in self.entries.values() if noted is None else [noted]:
                    each.forgotten = True
        if request.call == "queue time" and length > _ROUND:  # a clock that was read so late is as much behind
            for each in self.entries.values():
                each.troubled = True
        if request.call == "queue receive" and not (passage.good and passage.copies == 1):
            until = self.world.loop.now + length + passage.copy_delay + 1.0
            self._bad_until[request.machine] = max(until, self._bad_until.get(request.machine, 0.0))
        if not isinstance(request, QueueRequest) or not request.message:
            return
        entry = self._names.get(request.message) or self.entries.get(request.message)
        if entry is None:
            return
        entry.machines.setdefault(request.machine, self.world.loop.now)
        if passage.good and passage.copies == 1:
            return
        entry.troubled = True
        entry.forgotten |= passage.answer is not None
        entry.refused |= passage.answer is not None and request.call == "queue send"
        if isinstance(passage.answer, StoreFailure) and request.call == "queue delete":
            entry.vain += 1
            unanswered |= entry.vain >= _RETRIED or (passage.answer.status or 0) < 500
        entry.unanswered |= unanswered or length > _ANSWER or (passage.copies > 1 and request.call == "queue send")
        entry.slow |= length > _SLOW or passage.answer is not None

    def _is_put_back(self, entry: MessageEntry, delay: float, life: float | None) -> None:
        now, lives = self.world.loop.now, math.inf if life is None else life
        lying = [stored.expires for (queue, _), stored in entry.there.items() if queue == entry.queue]
        left = max(lying, default=entry.expires) - now
        slack = _HELD_UP if entry.troubled or self._struck(entry) else _ROUND
        if self._struck(entry):  # what is left was read after the first receipt, and before a host stood still
            slack = max(slack, now - min(entry.machines.values()))
        slack = math.inf if entry.unanswered else slack
        if entry.unanswered or self._struck(entry):
            left = 0.0
        longest = entry.expires - now
        if self.world.wire is not None:  # ends are told in whole seconds there, and so is the time
            longest = max(longest, left) + 1.0
        if lives != left and not left - _CUT_OFF <= lives <= longest + slack:
            self._blame("wrong life", entry, f"was put back for {lives:.0f} s, and had {left:.0f} s left")
        least, most = (max(1, round(self._delay * (1 + way * _JITTER))) for way in (-1, 1))
        if life is not None and life // 2 < most:
            least = min(least, int(life // 2))
        if not least <= delay <= most:
            self._blame("wrong delay", entry, f"was put back for {delay} s instead of {least} to {most}")

    def _must_be_one(self, entry: MessageEntry, before: set[tuple[str, str]]) -> None:
        """Of the copies that existed some time ago, at most one is left."""
        there = self._there(entry, before)
        twice_poison = entry.slow or entry.uncounted
        by_hosts = twice_poison and {queue for queue, _ in entry.there} == {poison_queue(entry.queue)}
        if there > 1 and not (entry.unanswered or by_hosts or self._struck(entry)):
            self._blame("two of one", entry, f"lies there {there} times")

    def _there(self, entry: MessageEntry, names: Container[tuple[str, str]] | None = None) -> int:
        now = self.world.loop.now
        there = [stored for name, stored in entry.there.items() if names is None or name in names]
        return sum(stored.expires > now for stored in there)

    def _struck(self, entry: MessageEntry) -> bool:
        """Tell whether a host died or stood still since the receipt of the message."""
        now = self.world.loop.now
        return any(machine.crashed or machine.stopped_since(now - since) for machine, since in entry.machines.items())

    def _blame(self, check: str, entry: MessageEntry, what: str) -> None:
        which = f"message number {entry.number} of {entry.queue}, first {self._first(entry)}"
        self.world.oracle.blame(check, f"{which}, {what}")

    def _first(self, entry: MessageEntry) -> str:
        return next(name for name, each in self._names.items() if each is entry)
