"""A message that is put back goes on as one copy with the same text, and no other copy appears."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from simulator.checks.excuses.hindrance import hindering
from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Message


def judge_copies(history: History) -> Iterator[Finding]:
    """Find what is wrong with the copies of messages that were put back."""
    changed = sum(message.deferred > 0 and len(message.digests) > 1 for message in history.messages.values())
    if changed:
        yield violation(f"{count(changed, 'message')} came back with another body than before")
    if not history.rough:
        yield from _extra(history)


def _extra(history: History) -> Iterator[Finding]:
    """Find messages that nobody sent, and that have the text of a message that was put back.

    After its body has run, the app may have sent such a message itself. A host that dies or fails while it puts a
    message back may leave two.
    """
    alike: dict[str, list[Message]] = defaultdict(list)
    for message in history.messages.values():
        for digest in message.digests:
            alike[digest].append(message)
    bodies = {(section.host, section.owner): section.start for section in history.sections}
    extra = 0
    for messages in alike.values():
        calls = [call for message in messages for call in message.invocations]
        excused = any(
            call.ending not in {"ok", "deferred", "open"}
            or history.paused(call.host, call.start, call.end)
            or hindering(history, call.host, call.start, call.end)
            for call in calls
        )
        if excused or not any(message.deferred and message.sent is not None for message in messages):
            continue
        ran = min((bodies.get((call.host, call.id), math.inf) for call in calls), default=math.inf)
        extra += sum(message.sent is None and min(message.receipts)[0] < ran for message in messages)
    if extra:
        yield violation(f"{count(extra, 'message')} came that nobody had sent: copies of what was put back once")
