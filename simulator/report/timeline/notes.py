"""The records behind the marks, a line each, for people who want to know exactly what was written down.

What a message says is in no record. What an error says may be anything: only its class is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.report.timeline.model import Note
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.journal import Record

_FIELDS: Final = {
    "invocation_started": ("function",),
    "invocation_ended": ("outcome",),
    "call_raised": ("error",),
    "body_entered": ("attempt",),
    "body_left": ("error",),
    "lock": ("reason", "token"),
    "lease_request": ("action", "status"),
    "request": ("call", "answer"),
    "message_received": ("dequeue_count",),
    "message_sent": (),
    "message_completed": (),
    "message_returned": (),
    "message_poisoned": (),
    "kill": ("pid",),
    "pause": (),
    "resume": (),
    "operator": ("action",),
    "fault": ("kind", "aim", "way"),
    "fault_ended": ("hits",),
    "healed": (),
    "host_started": ("pid",),
    "host_ready": (),
    "host_draining": (),
    "host_stopping": (),
    "host_stopped": (),
    "host_exited": ("code", "expected"),
    "host_restarted": ("after",),
    "worker_exited": ("reason",),
    "loop_stood": ("seconds",),
    "tick": ("function",),
}
_FILLERS: Final = (None, "", 0, False)
_LONGEST: Final = 120
_SUSPECT: Final = re.compile("[=:]|bearer", re.IGNORECASE)


def read_notes(records: Iterable[Record], start: float) -> Iterator[Note]:
    """Yield a line for each record that is worth one."""
    for record in records:
        if record.event in _FIELDS:
            owner = record.text("invocation") or record.text("owner") or record.text("message") or record.text("id")
            lock = record.text("lock") or record.text("blob") or record.text("name") * (record.event == "request")
            yield Note(at=record.t - start, host=record.host, owner=owner, lock=lock, text=_text(record))


def _text(record: Record) -> str:
    what = record.text("kind") if record.event == "lock" else record.event
    parts = [what.replace("_", " ")]
    for name in _FIELDS[record.event]:
        value = record.get(name)
        if name == "error" and value:
            value = str(value).partition(":")[0]
        if value not in _FILLERS or name == "status":
            parts.append(f"{name.replace('_', ' ')} {value}")
    return careful(", ".join(parts))[:_LONGEST]


def careful(text: str) -> str:
    """Take account keys, signatures and tokens out of a text. Most texts can't have any: that is seen at once.

    >>> careful("waiting"), careful("AccountName=orders;AccountKey=c2VjcmV0")
    ('waiting', 'AccountName=orders;AccountKey=***')
    """
    return redact(text) if _SUSPECT.search(text) else text
