"""The messages of a run, from what the supply and the hosts tell of them.

A message that was put back goes on as a copy: what happens to the copy happens to the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.history.facts import Message

if TYPE_CHECKING:
    from simulator.history.facts import History, Invocation
    from simulator.history.journal import Record


class MessageBook:
    """Keeps `History.messages`."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._originals: dict[str, str] = {}  # of copies

    def called(self, name: str, queue: str = "") -> Message:
        """Return the message with this id, or of which this is a copy."""
        name = self._originals.get(name, name)
        return self._history.messages.setdefault(name, Message(id=name, queue=queue, ids={name}))

    def take(self, record: Record) -> None:
        """Take a record of a message; others mean nothing here."""
        match record.event:
            case "message_sent":
                message = self._message(record)
                message.sent = record.t
                message.key = record.text("key")
                message.session = record.text("session")
                message.queue = record.text("queue")
            case "message_received":
                message = self._message(record)
                message.receipts.append((record.t, record.host))
                message.receive(record.text("id"), int(record.get("dequeue_count") or 0))
                message.digests |= {record.text("digest")} - {""}
            case "message_completed":
                message = self._message(record)
                call = _settled(message, record)
                if call is None or call.ending != "deferred":  # then it is only the original of a copy
                    message.completed.append(record.host)
            case "message_returned":
                _settled(self._message(record), record)
            case "message_poisoned":
                self._message(record).poisoned = True
            case "poison" if "digests" in record.fields:
                self._history.poison_left[record.text("queue")] = record

    def _message(self, record: Record) -> Message:
        return self.called(record.text("id"), record.text("queue"))

    def hand_on(self, message: Message, name: str) -> None:
        """From now on, what happens to this copy happens to the message."""
        self._originals[name] = message.id
        message.deferred += 1
        message.ids.add(name)
        early = self._history.messages.pop(name, None)  # the copy was received before its sender's record
        if early is not None:
            message.ids |= early.ids
            message.received += early.received
            message.most_dequeued = max(message.most_dequeued, early.most_dequeued)
            message.unseen = max(message.unseen, early.unseen)
            message.deferred += early.deferred
            message.unnamed |= early.unnamed
            message.poisoned = message.poisoned or early.poisoned
            message.receipts += early.receipts
            message.digests |= early.digests
            message.completed += early.completed
            message.invocations += early.invocations
            self._originals.update(dict.fromkeys(early.ids, message.id))


def _settled(message: Message, record: Record) -> Invocation | None:
    """Return the invocation after which a host says what happened to a message."""
    told = (record.host, record.text("id"))
    call = next((call for call in reversed(message.invocations) if (call.host, call.message) == told), None)
    if call is not None:
        call.settled = True
    return call
