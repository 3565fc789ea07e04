"""The copies of messages: those that were put back (`on_contention="defer"`), and those in poison queues."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses import disturbed
from simulator.checks.findings import Finding, count, unproven, violation
from singleton.defer.trigger_queue import poison_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Message
    from simulator.history.outages import PutBack

_SHORTEST: Final = 0.6
"""The shortest time away of a message that is put back, as a part of the longest: a quarter less, a quarter more."""


def judge_copies(history: History) -> Iterator[Finding]:
    """Find what is wrong with the copies of messages that were put back."""
    changed = sum(message.deferred > 0 and len(message.digests) > 1 for message in history.messages.values())
    if changed:
        yield violation(f"{count(changed, 'message')} came back with another body than before")
    yield from _altered_in_poison(history)
    yield from _hidden_otherwise(history)
    if not history.rough:
        yield from _extra(history)


def _altered_in_poison(history: History) -> Iterator[Finding]:
    """A poisoned message is in its poison queue at the end, or was received there: with the body that it came with.

    Where fewer are there than were moved, the app may have taken them out by itself.
    """
    for queue, record in history.poison_left.items():
        there: list[str] = [*(record.get("digests") or ())]
        moved = [each for each in history.messages.values() if each.queue == queue and each.poisoned and each.digests]
        for message in history.messages.values():
            there += message.digests if message.queue == poison_queue(queue) else ()
        gone = [message for message in moved if message.digests.isdisjoint(there)]
        if gone and len(there) < len(moved):
            yield unproven(f"{count(len(gone), 'message')} moved to {poison_queue(queue)!r}: not there at the end")
        elif gone:
            yield violation(
                f"{count(len(gone), 'message')} came to {poison_queue(queue)!r} with another body than before: "
                f"the first was {gone[0].id} of {queue!r}"
            )


def _hidden_otherwise(history: History) -> Iterator[Finding]:
    """A message that is put back stays away as declared, give or take a quarter; for half of its life at most."""
    wrong: dict[str, list[PutBack]] = defaultdict(list)
    for put in history.traffic.put_back:
        longest = history.function(put.function).away
        least = min(longest * _SHORTEST, put.life // 2)
        if longest and not math.floor(least) <= put.delay <= math.ceil(longest):
            wrong[put.function].append(put)
    for name, several in sorted(wrong.items()):
        first, longest = min(several, key=lambda put: put.t), history.function(name).away
        yield violation(
            f"{name!r} put {count(len(several), 'message')} back for another time than its defer_delay: the first for "
            f"{first.delay:g} s, by {first.host} at {first.t - history.start:.1f} s, where {longest * _SHORTEST:g} to "
            f"{longest:g} s are declared"
        )


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
            call.ending not in {"ok", "deferred", "open"} or disturbed(history, call.host, call.start, call.end)
            for call in calls
        )
        if excused or not any(message.deferred and message.sent is not None for message in messages):
            continue
        ran = min((bodies.get((call.host, call.id), math.inf) for call in calls), default=math.inf)
        extra += sum(message.sent is None and min(message.receipts)[0] < ran for message in messages)
    if extra:
        yield violation(f"{count(extra, 'message')} came that nobody had sent: copies of what was put back once")
