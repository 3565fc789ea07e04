"""No message is lost, and none is stuck: the fates of the messages that the fleet sent.

A message that was put back (`on_contention="defer"`) goes on as a copy with equal text; both count as one message.
A message is in exactly one state at the end: completed, skipped (its function did not run: `on_contention="skip"`),
coalesced (its function did not run, as another invocation waited), poisoned, stuck (still in its queue), lost, or open
(the run ended before the message's end). Queues deliver at least once: after a kill or a pause a message may run again,
and counts as duplicated. Without a kill or pause a duplicate is a violation, unless the queues themselves can be out of
reach (`History.rough`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.accounts import refused_wrongly
from simulator.checks.coalesced import LEFT
from simulator.checks.excuses import CALL, OUTAGE, behind_failure, behind_return, disturbed, is_slowed
from simulator.checks.findings import Finding, count, note, unproven, violation
from simulator.history.deeds import outside
from simulator.history.slowness import STORAGE
from singleton.defer.trigger_queue import poison_queue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.history.facts import History, Invocation, Message, Refusal


LOCK_FAULTS = frozenset({"LockLost", "LockClosed", "StorageError", "StorageDenied", "StorageUnavailable"})
"""Errors by which the lock itself fails an invocation."""

UNSENT: Final = "OutputError"
"""The error of an invocation whose outputs could not be sent."""
_NAMED: Final = 5

HIDDEN: Final = 60.0
"""Seconds after which a message comes back whose process hid it to put it back, and did not (docs/how-to/defer.md)."""

AFTERWARDS = 2.0
"""Seconds in which a host deletes a message after its function has ended."""

MessageState = Literal["completed", "skipped", "coalesced", "poisoned", "stuck", "lost", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrouble:
    """One message with which something went wrong."""

    id: str
    queue: str
    key: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The number of messages in each final state; `troubles` has the messages that did not just complete.

    `redelivered` counts messages with a dequeue count above one, `deferred` messages that were put back, `deferrals`
    the times that messages were put back.
    """

    sent: int = 0
    completed: int = 0
    skipped: int = 0
    coalesced: int = 0
    poisoned: int = 0
    stuck: int = 0
    lost: int = 0
    open: int = 0
    duplicated: int = 0
    redelivered: int = 0
    deferred: int = 0
    deferrals: int = 0
    troubles: tuple[MessageTrouble, ...] = ()

    @property
    def done(self) -> int:
        """How many are done: processed, or ended by the policy for contention."""
        return self.completed + self.skipped + self.coalesced


def check_messages(history: History) -> tuple[Messages, list[Finding]]:
    """Follow every message that was sent; return the counts, and what is wrong."""
    states: Counter[str] = Counter()
    troubles: list[MessageTrouble] = []
    findings: list[Finding] = []
    refused = {(each.host, outside(each.owner)): each for each in history.refusals}
    wrongly = {(each.host, outside(each.owner)) for each, _ in refused_wrongly(history)}
    sent = [message for message in history.messages.values() if message.sent is not None]
    unread = Counter(message.queue for message in sent if not history.reads(message.queue))
    for message, state, ran in final_states(history):
        states[state] += 1
        states["sent"] += 1
        states["redelivered"] += message.most_dequeued > 1
        states["deferred"] += message.deferred > 0
        states["deferrals"] += message.deferred
        states["duplicated"] += len(ran) > 1
        wrong = _troubles(history, message, state, ran)
        troubles += [MessageTrouble(id=message.id, queue=message.queue, key=message.key, what=what) for what in wrong]
        if state == "poisoned":
            findings.append(_judge_poison(history, message, refused, wrongly))
        findings += _judge_failures(history, message)
    messages = Messages(**states, troubles=tuple(troubles))
    return messages, [*_judge(messages), *_merged(findings), *_outgoing(unread)]


def final_states(history: History) -> Iterator[tuple[Message, MessageState, list[Invocation]]]:
    """Yield each message that was sent to a function of the app, how it ended, and the calls whose bodies ran."""
    bodies = {(section.host, section.owner) for section in history.sections}
    refused = {(refusal.host, refusal.owner) for refusal in history.refusals}
    away, left = (
        {(refusal.host, refusal.owner) for refusal in history.refusals if refusal.reason == reason}
        for reason in ("defer", LEFT)
    )
    for message in history.messages.values():
        if message.sent is None or not history.reads(message.queue):
            continue
        ran = [call for call in message.invocations if _ran(history, call, bodies, refused)]
        state = _state(history, message, ran=bool(ran), dropped=_dropped(message, away))
        if state == "skipped" and any((call.host, call.id) in left for call in message.invocations):
            state = "coalesced"
        yield message, "poisoned" if state == "stuck" and _given_up(message) else state, ran


def _outgoing(unread: Counter[str]) -> Iterator[Finding]:
    if len(unread) > _NAMED:
        yield note(
            f"{count(unread.total(), 'message')} sent to {count(len(unread), 'queue')} that no function here reads"
        )
        return
    for queue, many in unread.items():
        yield note(f"{count(many, 'message')} sent to {queue!r}, which no function here reads")


def _ran(history: History, call: Invocation, bodies: set[tuple[str, str]], refused: set[tuple[str, str]]) -> bool:
    """Tell whether this call's body ran without an error, to its end or until its host died."""
    where = (call.host, call.id)
    if call.ending in {"killed", "crashed"}:
        return where in bodies or not history.function(call.function).guarded
    return call.ending == "ok" and (where in bodies or where not in refused)


def _dropped(message: Message, away: set[tuple[str, str]]) -> bool:
    """Tell whether only the put-back of the message succeeded, and no host reported a copy."""
    succeeded = [call for call in message.invocations if call.ending == "ok"]
    return bool(succeeded) and all((call.host, call.id) in away for call in succeeded)


def _state(history: History, message: Message, *, ran: bool, dropped: bool) -> MessageState:
    succeeded = [call for call in message.invocations if call.ending == "ok"]
    unlogged = any(call.host in history.deaths for call in succeeded)  # died between deleting and saying so
    if message.poisoned:
        return "poisoned"
    if not message.ids.isdisjoint(history.ready_left.get(message.queue, ())):
        return "stuck"
    invisible = history.invisible_left.get(message.queue)
    if not (message.completed or (unlogged and not invisible)):
        if message.queue not in history.ready_left or any(call.ending == "open" for call in message.invocations):
            return "open"
        if invisible:
            return "open" if hidden_until(history, message) > history.end else "stuck"
    if not succeeded or (dropped and not ran):
        return "lost"
    return "completed" if ran else "skipped"  # also if the answer to its deletion was lost


def hidden_until(history: History, message: Message) -> float:
    """Return until when its queue may hide a message after its last call; minus infinity: the queue does not.

    A message that is put back a second time may be put back for ever, and is not excused.
    """
    calls = [call for call in message.invocations if call.ending != "open"]
    last = max(calls, key=lambda call: call.end, default=None)
    if last is None or (last.ending == "deferred" and message.deferred > 1):
        return -math.inf
    function = history.function(last.function)
    if last.ending == "deferred":
        return last.end + function.away
    defers = "defer" in {function.on_contention, function.when_full}
    return last.end + max(function.hides, HIDDEN * defers)


def _given_up(message: Message) -> bool:
    """Tell whether the message failed and stayed in its queue: a queue without a poison queue (H-40)."""
    if is_dead_lettered(message.queue):
        return False
    return (
        poison_queue(message.queue) is None and bool(message.invocations) and message.invocations[-1].ending == "error"
    )


def _troubles(history: History, message: Message, state: MessageState, ran: list[Invocation]) -> Iterator[str]:
    twice = len(ran) > 1 and not _excused(history, message, ran)
    at_once = _at_once(history, message)
    if (twice or at_once) and _came_back(history, message):
        yield "ran twice on a slow machine"
    else:
        yield from ["ran twice without a kill"] * twice
        yield from ["ran twice at once"] * at_once
    if state not in {"completed", "skipped", "coalesced", "open"}:
        yield _why(history, message, state)


def _why(history: History, message: Message, state: MessageState) -> str:
    calls = len(message.invocations)
    last = message.receipts[-1][1] if message.receipts else ""
    if state == "lost" and any(call.ending == "ok" for call in message.invocations):
        return "to be put back, and it was not"
    if state == "lost" and message.completed:
        return "deleted from its queue although no invocation of it succeeded"
    if state == "lost":
        return f"gone from its queue after {count(calls, 'invocation')}, none of which finished it"
    if state == "stuck" and not message.receipts:
        return "still in its queue: no host ever received it"
    if state == "stuck" and last in history.deaths:
        return f"still in its queue: {last} had received it before it died, and nobody since"
    if state == "stuck":
        return f"still in its queue after {count(calls, 'invocation')}, the last of them on {last}"
    errors = [call.error for call in message.invocations if call.error]
    if not message.poisoned:
        return f"left in its queue after {count(calls, 'invocation')}: {errors[-1]}"
    return f"poisoned after {count(calls, 'invocation')}" + (f": {errors[-1]}" if errors else "")


def _excused(history: History, message: Message, ran: list[Invocation]) -> bool:
    """Tell whether in all runs except one a host died, or stood still, before it could delete the message.

    This includes a host that was about to put the message back, or had not yet deleted the original: then the message
    and its copy exist.
    """
    if history.rough:
        return True
    undeleted = [
        call
        for call in message.invocations
        if call.ending in {"killed", "crashed"}
        or (call in ran and call.host in history.deaths and call.host not in message.completed)
        or (call.ending == "deferred" and call.host in history.deaths and not call.settled)
        or stood_still(history, message, call)
    ]
    return len(undeleted) >= len(ran) - 1


def stood_still(history: History, message: Message, call: Invocation) -> bool:
    """Tell whether the host stood still, was cut off, or let a received message go: other hosts may have the message.

    A pause shortly before the host's record of the receipt counts too: it may have delayed the queue's answer.
    """
    if (call.host, call.message) in history.traffic.let_go or behind_return(history, message, call):
        return True
    received = max((t for t, host in message.receipts if host == call.host and t <= call.start), default=call.start)
    return history.paused(call.host, received - AFTERWARDS, call.end + AFTERWARDS)


def _at_once(history: History, message: Message) -> bool:
    if history.rough:
        return False
    calls = sorted((call for call in message.invocations if call.ending != "deferred"), key=lambda call: call.start)
    return any(
        later.start < earlier.end
        and not stood_still(history, message, earlier)
        and not stood_still(history, message, later)
        for earlier, later in pairwise(calls)
    )


def _came_back(history: History, message: Message) -> bool:
    """Tell whether the machine was too slow to keep a received message hidden, or to delete it: it may be doubled."""
    return any(
        again > since and history.slowness.late(host, STORAGE, start=since, end=again) >= OUTAGE * (again - since)
        for (since, host), (again, _) in pairwise(sorted(message.receipts))
    )


def _judge(messages: Messages) -> Iterator[Finding]:
    if messages.lost:
        yield violation(f"{count(messages.lost, 'message')} lost: gone from the queue, never processed")
    if messages.stuck:
        yield violation(f"{count(messages.stuck, 'message')} stuck: still in the queue at the end")
    what = Counter(trouble.what for trouble in messages.troubles)
    if twice := what["ran twice without a kill"]:
        yield violation(f"{count(twice, 'message')} ran twice although nobody had been killed")
    if at_once := what["ran twice at once"]:
        yield violation(f"{count(at_once, 'message')} ran in two invocations at the same time")
    if slowed := what["ran twice on a slow machine"]:
        yield unproven(
            f"{count(slowed, 'message')} ran twice: not judged, as this machine was too slow to keep them hidden"
        )
    if messages.open:
        yield unproven(f"{count(messages.open, 'message')} not through when the run ended")


def _judge_poison(
    history: History, message: Message, refused: Mapping[tuple[str, str], Refusal], wrongly: set[tuple[str, str]]
) -> Finding:
    """The function itself is the cause of a poison message if its errors, or its policy, brought it there."""
    failed = [call for call in message.invocations if call.ending == "error"]
    caused = {
        call.id
        for call in failed
        if history.paused(call.host, call.start, call.end) or behind_failure(history, call) or is_slowed(history, call)
    }
    too_long = {(body.host, body.owner) for body in history.sections if body.why == "too long"}
    outlived = {call.id for call in failed if call.blames == "LockLost" and (call.host, call.id) in too_long}
    blamed = {call.blames for call in failed if call.id not in caused | outlived}
    if history.rough:  # if the lock may fail at any time, the function itself gives up its message
        blamed -= LOCK_FAULTS
    where = f"{'dead-lettered' if is_dead_lettered(message.queue) else 'poisoned'} from {message.queue!r}"
    if not message.poisoned:
        where = f"left in {message.queue!r}, which has no poison queue,"
    if faults := sorted(blamed & LOCK_FAULTS):
        return violation(f"{where} by the lock's own failure ({', '.join(faults)})")
    if not failed and any((call.host, call.id) in history.struck for call in message.invocations):
        return note(f"{where}: its body failed once too often, in an invocation that then had to succeed")
    if not failed and message.unseen:
        return note(f"{where} by deliveries that never reached a host, which count all the same")
    if not failed:
        return violation(f"{where} without one failed invocation")
    owners = {(call.host, call.id): refused.get((call.host, call.id)) for call in failed}
    unsent = [owners[call.host, call.id] for call in failed if error_name(call) == UNSENT]
    if any(each is not None and each.owner == outside(each.owner) for each in unsent):
        return violation(
            f"{where} because it was skipped: the None of a skipped call can't be sent to a $return output; give the "
            "function a func.Out parameter instead"
        )
    policies = {history.function(call.function).on_contention for call in failed}
    by_lock = [call for call in failed if call.blames == "LockNotAcquired"]
    causes = {_why_refused(history, call, owners[call.host, call.id]) for call in by_lock}
    if blamed == {"LockNotAcquired"} and policies == {"defer"} and not any("when_full" in cause for cause in causes):
        return violation(f'{where} by contention alone, which on_contention="defer" rules out')
    if any((call.host, call.id) in wrongly for call in by_lock):
        return violation(f"{where} by refusals that no policy of its function allows")
    struck = {call.blames for call in failed if call.blames in LOCK_FAULTS and call.id not in outlived}
    own = {call.blames or error_name(call) for call in failed if call.blames not in {"LockNotAcquired", *LOCK_FAULTS}}
    said = [*sorted(causes), *["max_hold ended its body each time"] * bool(outlived)]
    said += [f"what befell its hosts or the storage failed it ({', '.join(sorted(struck))})"] * bool(struck)
    if own == {UNSENT} and not said:
        return note(f"{where} because its function's outputs could not be sent ({failed[-1].error})")
    errors = f"its function's own errors ({', '.join(sorted(own)) or 'unnamed'})"
    return note(f"{where}: {', or '.join([*said, *[errors] * bool(own)])}" if said else f"{where} by {errors}")


def _judge_failures(history: History, message: Message) -> Iterator[Finding]:
    """Count the failures of a message that was put back: those of all its copies, since the count was last hindered.

    A delivery fails once, however often it is tried, and whether it ends by a failure or is put back after one.
    """
    calls = sorted(message.invocations, key=lambda call: call.start)
    most = max((history.function(call.function).tries for call in calls), default=math.inf)
    if history.rough or message.unnamed or not message.deferred or most == math.inf:
        return
    bodies = {(sight.host, sight.invocation) for sight in history.sights if sight.ending == "error"}
    counts: list[dict[tuple[str, str], Invocation]] = [{}]
    for call in calls:
        if _is_hindered(history, call):  # its failure, and the count before it, may be forgotten
            counts.append({})
        elif call.ending == "error" and not call.blames and (call.host, call.id) in bodies:
            counts[-1][call.host, call.id] = call
    failed = max(counts, key=len)
    if len(failed) > most:
        last = [*failed.values()][int(most)]
        yield violation(
            f"{message.id} of {message.queue!r} failed {count(len(failed), 'time')} in all its deliveries, and the "
            f"maxDequeueCount is {most:g}: once too often on {last.host} at {last.end - history.start:.1f} s"
        )
    if len(counts) > 1:
        return
    struck = any((call.host, call.id) in history.struck for call in calls)
    vain = {(call.host, call.id) for call in calls if call.ending == "error"}
    tried = message.received.total() - message.deferred  # a delivery that was put back at its first try is no failure
    tried += sum(call.ending == "deferred" and (call.host, call.id) in vain for call in calls)
    if struck and not message.unseen and tried < most:
        yield violation(f"{message.id} of {message.queue!r} was given up after {tried} of {most:g} failures")


def _is_hindered(history: History, call: Invocation) -> bool:
    """Tell whether something kept a host from counting a failure, or from keeping the count with a copy."""
    ended = call.ending in {"killed", "crashed", "lost"} or call.host in history.deaths
    slow = history.slowness.late(call.host, STORAGE, start=call.start, end=call.end) >= OUTAGE * CALL
    return ended or slow or disturbed(history, call.host, call.start, call.end + AFTERWARDS)


def _why_refused(history: History, call: Invocation, refusal: Refusal | None) -> str:
    """Say what gives a delivery up, and when: the policy, ``max_waiting``, or the end of the time for the wait."""
    own = history.function(call.function)
    function = own if refusal is None else history.function(refusal.function)
    ran = any((body.host, body.owner) == (call.host, call.id) for body in history.sections)
    if function.blob or not function.guarded or (refusal is None and ran):
        return "a lock that its body asked for was taken"

    def of_it(what: str) -> str:
        return f"its {what}" if function is own else f"the {what} of {function.name!r}"

    full = refusal is not None and refusal.reason == function.when_full != function.on_contention
    if full and function.max_waiting is not None:
        return f'when_full="{function.when_full}" gives a delivery up each time max_waiting others wait'
    if function.on_contention == "raise":
        why = 'on_contention="raise"'
    elif function.on_contention == "custom" and refusal is not None and refusal.reason == "raise":
        why = f"the answer 'raise' of {of_it('policy')}"
    else:
        why = of_it("functionTimeout" if function.timeout is None and function.limit is not None else "timeout")
    return f"{why} gives a delivery up each time the lock is taken"


def is_dead_lettered(queue: str) -> bool:
    """Tell whether a source is no storage queue: its broker dead-letters a message that fails too often."""
    return "/" in queue


def error_name(call: Invocation) -> str:
    """Return the class of the error with which a call failed, without its module."""
    return call.error.partition(":")[0].rpartition(".")[2]


def _merged(findings: list[Finding]) -> Iterator[Finding]:
    for finding, number in Counter(findings).items():
        yield Finding(finding.kind, f"{count(number, 'message')} {finding.text}")
