"""What hosts ask the storage for: the declared blob, leases of the declared time, and no more often than documented.

A refusal needs a request that was refused, or a holder in the same process. The hosts saw the requests on the network.
In a run with faults, each host's requests are judged for the times in which no fault concerns the host. Beside a fault
a refusal may rest on an older answer, but not on none.
Journals without expected blobs, those of virtual worlds for one, are not judged here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from simulator.checks.coalesced import LEFT
from simulator.checks.deadlines import SLACK, joined
from simulator.checks.excuses import disturbed, span
from simulator.checks.findings import Finding, by_function, count, label, unproven, violation
from simulator.history.deeds import SEAT, semaphore_of
from simulator.history.leases import kept_leases
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Acquisition, History, LeaseRequest, Refusal, Wait

_ONCE: Final = 15
"""Requests for one caller, at most: a new blob and container, quick polls at first, a stamp, a release."""
_READS: Final = 3
"""Reads of a blob by a process beyond those for its callers: as it is made, and after a loss or a lost answer."""
_NAMED: Final = 60.0
"""Seconds between two reads by a process for the name of the holder, which refusals and log lines tell."""
_QUICK: Final = 8
"""Quick polls at first, at most: with ``failover`` a poll is a read. Waits of 3 s were seen to read 10 times."""
_LOOKS: Final = 4
_TOUCHES: Final = 3
"""How often in the time of ``failover`` a waiter looks, and a holder writes."""
_AGAIN: Final = 15.0
"""Seconds in which its caller begins again after a request without an answer."""
_CONTENT: Final = ("read a blob", "write content under a lease")
"""Requests for what the app keeps in a lock's blob."""

_UNASKED: Final = frozenset({"lock_all", "leadership", "periodic", "once", "look"})
"""Methods of lock clients whose requests have no callers here."""
_ASKS: Final = 2.5
"""Seconds in which a caller sends its first request, on a busy machine."""

_TAKEN: Final = "LeaseAlreadyPresent"
_CONFLICT: Final = 409
"""The storage's answer for a lease that another has, or had just now."""
_POLL_MIN: Final = 0.02
"""Seconds of the first pause between two requests, at least: an app may choose less than the default of 0.1 s."""
_EARLY: Final = 0.1
"""Seconds by which two clocks may differ about a pause."""

_ENTANGLED: Final = 10.0
"""Seconds for which two locks wait for each other, before that is told."""

_T = TypeVar("_T", "Acquisition", "Wait")
Where: TypeAlias = tuple[str, int, str]
"""Host, worker, and container and name of a blob."""


def judge_asking(history: History) -> Iterator[Finding]:
    """Find requests that no declaration explains, and refusals without a request, in a run with locks."""
    asking = _BlobRequests(history)
    yield from judge_blobs(history, asking)
    if not history.rough:
        yield from _unasked(history, asking)
        yield from _entangled(history, asking)
        yield from () if history.faults else _asked_late(history, asking)
        yield from () if history.faults else _slots_left_out(history, asking)
        yield from _asked_again_early(history, asking)
        yield from _too_often(history, asking)


def judge_blobs(history: History, asking: _BlobRequests | None = None) -> Iterator[Finding]:
    """Find holds without a lease of the declared blob, and leases of another length than declared."""
    asking = asking or _BlobRequests(history)
    yield from _elsewhere(history, asking)
    yield from _periods(history, asking)


class _BlobRequests:
    """Knows the expected blob of what a run did, and the requests, waits and holds of each."""

    def __init__(self, history: History) -> None:
        self._calls = {(call.host, call.id): call.blobs for call in history.invocations}
        of_modes = {(blob, call.function, mode) for call in history.invocations for mode, blob in call.blobs.items()}
        self._of_listeners = {function: blob for blob, function, mode in of_modes if mode == "listener"}
        self.periods: dict[str, dict[float, str]] = defaultdict(dict)
        """The declared seconds of the leases of a blob, with a function that declares them."""
        for blob, function, mode in sorted(of_modes):
            self.periods[blob].setdefault(history.function(function).lease_in(mode), function)
        self._of_clients = {name: each.blob for name, each in history.inner.items() if each.blob}
        for function, blob in self._of_clients.items():
            self.periods[blob].setdefault(history.function(function).lease, function)
        self.requests: dict[Where, list[LeaseRequest]] = defaultdict(list)
        for request in history.requests:
            self.requests[request.host, request.worker, self.place(request.blob)].append(request)
        self.waits, self.holds = self._by_place(history.waits), self._by_place(history.acquisitions)
        self.given_back = {id(got): until for got, until in kept_leases(history)}

    def _by_place(self, deeds: Iterable[_T]) -> dict[Where, list[_T]]:
        found: dict[Where, list[_T]] = defaultdict(list)
        for deed in deeds:
            if (where := self.where(deed)) is not None:
                found[where].append(deed)
        return found

    def place(self, path: str) -> str:
        """Return container and name of a blob, without the account of an emulator's path; of a slot the semaphore's."""
        whole = semaphore_of(path).lstrip("/")
        below = whole.partition("/")[2]
        return below if below.removesuffix(SEAT) in self.periods else whole

    def with_seat(self, where: Where) -> list[LeaseRequest]:
        """Return the requests for a lock and for its seat: who comes again waits for the seat first."""
        return [*self.requests[where], *self.requests[(*where[:2], where[2] + SEAT)]]

    def where(self, deed: Acquisition | Refusal | Wait) -> Where | None:
        """Return where the lease of its lock must be asked for, and by whom; None: that is not known."""
        called = self._of_clients.get(deed.function)
        called = called or self._calls.get((deed.host, deed.owner), {}).get(deed.mode)
        blob = self._of_listeners.get(deed.function) if deed.mode == "listener" else called
        return None if blob is None else (deed.host, deed.worker, blob)


def _elsewhere(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """The lease is asked for on the blob that the declaration names, whatever the lock says."""
    wrong: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for got in history.acquisitions:
        where = asking.where(got)
        if where is None or _leased(history, asking.requests[where], got):
            continue
        theirs = [each for each in history.requests if (each.host, each.worker) == where[:2] and each.t <= got.t]
        others = [each.blob.lstrip("/") for each in theirs if each.granted and each.action == "acquire"]
        wrong[got.function].append((where[2], others[-1] if others else "no blob at all"))
    for name, pairs in sorted(wrong.items()):
        blob, other = pairs[0]
        yield violation(
            f"another blob was asked for, {count(len(pairs), 'time')} for {name!r}: the first time {other}, where the "
            f"declaration names {blob}"
        )


def _leased(history: History, requests: list[LeaseRequest], got: Acquisition) -> bool:
    """Tell whether a process had the lease of a lock when the process told that it had the lock.

    A semaphore has a lease for each slot: there the first grant counts.
    """
    had, slots = got.ending == "lost", history.function(got.function).several
    for request in sorted(requests, key=lambda request: request.sent):
        if request.sent <= got.t:
            gave_back = request.action == "release" and not slots and request.lease in {"", got.lease}
            had = not gave_back and (had or (request.granted and request.t <= got.t))
    return had


def _periods(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """A lease is asked for as long as declared; functions that share a lock may have different periods."""
    wrong = Counter[tuple[str, int, float]]()
    for request in history.requests:
        declared = asking.periods.get(asking.place(request.blob), {})
        if declared and request.period is not None and request.period not in declared:
            lease, function = next(iter(declared.items()))
            wrong[function, request.period, lease] += 1
    for (name, period, lease), number in sorted(wrong.items()):
        were = "was" if number == 1 else "were"
        yield violation(
            f"{count(number, 'lease')} of {name!r} {were} asked for with {period} s, though the declared lease has "
            f"{lease:g} s"
        )


def _unasked(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """Who is refused was refused by the storage, or by a holder in the same process, a poll ago at most.

    If its process asked the storage for it alone, only an answer, or a holder, of that time counts.
    With ``failover`` who asks again reads the blob first, and a reading is no request for a lease.
    """
    unasked, troubled = Counter[str](), Counter[str]()
    for refusal in history.refusals:
        where, function = asking.where(refusal), history.function(refusal.function)
        full = function.max_waiting is not None and refusal.reason == function.when_full
        if where is None or full or function.failover or refusal.lock in history.twofold:  # the other lock, perhaps
            continue
        since = refusal.asked - function.poll_in(refusal.mode) - SLACK
        since -= history.slowness.late(refusal.host, STORAGE, start=since, end=refusal.t)
        struck = disturbed(history, refusal.host, since, refusal.t)
        line = [each for each in asking.waits[where] if (each.owner, each.start) != (refusal.owner, refusal.asked)]
        line = [each for each in line if each.start <= refusal.t and each.end >= refusal.asked - _EARLY]
        seated = refusal.reason == "timeout" and function.on_contention == LEFT
        requests = asking.with_seat(where) if seated or struck else asking.requests[where]
        acquires = [each for each in requests if each.action == "acquire" and each.t <= refusal.t + SLACK]
        alone = not line and refusal.mode == "function"
        if line and struck:
            since = -math.inf  # whoever is first in line may have had no answer for long
        elif alone and any(refusal.asked < each.sent <= each.t <= refusal.t for each in acquires):
            since = refusal.asked - _EARLY
        asked = [each for each in acquires if since <= each.t]
        refused = any(each.status == _CONFLICT for each in asked)
        kept = any(got.t <= refusal.t + SLACK and _kept_until(history, got) >= since for got in asking.holds[where])
        known = refused or kept
        unasked[refusal.function] += not known and not struck
        troubled[refusal.function] += not known and struck
    yield from by_function(unasked, "met a refusal, though nobody had asked the storage for the lock")
    yield from by_function(troubled, "met a refusal beside a fault, though nobody had the lock")


def _entangled(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """Name two locks that are leased at the end of a run, where invocations have wanted both and nobody had both."""
    end = min(history.stopping.values(), default=history.end)
    since = end - _ENTANGLED
    last = {asking.place(each.blob): each for each in history.requests if each.granted and each.t < end}
    leased = {blob for blob, each in last.items() if each.action != "release" and each.host not in history.deaths}
    had = {got.lock for got in history.acquisitions if got.t < end and got.until >= since}
    waiting = Counter(
        tuple(sorted(call.blobs.values()))
        for call in history.invocations
        if call.ending == "open" and call.start < since and "also" in call.blobs
        if leased.issuperset(call.blobs.values())
    )
    for blobs, number in sorted(waiting.items()):
        first, second = (blob.partition("/")[2] for blob in blobs)
        if had.isdisjoint((first, second)):
            yield unproven(
                f"{label(first)} and {label(second)} wait for each other: both are leased, and none "
                f"of {count(number, 'invocation')} has both"
            )


def _asked_late(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """Who is alone in its process asks at once: nobody there waits for the lock, has it, or had it two polls ago."""
    beside: dict[Where, list[tuple[float, float, str]]] = defaultdict(list)
    spans: list[tuple[Acquisition | Wait, float, float]] = [(wait, wait.start, wait.end) for wait in history.waits]
    spans += [(got, got.t, _kept_until(history, got)) for got in history.acquisitions]
    for deed, start, end in spans:
        if (place := asking.where(deed)) is not None:
            beside[place].append((start, end, deed.owner))
    worst: dict[str, tuple[float, str, float]] = {}
    for wait in history.waits:
        function, where = history.function(wait.function), asking.where(wait)
        if where is None or wait.mode == "listener" or function.several or wait.lock in history.twofold:
            continue
        if function.trigger in _UNASKED:  # a candidate asks when its interval is over
            continue
        if min(wait.end, history.end) - wait.start <= _ASKS:
            continue
        since = wait.start - 2 * function.poll - SLACK
        if any(start <= wait.start and end >= since and owner != wait.owner for start, end, owner in beside[where]):
            continue
        requests = asking.with_seat(where) if function.on_contention == LEFT else asking.requests[where]
        sent = min((each.sent for each in requests if each.sent >= wait.start), default=math.inf)
        until = min(sent, wait.end, history.end)  # what it asks the storage for before is not seen here
        took = history.worked(wait.host, wait.worker or 1, wait.start, until)
        took -= history.slowness.late(STORAGE, start=wait.start, end=until)
        if took > _ASKS:
            worst[wait.function] = max(worst.get(wait.function, (0.0, "", 0.0)), (took, wait.host, wait.start))
    for name, (took, host, start) in sorted(worst.items()):
        yield violation(
            f"an invocation of {name!r} on {host} asked for its lock {took:.1f} s late (from second "
            f"{start - history.start:.1f} on), though nobody there had the lock"
        )


def _slots_left_out(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """A process whose callers wait for a slot of a semaphore has asked for each slot."""
    told: dict[str, str] = {}
    for (host, worker, blob), waits in sorted(asking.waits.items()):
        function = history.function(waits[0].function)
        asked = {each.blob for each in asking.requests[host, worker, blob] if each.action == "acquire"}
        if not function.several or len(asked) >= function.at_once:
            continue
        spans = joined([(wait.start, min(wait.end, history.end)) for wait in waits])
        waited = sum(history.worked(host, worker or 1, start, end) for start, end in spans)
        if waited > _ASKS + history.slowness.late(host, STORAGE, start=spans[0][0], end=spans[-1][1]):
            told.setdefault(
                function.name,
                f"{host} asked for {len(asked)} of the {function.at_once} slots of {label(blob.partition('/')[2])}, "
                f"though invocations of {function.name!r} waited there for {waited:.1f} s",
            )
    yield from map(violation, told.values())


def _asked_again_early(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """Who waits doubles its pauses up to a poll, and each is shortened by half at most.

    The requests of one line of waiters have one lease id. A single attempt, and the end of a time-out, come in between.
    """
    patient: dict[Where, bool] = {}
    for where, waits in asking.waits.items():
        kinds = [history.function(wait.function) for wait in waits]
        plain = all(each.on_contention == "wait" and each.max_waiting is None and not each.merges for each in kinds)
        endless = all(min(each.gives_up_after, each.cut_after) > history.end - history.start for each in kinds)
        alone = not any(each.several or each.failover for each in kinds) and not history.twofold
        alone &= all(wait.function in history.functions for wait in waits)
        patient[where] = plain and endless and alone and where[2].partition("/")[2] not in history.client_locks
    told: dict[str, str] = {}
    for where in (where for where in patient if patient[where]):
        poll = min(history.function(wait.function).poll_in(wait.mode) for wait in asking.waits[where])
        lines: dict[str, list[LeaseRequest]] = defaultdict(list)
        for each in asking.requests[where]:
            if each.timed and each.action == "acquire":
                lines[each.lease].append(each)
        for several in lines.values():
            for number, (each, later) in enumerate(pairwise(several)):
                least = min(_POLL_MIN * 2**number, poll) / 2
                if each.code == _TAKEN and later.sent - each.t < least - _EARLY:
                    name = asking.waits[where][0].function
                    told.setdefault(
                        name,
                        f"{where[0]} asked again for the lock of {name!r} {later.sent - each.t:.1f} s after a refusal, "
                        f"at {later.sent - history.start:.1f} s, where it had asked {count(number + 1, 'time')} "
                        f"already: the least is {least:.1f} s, with a poll of {poll:g} s",
                    )
    yield from map(violation, told.values())


def _kept_until(history: History, got: Acquisition) -> float:
    """Return until when a process may keep a lock: ``at_least`` from its acquisition, and a lost lease to its end."""
    function = history.function(got.function)
    return max(got.until + function.lease_in(got.mode) * (got.ending != "ok"), got.t + function.at_least)


def _too_often(history: History, asking: _BlobRequests) -> Iterator[Finding]:
    """Requests for a lock are those of its callers, of waits by their polls, and of holds by their renewals."""
    told: dict[Where, list[list[tuple[float, dict[str, int]]]]] = defaultdict(list)
    # A guard that is passed no context tells of no invocation: what it asks for has no callers here.
    unknown = {wait.function for wait in history.waits if wait.mode == "function" and not wait.owner}
    # Nor do all requests of these methods of lock clients.
    unasked = {each.blob for each in history.inner.values() if each.trigger in _UNASKED}
    for (host, worker, _, path), counts in history.blob_calls.items():
        blob = asking.place(path)
        if blob in asking.periods and blob not in unasked and unknown.isdisjoint(asking.periods[blob].values()):
            told[host, worker, blob].append(counts)
    worst: dict[str, tuple[float, str]] = {}
    for where, processes in sorted(told.items()):
        for start, end in _stretches(history, where[0]):
            calls, since = _sent(processes, start, end)
            content = calls.keys() >= {_CONTENT[1]}  # the app keeps something there, and reads it as it likes
            read = calls["look at a blob"] + calls[_CONTENT[0]] * (not content)
            total = calls.total() - sum(calls[kind] for kind in _CONTENT if content)
            explained = _explained(history, asking, where, since, end)
            for number, bound, what in zip((read, total), explained, ("reads", "requests"), strict=True):
                if number > bound:
                    lock, name = label(where[2].partition("/")[2]), next(iter(asking.periods[where[2]].values()))
                    when = f" after {since - history.start:.1f} s" if since > -math.inf else ""
                    text = (
                        f"{where[0]} sent {number} {what} for the lock {lock}{when}, and its callers, waits and holds "
                    )
                    worst[name] = max(
                        worst.get(name, (0.0, "")), (number - bound, f"{text}explain {bound:.0f} at most")
                    )
    yield from (violation(text) for _, text in worst.values())


def _stretches(history: History, host: str) -> Iterator[tuple[float, float]]:
    """Yield the times in which no fault can change what a host asks for: the whole run, if nothing struck."""
    theirs = [span(fault) for fault in history.faults if host in fault.hosts or fault.lock]
    edges = [edge for start, end in joined(theirs) for edge in (start - SLACK, end + SLACK)]
    yield from zip([-math.inf, *edges[1::2]], [*edges[::2], math.inf], strict=True)


def _sent(processes: list[list[tuple[float, dict[str, int]]]], start: float, end: float) -> tuple[Counter[str], float]:
    """Return the requests of processes in a stretch, by kind, and since when they are known: counts are told later."""
    sent, since = Counter[str](), math.inf
    for counts in processes:
        known: list[tuple[float, dict[str, int]]] = [(start, {})] if start == -math.inf else []
        known += [each for each in counts if start <= each[0] <= end]
        if known:
            sent.update(known[-1][1])
            sent.subtract(known[0][1])
            since = min(since, known[0][0])
    return sent, since


def _explained(history: History, asking: _BlobRequests, where: Where, start: float, end: float) -> tuple[float, float]:
    """Return how many reads and requests are explained; with ``also`` an invocation explains requests for two locks."""
    wheres = [where]
    if where[2].partition("/")[2] in history.twofold:
        wheres += [other for other in asking.waits if other[:2] == where[:2] and other != where]
    reads, requests = _READS + max(min(end, history.end) - max(start, history.start), 0.0) / _NAMED, 0.0
    after = SLACK if start == -math.inf else _AGAIN  # what a fault has cut off is sent once more
    for wait in (wait for each in wheres for wait in asking.waits[each] if wait.start <= end):
        function = history.function(wait.function)
        looks = function.poll_in(wait.mode) if function.failover is None else function.failover / _LOOKS
        waited = min(wait.end, end, history.end) - max(wait.start, start)
        if waited > -after:
            polls = max(waited, 0.0) / min(looks, function.poll_in(wait.mode))
            requests += (_ONCE + 2 * polls) * function.at_once
            if function.several or function.failover:
                reads += (_READS + (_QUICK + polls) * (function.failover is not None)) * function.at_once
            else:  # for the token, after another process
                reads += wait.ending != "contended" or function.on_contention == LEFT
    for got in (got for each in wheres for got in asking.holds[each] if got.t <= end):
        function = history.function(got.function)
        until = max(_kept_until(history, got), asking.given_back.get(id(got), 0.0))  # too late, perhaps: see releases
        kept = min(until, end, history.end) - max(got.t, start)
        requests += max(kept, 0.0) * (1 / function.renewal_in(got.mode) + _TOUCHES / (function.failover or math.inf))
        if got.t < start and kept > -after:  # what its caller sends in the end
            requests, reads = requests + _ONCE, reads + _READS
    asked = (request for each in wheres for request in asking.requests[each] if start - _AGAIN <= request.t <= end)
    again = sum(request.status is None for request in asked)  # without an answer its caller begins again
    return reads + again * _READS, requests + again * _ONCE
