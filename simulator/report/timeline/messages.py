"""Messages on their way: sent, received, perhaps put back, done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.checks.messages import State, final_states
from simulator.report.timeline.model import MessageLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.facts import History, Message
    from simulator.history.journal import Record

_DONE: Final = frozenset({"completed", "skipped", "poisoned"})


def read_messages(history: History, records: Iterable[Record]) -> tuple[MessageLine, ...]:
    """Return all messages that were sent to a function of the app, in the order in which they were sent."""
    ends = {
        record.text("id"): record.t for record in records if record.event in {"message_completed", "message_poisoned"}
    }
    lines = (_line(history, message, state, ends) for message, state, _ in final_states(history))
    return tuple(sorted(lines, key=lambda line: (line.sent, line.id)))


def _line(history: History, message: Message, state: State, ends: dict[str, float]) -> MessageLine:
    known = [ends[name] for name in message.ids if name in ends]
    done = max(known) if known and state in _DONE else None
    return MessageLine(
        id=message.id,
        queue=message.queue,
        key=message.key,
        sent=(message.sent or history.start) - history.start,
        received=tuple((t - history.start, host) for t, host in message.receipts),
        done=None if done is None else done - history.start,
        state=state,
        dequeued=message.most_dequeued,
        deferred=message.deferred,
    )
