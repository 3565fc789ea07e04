"""Planted bugs in what puts messages back."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

_DEFERRAL = "singleton/defer/deferral.py"
_STRIKES = "singleton/defer/failure_count.py"
_DEFERRING = "singleton/functions/message_deferral.py"
_MESSAGE = "singleton/functions/message_properties.py"
_PLACE = "singleton/defer/trigger_queue.py"
_OWN = "singleton/functions/message_properties.py"

DEFERRALS: tuple[Mutant, ...] = (
    Mutant(
        name="a cancelled deferral stops half way",
        file=_DEFERRAL,
        old="@undisturbed\nasync def put_back(",
        new="async def put_back(",
        breaks="no cancellation stops what has begun",
        by=("tests/unit/defer/test_deferral.py",),
        why="its caller is not disturbed either",
    ),
    Mutant(
        name="a cancelled put-back forgets its copy",
        file=_DEFERRING,
        old="        await withdraw(moved)\n",
        new="",
        breaks="a cancelled invocation leaves one message",
    ),
    Mutant(
        name="the copy lives for a week",
        file=_DEFERRAL,
        old="delay=wait, life=life)",
        new="delay=wait, life=_LIFE)",
        breaks="a copy has what is left of its original's life",
    ),
    Mutant(
        name="what never ends ends in a week",
        file=_DEFERRAL,
        old="return None if expires == math.inf else math.floor(expires - now)",
        new="return _LIFE if expires == math.inf else math.floor(expires - now)",
        breaks="a message without an end has none when it was put back",
    ),
    Mutant(
        name="a message outlives its end",
        file=_DEFERRAL,
        old="math.floor(expires - now)",
        new="max(1, math.floor(expires - now))",
        breaks="a message ends when its life does, and no storm of copies begins",
        among="defer",
    ),
    Mutant(
        name="the original is not deleted",
        file=_DEFERRAL,
        old="    if not await _gone(lambda: queue.delete(*claimed)):\n",
        new="    if not await _gone(lambda: queue.delete(message.id or '', message.receipt or '')):\n",
        breaks="one message is left of a message and its copy",
    ),
    Mutant(
        name="the delay is doubled each time",
        file=_DEFERRING,
        old="seconds = round(self.delay * registry.rng.uniform(1 - JITTER, 1 + JITTER))",
        new="seconds = round(self.delay * (message.dequeue_count or 1) * registry.rng.uniform(1 - JITTER, 1 + JITTER))",
        breaks="a message stays away for deferDelay, give or take a quarter",
    ),
    Mutant(
        name="the receive that is put back counts as a failure",
        file=_DEFERRING,
        old="message.dequeue_count - 1)",
        new="message.dequeue_count)",
        breaks="contention alone poisons nothing",
    ),
    Mutant(
        name="failures before the last deferral are forgotten",
        file=_DEFERRING,
        old="failures = strikes.before + (",
        new="failures = (",
        breaks="failures are counted across all the times that a message is put back",
    ),
    Mutant(
        name="a try that failed before is forgotten",
        file=_DEFERRING,
        old="        failures += call.tried > 0\n",
        new="",
        breaks="a failure counts, whichever try of its delivery it was",
        among="defer",
    ),
    Mutant(
        name="each failed try is a failed delivery",
        file=_DEFERRING,
        old="if call.may_repeat or trigger is None",
        new="if trigger is None",
        breaks="the last delivery of a message has all its tries",
        among="defer",
    ),
    Mutant(
        name="a message that failed too often is put back",
        file=_DEFERRING,
        old="if failures >= place.max_dequeue_count:",
        new="if failures >= 9 * place.max_dequeue_count:",
        breaks="a message whose failed tries are followed by contention is poison in the end",
        among="defer",
    ),
    Mutant(
        name="failures stay under the name of the original",
        file=_DEFERRING,
        old="copys_key = key_of_copy(message, moved.copy)",
        new="copys_key = key",
        breaks="the number of failures goes with the copy",
    ),
    Mutant(
        name="a copy's failures are looked for by the original's second",
        file=_STRIKES,
        old="_key(message.text, None if message.inserted is None else copy.inserted)",
        new="_key(message.text, message.inserted)",
        breaks="the failures of a message whose id is hidden go with its copy",
    ),
    Mutant(
        name="poison one failure early",
        file=_DEFERRING,
        old="counted.total >= most > counted.here",
        new="counted.total >= most - 1 > counted.here",
        breaks="a message is tried as often as maxDequeueCount says",
    ),
    Mutant(
        name="poison one failure late",
        file=_DEFERRING,
        old="counted.total >= most > counted.here",
        new="counted.total > most > counted.here",
        breaks="a message is poison after as many failures as maxDequeueCount says",
    ),
    Mutant(
        name="what was poisoned ends as a failure",
        file=_DEFERRING,
        old="return moved is not None and moved.by_host",
        new="return False",
        breaks="the host deletes the original of what was moved to the poison queue",
    ),
    Mutant(
        name="bodies go back as text",
        file=_MESSAGE,
        old='if encoding == "base64" else body.decode()',
        new='if encoding == "none" else body.decode()',
        breaks="a copy has the body that its original had",
    ),
    Mutant(
        name="the encoding is the default's",
        file=_PLACE,
        old="message_encoding(app_dir, settings), max",
        new='"base64", max',
        breaks="host.json says how bodies are encoded",
    ),
    Mutant(
        name="a message near its end is hidden beyond it",
        file=_DEFERRAL,
        old="min(delay, life // 2)",
        new="min(delay, life)",
        breaks="the service takes no delay that is as long as a life",
        by=("tests/unit/defer/test_deferral.py",),
        why="a message that is refused near its end is tried again, and ends",
    ),
    Mutant(
        name="the poison queue is the queue",
        file=_DEFERRING,
        old="for name in (place.queue, poison))",
        new="for name in (place.queue, place.queue))",
        breaks="poison lies in the poison queue",
    ),
    Mutant(
        name="a put-back answers with what it did",
        file="singleton/functions/guard.py",
        old="                await self._deferring.put_back(call, contended, locks)\n                return None\n",
        new="                await self._deferring.put_back(call, contended, locks)\n"
        "                return Hold(call.lock, owner=call.owner)\n",
        breaks="a body whose message was put back does not run",
    ),
    Mutant(
        name="a poisoned message stays in its queue, too",
        file=_DEFERRAL,
        old="    if claimed is not None:\n        await _gone(lambda: queue.delete(*claimed))\n    return Moved(to=to",
        new="    return Moved(to=to",
        breaks="what is poison is not in its queue any more",
    ),
    Mutant(
        name="a note is read from another queue's messages",
        file=_STRIKES,
        old="return f\"{_PREFIX}/{quote(queue, safe='')}/{quote(key, safe='')}\"",
        new="return f\"{_PREFIX}/{quote(queue, safe='')}\"",
        breaks="each message has a number of its own",
    ),
)
