"""Which faults explain what went wrong: a lost hold, a failed invocation, an overlap, a message that came back.

An empty list means that no fault does. An operator who ends a lease is a fault that the holder does not know at once:
how long that is excused is said here, too.

Here, too: when the way of a host to the storage was hindered, when a host stood still, and the effects on leases.

A standstill must last for a third of a lease to cost the lease. A body that wakes must be told of the loss in time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from simulator.checks.deadlines import slack
from simulator.faults.effects import effects_of
from simulator.history.deeds import SEAT, outside, patience_told, semaphore_of
from simulator.history.facts import Acquisition, Section, Wait
from simulator.history.leases import DEADLINE, left_leases
from simulator.history.outages import covered
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Deed, History, Invocation, Message
    from simulator.history.outages import Strike


ASKED: Final = 2.0
"""Seconds for which a request may be under way, or its answer told late, on a busy machine."""


_KEPT_OPEN: Final = 15.0
"""Seconds for which a host keeps an idle connection to the storage."""


def hindering(history: History, host: str, start: float, end: float) -> list[Strike]:
    """Return the faults that hindered a host's requests at some time between these two, or had just done so."""
    return [fault for fault in _of(history, host) if effects_of(fault.kind).hinders and _meets(fault, start, end)]


def hindered(history: History, host: str, start: float, end: float) -> float:
    """Return for how many seconds between these two the requests of a host were hindered.

    A connection that the network has forgotten may be used later, and loses that request.
    """
    spans = [span(fault) for fault in hindering(history, host, start, end)]
    forgotten = [fault.end for fault in _of(history, host) if fault.kind == "forget" and fault.end <= end]
    spans += [
        (each.sent, each.t)
        for each in (history.requests if forgotten else ())
        if each.host == host and each.status is None and any(0 <= each.sent - t <= _KEPT_OPEN for t in forgotten)
    ]
    return covered(spans, start, end)


def disturbed(history: History, host: str, start: float, end: float) -> bool:
    """Tell whether a host stood still between these two, or its requests were hindered."""
    return history.paused(host, start, end) or bool(hindering(history, host, start, end))


def uncaused(history: History, host: str, start: float, end: float) -> str:
    """Say that nothing caused what went wrong on a host between these two; a fault of that time is named."""
    spans = [(fault.kind, fault.start, min(fault.end, end)) for fault in hindering(history, host, start, end)]
    spans += [("pause", pause.start, min(pause.end, end)) for pause in history.pauses if pause.host == host]
    near = [(until - since, kind, since, until) for kind, since, until in spans if since <= end and until >= start]
    text = "which nothing in this run caused"
    for _, kind, since, until in sorted(near)[-1:]:
        text += (
            f" (the {kind} from second {since - history.start:.1f} to {until - history.start:.1f} does not explain it)"
        )
    return text


def by_when(history: History, host: str, start: float, seconds: float) -> float:
    """Return when so many seconds have passed since ``start`` in which the requests of a host were not hindered."""
    end = start + seconds
    while end < history.end and (later := start + seconds + hindered(history, host, start, end)) > end:
        end = later
    return end


def span(fault: Strike) -> tuple[float, float]:
    """Return from when to when a fault may have effects."""
    return fault.start, fault.end + effects_of(fault.kind).after


def leased_until(history: History, deed: Acquisition | Wait, start: float, end: float) -> float:
    """Return until when a lock may be leased, after a request, a hold or a release between these two.

    A request may have been carried out after its sender gave it up, or a release not at all. A lease counts from the
    last such moment.
    """
    late = []
    for fault in _of(history, deed.host):
        effects = effects_of(fault.kind)
        may_lease = effects.unseen if isinstance(deed, Wait) else effects.leases
        if may_lease and _meets(fault, start, end):
            late.append(min(span(fault)[1], end + effects.after))
    return max(late) + history.lease_of(deed) if late else -math.inf


def free_later(history: History, lock: str, start: float, end: float) -> float:
    """Return until when a lock may be leased to nobody who knows it, because of faults between these two."""
    asked: list[tuple[Acquisition | Wait, float, float]] = [
        (wait, wait.start, wait.end) for wait in history.waits if wait.lock == lock and wait.start <= end
    ]
    asked += [(got, got.t, got.until) for got in history.acquisitions if got.lock == lock and got.t <= end]
    lapsed = [until for name, _, since, until in left_leases(history) if name == lock and since <= end]
    lapsed += [
        leased_until(history, deed, max(since, start), min(until + ASKED, end))
        for deed, since, until in asked
        if until + ASKED >= start
    ]
    return max(lapsed, default=-math.inf)


def _of(history: History, host: str) -> Iterator[Strike]:
    """Yield the faults of a host, but for those which are over and met nothing: no request, no connection to reset."""
    for fault in history.faults:
        if host in fault.hosts and (fault.end == math.inf or fault.hits or effects_of(fault.kind).resets):
            yield fault


def _meets(fault: Strike, start: float, end: float) -> bool:
    since, until = span(fault)
    return since <= end and until >= start


SPARE: Final = 1.0
"""Seconds by which the time that a lock has left may be shorter, on a busy machine."""
OUTAGE: Final = 1 / 3
"""Part of a lease for which an outage costs no hold, whenever it begins (docs/guarantees.md)."""
TOLD: Final = 3.0
"""Seconds in which a host that woke past its lease tells its bodies, on a busy machine."""


def overslept(history: History, body: Section, until: float) -> bool:
    """Tell whether its host stood still for so long before ``until`` that the lease is gone, and told it as it woke."""
    told = body.end if body.told is None else body.told
    slept = [pause for pause in history.pauses if pause.host == body.host and body.start <= pause.end]
    slept = [pause for pause in slept if pause.start <= until]
    heard = any(history.worked(body.host, body.worker or 1, pause.end, told) <= TOLD for pause in slept)
    return heard and is_long(history, body, min(told, until))


def is_long(history: History, body: Section | Acquisition, until: float, *, slow: bool = True) -> bool:
    """Tell whether a lease ran out before ``until`` as its host did nothing, or could not reach the storage.

    Renewals are due half a lease after the last one that was granted, and from then to the deadline one must fail after
    the other. An outage of a third of the lease in that time leaves no room for one. With ``failover``, and where the
    journal does not tell when requests were sent, a third of the time before ``until`` counts. ``slow``: the machine's
    slowness counts as an outage.
    """
    since, over, timed = _renewing(history, body, until)
    if until < over - SPARE or (not timed and body.why not in {"", "expired"}):
        return False
    lease = history.function(body.function).silence_in(body.mode)
    idle = [(fault.start, fault.end) for fault in hindering(history, body.host, since, over)]
    idle += [
        (each.start, each.end) for each in history.standstills if each.host == body.host and (each.whole or not timed)
    ]
    idle += [(pause.start, pause.end) for pause in history.pauses if pause.host == body.host]
    late = history.slowness.late(body.host, STORAGE, start=since, end=over) if slow else 0.0
    return covered(idle, since, over) + late >= min(_costs(history, lease), over - since - SPARE)


def _costs(history: History, lease: float) -> float:
    """Return for how many seconds an outage lasts that may cost a lease of so many."""
    return max(lease * OUTAGE - min(SPARE, slack(history)), lease * OUTAGE / 2)


def is_slowed(history: History, call: Invocation) -> bool:
    """Tell whether the machine kept the host of an invocation waiting for as long as fails an invocation so."""
    since, costs = failing(history, call)
    return history.slowness.late(call.host, STORAGE, start=since, end=call.end) >= costs


def overslept_call(history: History, call: Invocation) -> bool:
    """Tell whether the host of an invocation was stopped for as long as fails an invocation so, and just then."""
    since, costs = failing(history, call)
    slept = [(pause.start, pause.end) for pause in history.pauses if pause.host == call.host]
    struck = [span(fault) for fault in hindering(history, call.host, since, call.end)]
    return covered(slept, since, call.end) > 0 and covered([*slept, *struck], since, call.end) >= costs - SPARE


def failing(history: History, call: Invocation) -> tuple[float, float]:
    """Return for how many seconds, and since when, nothing must have been done for an invocation to fail as it did."""
    function = history.function(call.function)
    if call.blames == "StorageUnavailable":
        timeout = function.timeout or math.inf  # a shorter one leaves less time for an answer
        if (answer := patience_told(history).get((call.host, call.id))) is not None:
            timeout = answer.get("patience") or math.inf
        return troubled_since(history, call) - CALL, min(CALL, max(timeout - SPARE, timeout / 2))
    if call.blames == "LockLost":
        lease = function.silence_in(function.mode)
        return call.end - lease, _costs(history, lease)
    return call.end, math.inf


def _renewing(history: History, body: Section | Acquisition, until: float) -> tuple[float, float, bool]:
    """Return from when to when renewals must have failed for a lease to run out, and whether requests tell that."""
    function = history.function(body.function)
    hold = body if isinstance(body, Acquisition) else _hold_of(body, [*_theirs(history, body)])
    granted = [t for t in hold.granted if t <= until] if hold is not None and hold.timed else []
    if not granted or function.failover:
        return until - function.silence_in(body.mode), until, False
    last, lease = granted[-1], function.lease_in(body.mode)
    return last + function.renewal_in(body.mode), last + lease * DEADLINE, True


CALL: Final = 5.0
"""Seconds that the renewal may take by which a holder learns that its lease was ended."""
_SAID: Final = 0.5
"""Seconds in which a loss is told after it is known."""


def exposing(history: History, deed: Deed, t: float) -> list[Strike]:
    """Return the breaks of a deed's lease that the host can't know at this time."""
    return [
        fault
        for fault in _breaks(history, deed.lock)
        if fault.start <= t <= knows_at(history, deed, fault) and _rests_on(history, deed, fault)
    ]


def knows_at(history: History, deed: Deed, fault: Strike) -> float:
    """Return when the host of a lease that was broken knows it, at the latest: by the storage's answer, or its lock."""
    latest = _latest(history, deed, fault)
    for got in _theirs(history, deed):
        if got.t > fault.start + ASKED:
            continue
        if got.ending == "lost" and got.until >= fault.start:
            latest = min(latest, got.until + _SAID)
        if got.gone >= fault.start:
            idle = history.stood(got.host, got.worker or 1, got.gone, latest)
            latest = min(latest, got.gone + _SAID + idle + history.slowness.late(got.host, start=got.gone, end=latest))
    return latest


def untold(history: History) -> Iterator[tuple[Acquisition, Strike, float]]:
    """Yield holds that lasted on after their lease was broken: how long, beyond what the host could not help."""
    for fault in history.faults:
        if fault.kind != "break":
            continue
        for got in history.acquisitions:
            if not (_is_of(fault, got.lock, got.blob) and got.t < fault.start - _SAID and got.until > fault.start):
                continue
            most = _latest(history, got, fault) + ASKED
            if min(got.until, history.end) > most:
                yield got, fault, min(got.until, history.end) - fault.start


def _latest(history: History, deed: Deed, fault: Strike) -> float:
    """Return when the next renewal after a break has an answer: later if its host is cut off or stands still."""
    function = history.function(deed.function)
    due = fault.start + function.renewal_in(deed.mode) + CALL
    # While a host stands still or waits for the storage, nobody can tell it. The clock tells it at its deadline.
    lease = function.lease_in(deed.mode)
    idle = hindered(history, deed.host, fault.start, fault.start + lease)
    idle = min(idle, max(0.0, fault.start + lease - due))
    late = history.slowness.late(deed.host, STORAGE, start=fault.start, end=due + idle)
    return due + idle + late + history.stood(deed.host, deed.worker or 1, fault.start, due + lease)


def _breaks(history: History, lock: str) -> Iterator[Strike]:
    yield from (fault for fault in (*history.faults, *history.outside) if fault.kind == "break" and _is_of(fault, lock))


def _is_of(fault: Strike, lock: str, blob: str = "") -> bool:
    return fault.lock == blob or (fault.lock == lock if blob else lock in {fault.lock, semaphore_of(fault.lock)})


def _theirs(history: History, deed: Deed) -> Iterator[Acquisition]:
    yield from (got for got in history.acquisitions if (got.lock, got.host) == (deed.lock, deed.host))


def _rests_on(history: History, deed: Deed, fault: Strike) -> bool:
    """Tell whether a deed was done under the lease that was broken.

    Its hold began before, or its process handed the lease on to it, or it was about to hear that it has the lease.
    """
    holds = [got for got in _theirs(history, deed) if _is_of(fault, got.lock, got.blob)]
    hold = deed if isinstance(deed, Acquisition) else _hold_of(deed, holds)
    seen: list[Acquisition] = []
    while hold is not None and hold.t > fault.start:
        if _was_granted(history, hold, fault):
            return True
        seen.append(hold)
        hold = _handed_by(history, hold, [got for got in holds if got not in seen])
    return hold is not None and (_kept_until(history, hold) >= fault.start or bool(seen))


def _hold_of(deed: Deed, holds: list[Acquisition]) -> Acquisition | None:
    start = deed.start if isinstance(deed, Section) else math.inf
    mine = [got for got in holds if got.mode == deed.mode and got.t <= start + _SAID]
    if deed.mode == "function":
        mine = [got for got in mine if got.owner == deed.owner]
    return max(mine, key=lambda got: got.t, default=None)


def _kept_until(history: History, hold: Acquisition) -> float:
    """Return until when a process keeps the lease of a hold: for ``at_least`` also without a body."""
    keeps = hold.mode == "function" and hold.ending == "ok"
    least = history.function(hold.function).at_least if keeps else 0.0
    return max(hold.until, hold.t + least)


def _handed_by(history: History, hold: Acquisition, others: list[Acquisition]) -> Acquisition | None:
    """Return the earlier hold of this process that handed the lease on: ``hold`` begins as that hold ends."""
    near = [got for got in others if got.worker == hold.worker and got.t <= hold.t and got.ending == "ok"]
    return next((got for got in near if abs(hold.t - _kept_until(history, got)) <= ASKED), None)


def _was_granted(history: History, hold: Acquisition, fault: Strike) -> bool:
    """Tell whether a waiter may have had the lease already, and heard of it shortly after the break."""
    late = hindered(history, hold.host, fault.start, hold.t)
    late += history.stood(hold.host, hold.worker or 1, fault.start, hold.t)
    if hold.t > fault.start + ASKED + late or any(_was_held(history, fault, hold.host)):
        return False
    waits = (wait for wait in history.waits if (wait.lock, wait.host, wait.owner) == (hold.lock, hold.host, hold.owner))
    return any(wait.start <= fault.start <= wait.end and wait.ending == "acquired" for wait in waits)


def _was_held(history: History, fault: Strike, host: str) -> Iterator[bool]:
    """Yield, for each other host's hold at the time of the break, whether the break ended the lease of this hold.

    A host that stood still, or whose lease was broken before, may have lost the hold without knowing.
    """
    earlier = [each for each in history.faults if each.kind == "break" and each.start < fault.start]
    for got in history.acquisitions:
        if got.host == host or not _is_of(fault, got.lock, got.blob):
            continue
        if not got.t <= fault.start < _kept_until(history, got) - _SAID:
            continue
        stale = any(each.lock == fault.lock and got.t <= each.start for each in earlier)
        yield not (stale or history.paused(got.host, got.t, fault.start))


def ended_at(history: History, holder: Acquisition) -> float:
    """Return when the process of a holder ended, or was told to, after the holder had acquired its lock."""
    return gone_at(history, holder.host, holder.worker, holder.t)


def gone_at(history: History, host: str, worker: int, since: float) -> float:
    """Return when a process ended after this time, or was told to end, perhaps before; infinity: it was not."""
    gone = [each.t for each in history.worker_ends if (each.host, each.worker) == (host, worker or 1)]
    gone = [t for t in gone if t >= since]
    gone += [ends[host] for ends in (history.stopping, history.deaths, history.exits) if host in ends]
    return min(gone, default=math.inf)


TRY_ONCE: Final = 10.0
"""Seconds for which a single attempt asks a storage that fails (docs/guarantees.md)."""
_PATIENCE: Final = 60.0
"""Seconds for which a wait asks a storage that fails."""
_TOLD_BEGUN: Final = 5.0
"""Seconds for which the waiter in a seat tells the storage that its body begins (``coalesce``)."""
_GIVEN_BACK: Final = 15.0
"""Seconds in which lock and seat are given back after that, while no answer comes."""
_ENDS: Final = 2.0
"""Seconds in which an async body ends after it was told."""


def behind_loss(history: History, hold: Section | Acquisition) -> list[Strike]:
    """Return the fault by which a lock was lost, as its host told: the one nearest in cause.

    A lease runs out at its deadline if renewals fail until then: the fault that took most of that time is named. At any
    other time only the storage's answer tells that a lease is gone, whatever the reason, and only if somebody ended it.
    """
    told = hold.told if isinstance(hold, Section) else hold.until if hold.ending == "lost" else None
    if told is None:
        return []
    if is_long(history, hold, told):
        since, over, _ = _renewing(history, hold, told)
        stood = [each for each in history.faults if each.kind == "pause" and hold.host in each.hosts]
        faults = [*hindering(history, hold.host, since, over), *stood]
        near = max(faults, key=lambda fault: covered([(fault.start, fault.end)], since, over), default=None)
        return [near] if near is not None and near.start < over and near.end > since else []
    return broken_by(history, hold, told)


def is_broken(history: History, hold: Acquisition, until: float) -> bool:
    """Tell whether somebody broke the lease of a hold before this time, perhaps after its body had ended."""
    return any(
        hold.t <= fault.start <= until for fault in _breaks(history, hold.lock) if _is_of(fault, hold.lock, hold.blob)
    )


def broken_by(history: History, hold: Section | Acquisition, told: float) -> list[Strike]:
    """Return the breaks of its lease by which a lock was lost, as its host told at this time: the last one."""
    return [
        fault
        for fault in _breaks(history, hold.lock)
        if fault.start <= told <= _latest(history, hold, fault) + ASKED and _rests_on(history, hold, fault)
    ][-1:]


def behind_failure(history: History, call: Invocation) -> list[Strike]:
    """Return the faults by which an invocation failed with an error of the lock."""
    if call.blames == "LockNotAcquired":
        return []
    mine = sections_of(history, call)
    ours = {each.lock for each in (*mine, *(wait for wait in history.waits if is_of(call, wait)))}
    spoilt = [each for each in history.outside if each.kind == "replaced" and each.lock in ours]
    if call.blames == "StorageError" and any(each.start <= call.end for each in spoilt):
        return spoilt  # content that the product did not write is not replaced
    lost = [fault for section in mine for fault in behind_loss(history, section)]
    if call.blames == "LockLost" or lost:
        return lost
    if call.blames != "StorageUnavailable":  # the storage refuses what is asked under a lease that is broken
        return [fault for section in mine for fault in exposing(history, section, min(section.end, call.end))]
    refused = [each for each in history.refusals if (each.host, each.owner) == (call.host, call.id)]
    if any(refusal.reason == "defer" for refusal in refused):
        # Then its message was to be put back. A request of that is not repeated if nobody knows what became of it.
        return hindering(history, call.host, refused[-1].t, call.end)
    if is_candidates(history, call):
        return hindering(history, call.host, troubled_since(history, call), call.end)
    wait = max((each for each in history.waits if is_of(call, each)), key=lambda each: each.start, default=None)
    if wait is not None and call.end >= _times_out(history, wait, call):
        return hindering(history, call.host, call.end - CALL, call.end)  # the last answer decides
    policy = history.function(call.function if wait is None else wait.function).on_contention
    since, patience = call.start, TRY_ONCE
    if policy == "wait":  # as long as the process has waiters
        since, patience = call.end - _PATIENCE, _PATIENCE
    elif policy == "coalesce":  # the seat was silent before the body, and then lock and seat are given back
        since, patience = call.end - _TOLD_BEGUN - _GIVEN_BACK, _TOLD_BEGUN
    silent = hindered(history, call.host, since, call.end)
    silent += history.slowness.late(call.host, STORAGE, start=since, end=call.end)
    return hindering(history, call.host, since, call.end) if silent >= patience - SPARE else []


def asked_last(history: History, wait: Wait) -> bool:
    """Tell whether a wait ended by its time while a request was under way, or just after a grant: writes are unseen."""
    mine = (each for each in history.requests if (each.host, each.worker) == (wait.host, wait.worker))
    return any(
        each.sent <= wait.end <= each.t + _SAID * each.granted
        for each in mine
        if each.blob.endswith((f"/{wait.lock}", f"/{wait.lock}{SEAT}"))
    )


def is_of(call: Invocation, deed: Section | Wait) -> bool:
    """Tell whether a deed belongs to a try of an invocation: it began within the try, under whatever guard."""
    return (deed.host, outside(deed.owner)) == (call.host, call.id) and call.start <= deed.start <= call.end


def sections_of(history: History, call: Invocation) -> list[Section]:
    """Return the sections of a try of an invocation."""
    return [each for each in history.sections if is_of(call, each)]


def is_candidates(history: History, call: Invocation) -> bool:
    """Tell whether an invocation does not ask for its lock itself: its process is a candidate for the listener."""
    return any(
        wait.mode == "listener" and (wait.function, wait.host) == (call.function, call.host) for wait in history.waits
    )


def troubled_since(history: History, call: Invocation) -> float:
    """Return from when on trouble may fail this invocation.

    A candidate tells of its last attempt until the next one, a recovery interval later. An attempt that its host stood
    still in fails, too.
    """
    if not is_candidates(history, call):
        return call.start
    return call.start - history.function(call.function).recovery - TRY_ONCE - ASKED


def _times_out(history: History, wait: Wait, call: Invocation) -> float:
    """Return from when on its time-out may have ended the wait of an invocation; infinity: it has none."""
    function = history.function(wait.function)
    start, timeout = wait.start, function.timeout or math.inf
    if (answer := patience_told(history).get((wait.host, outside(wait.owner)))) is not None:
        start, timeout = answer.t, answer.get("patience") or math.inf
    return min(start + max(timeout - SPARE, timeout / 2), call.start + function.cut_after - SPARE)


def behind_return(history: History, message: Message, call: Invocation) -> list[Strike]:
    """Return the faults by which a received message came back: its host could not renew or delete the message."""
    received = max((t for t, host in message.receipts if host == call.host and t <= call.start), default=call.start)
    return hindering(history, call.host, received - ASKED, call.end + ASKED)


def behind_overlap(history: History, first: Section, second: Section) -> list[Strike]:
    """Return the faults by which a body began while another was inside.

    Either an operator had ended the lease of one of them, and it could not know that yet. Or the first was told before
    the second began: a thread goes on, and a task needs a moment to end.
    """
    broken = [fault for body in (first, second) for fault in exposing(history, body, second.start)]
    if broken or first.told is None or first.told > second.start:
        return broken
    went_on = history.worked(first.host, first.worker or 1, first.told, min(first.end, second.end))
    if history.function(first.function).sync or went_on <= _ENDS:
        return behind_loss(history, first)
    return []
