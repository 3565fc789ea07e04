"""The messages of one session are handled in the order in which they were sent, and one at a time.

A host that stands still, or renews a message's lock no more, loses that lock. The message is then delivered again, and
beside the old run of it the next one of its session may run. No broker can prevent that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, violation
from simulator.checks.messages import stood_still

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Invocation, Message


def sessions_of(history: History) -> dict[tuple[str, str], list[Message]]:
    """Return the messages of each session, by entity and session, in the order in which they were sent."""
    found: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in sorted(history.messages.values(), key=lambda message: message.sent or 0.0):
        if message.session and message.sent is not None:
            found[message.queue, message.session].append(message)
    return found


def judge_sessions(history: History) -> Iterator[Finding]:
    """Find messages that overtook others of their session, or ran beside one of them."""
    if history.rough:
        return
    late, beside = Counter[str](), Counter[str]()
    ends: dict[tuple[str, str], float] = defaultdict(lambda: -math.inf)
    for sight in history.sights:
        whose = (sight.host, sight.invocation)
        ends[whose] = max(ends[whose], sight.end)
    for (queue, _), messages in sessions_of(history).items():
        calls = [(call, place) for place, message in enumerate(messages) for call in message.invocations]
        furthest = -1
        under_way: list[tuple[Invocation, int]] = []
        for call, place in sorted(calls, key=lambda each: each[0].start):
            woke = stood_still(history, messages[place], call)
            late[queue] += place < furthest and not woke
            furthest = max(furthest, place)
            under_way = [
                (other, at) for other, at in under_way if max(other.end, ends[other.host, other.id]) > call.start
            ]
            beside[queue] += not woke and any(
                at != place and not stood_still(history, messages[at], other) for other, at in under_way
            )
            under_way.append((call, place))
    for queue, number in sorted((+late).items()):
        yield violation(f"{count(number, 'message')} of {queue!r} ran after a later one of the same session")
    for queue, number in sorted((+beside).items()):
        yield violation(f"{count(number, 'message')} of {queue!r} ran beside another one of the same session")
