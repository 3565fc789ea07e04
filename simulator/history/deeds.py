"""Read single records, and replace what the lock says of itself by what the hosts saw.

A body lasts as long as its host saw it run. The lock of a body is the lock of its expected key: declaration and message
say what must exclude each other, independent of the name that the product gave to the lock.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator.faults.real import KINDS, short
from simulator.history.facts import Held, LeaseRequest, Section
from simulator.history.functions import Function, Mode
from simulator.history.journal import Record
from simulator.history.outages import Strike

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Deed, Ending, History, Invocation, Sight, Wait


ONCE: Final = "once/"
"""With which the names of the locks of `@once` begin."""
OF_INBOXES: Final = "inbox/"
OF_PATTERNS: Final = (ONCE, OF_INBOXES)
"""With which the names of locks begin that a pattern has, and no lock client of the app."""
_CONTEXT: Final = "Context "
"""With which the form of an invocation's context begins."""
_IN: Final = " in "
_SLOT: Final = re.compile(r"/slot-[0-9]+\Z")


def end(things: Iterable[Section | Wait | Invocation | Sight], record: Record, ending: Ending) -> None:
    """End things with a record."""
    for thing in things:
        thing.end, thing.ending = record.t, ending


def began(things: Iterable[Wait | Invocation], record: Record) -> float:
    """Return when the last of these began; the record's time if there is none."""
    return max((thing.start for thing in things), default=record.t)


def function_of(record: Record) -> Function:
    """Return what a host has told of a function."""
    listener = record.get("listener") or {}
    led = {"listener_lease": listener.get("lease"), "recovery": listener.get("poll")}
    told: dict[str, Any] = {**record.fields, **led, "sync": record.get("async") is False}
    most = {} if told.get("max_waiting") is None else {"max_waiting": told["max_waiting"]}  # none is a number here
    return Function(**{field.name: told[field.name] for field in fields(Function) if told.get(field.name)} | most)


def of_a_guard(record: Record) -> bool:
    """Tell whether a record is about a function's lock, and not about a client's lock in a function's body."""
    return record.get("mode") in (None, *_MODES)


def about_of(record: Record) -> dict[str, Any]:
    """Return which lock a record is about, and who did it."""
    names = {name: record.text(name) for name in ("lock", "function", "owner")}
    return {
        **names,
        "host": record.host,
        "mode": record.get("mode") or "function",
        "worker": int(record.get("worker") or 0),
        "within": tuple(record.get("within") or ()),
    }


def inside(owner: str, guard: str) -> str:
    """Return the owner of a lock that an invocation takes under a guard which is not the one of its function.

    The lock of a guarded helper, or of ``@once``, is not the lock of the invocation's own body.
    """
    return f"{owner}{_IN}{guard}"


def outside(owner: str) -> str:
    """Return the invocation of an owner.

    >>> outside(inside("7228fd32", "write_ledger")), outside("7228fd32")
    ('7228fd32', '7228fd32')
    """
    return owner.partition(_IN)[0]


def guard_in(owner: str) -> str:
    """Return the other guard under which an invocation took a lock, or the number of a block; empty: its own guard."""
    return owner.partition(_IN)[2]


def once_of(function: str) -> str:
    """Return the name of the ``@once`` around a guarded function."""
    return f"{function} (@once)"


def semaphore_of(slot: str) -> str:
    """Return the name of the semaphore whose slot this is.

    >>> semaphore_of("locks/app/ship.north/slot-2"), semaphore_of("locks/app/ship.north")
    ('locks/app/ship.north', 'locks/app/ship.north')
    """
    return _SLOT.sub("", slot)


SEAT: Final = "~next"
"""What the blob of a seat has behind the name of its lock (``on_contention="coalesce"``)."""


def strike_of(record: Record) -> Strike:
    """Return the fault of a nemesis that begins with a record."""
    kind = record.text("kind")
    told: dict[str, Any] = {name: record.text(name) for name in ("lock", "way", "aim", "meant", "what")}
    return Strike(
        id=int(record.get("id")),
        kind=kind if kind in KINDS else "unknown",
        hosts=tuple(record.get("hosts") or ()),
        start=record.t,
        seconds=record.get("seconds"),
        **told,
    )


def broken_by_user_code(record: Record) -> Strike:
    """Return the end of a lease that user code asked for, as an operator does."""
    lock = record.text("lock")
    what = f"user code on {record.host} asked to break the lease of {short(lock)}"
    return Strike(id=0, kind="break", lock=lock, what=what, start=record.t, end=record.t)


_ENDING: Final = frozenset({"release", "break", "change", "delete"})
_GONE: Final = frozenset({404, 409, 412})
_THROTTLED: Final = 429
_FAILED: Final = 500
GONE_CODES: Final = frozenset(
    {
        "BlobNotFound",
        "ContainerBeingDeleted",
        "ContainerNotFound",
        "LeaseIdMismatchWithLeaseOperation",
        "LeaseIsBreakingAndCannotBeChanged",
        "LeaseIsBrokenAndCannotBeRenewed",
        "LeaseLost",
        "LeaseNotPresentWithLeaseOperation",
    }
)
"""Error codes of a refused renewal which say that the lease is gone."""


def lease_request(record: Record) -> LeaseRequest:
    """Return a request for a lease, as a host saw it."""
    told: dict[str, Any] = {name: record.text(name) for name in ("action", "blob", "lease", "code")}
    told |= {name: record.get(name) for name in ("status", "period")}
    sent, timed = record.t - float(record.get("took") or 0.0), "took" in record.fields
    worker = int(record.get("worker") or 0)
    return LeaseRequest(t=record.t, host=record.host, worker=worker, sent=sent, timed=timed, **told)


def seen_in(record: Record) -> tuple[str, object]:
    """Return the lock and the token that a body sees. Older journals tell no lock."""
    return record.text("hold"), record.get("token")


def patience_told(history: History) -> dict[tuple[str, str], Record]:
    """Return the answers "wait" of policies of the app's own, by host and invocation; only those asked once.

    An answer has the ``patience``: seconds for which the invocation is to wait, or None: as long as it takes.
    """
    times = Counter((each.host, each.text("invocation")) for each in history.answers)
    known = [each for each in history.answers if each.text("answer") == "wait" and "patience" in each.fields]
    return {who: each for each in known if times[who := (each.host, each.text("invocation"))] == 1 and who[1]}


def bodies_of(history: History) -> list[Section]:
    """Return the runs of guarded bodies, each once: if two locks guard one, the innermost.

    A hold of `@once` without a body of its own is none: a repeat got the kept result, or `@singleton` guards the body.
    """
    seen = {(sight.host, sight.invocation, sight.function) for sight in history.sights}
    inner = [each for each in history.sections if each.mode == history.function(each.function).mode]
    known = [each for each in inner if each.lock.startswith(ONCE) and each.owner and history.witnessed]
    repeats = {id(each) for each in known if (each.host, each.owner, each.function) not in seen}
    return [each for each in inner if id(each) not in repeats]


def may_have_ended(request: LeaseRequest) -> bool:
    """Tell whether a request may have ended a lease: without an answer it may have been carried out."""
    return request.action in _ENDING and request.status in {200, 202, None}


def may_be_repeated(request: LeaseRequest) -> bool:
    """Tell whether a request failed for the moment: without an answer, throttled, or by an error of the storage."""
    return request.status is None or request.status == _THROTTLED or request.status >= _FAILED


def is_refused(request: LeaseRequest) -> bool:
    """Tell whether the answer to a request may say that its lease is gone."""
    return request.status in _GONE


def holds_of(record: Record) -> tuple[Held, ...]:
    """Return what a host held when it was killed or drained, as the fleet wrote it down."""
    holds = (Record(record.t, record.host, "held", hold) for hold in record.get("holds") or ())
    return tuple(Held(t=hold.t, token=hold.get("token"), **about_of(hold)) for hold in holds)


Whose: TypeAlias = tuple[str, str, Mode]
"""Host, invocation, and in which mode."""
_MODES: Final[tuple[Mode, ...]] = ("function", "listener", "also")
_OF_BOTH: Final = frozenset({"acquired", "body_started", "body_ended", "lost", "released"})


def by_delivery(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records; deeds of a guard without a context, or with a wrong one, get the invocation of their host."""
    records = list(records)
    mixed = _mixed(records)
    for record in records:
        invocation = record.text("invocation")
        nameless = record.get("mode") in {None, "function"} and not record.text("owner")
        if record.event == "lock" and invocation and (nameless or record.text("function") in mixed):
            yield Record(record.t, record.host, record.event, {**record.fields, "owner": invocation})
        else:
            yield record


def _mixed(records: Iterable[Record]) -> set[str]:
    """Return the functions whose guards passed on the context of another invocation."""
    return {each.text("function") for each in records if each.text("given").startswith(_CONTEXT)}


def with_older_names(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records; what a guard with ``also=`` tells of its lock, a second time for the lock's older name."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        yield record
        if record.event == "expected":
            known[record.host, record.text("invocation")] = record.get("blobs") or {}
        if record.event != "lock" or record.get("kind") not in _OF_BOTH:
            continue
        blobs = known.get((record.host, record.text("owner")), {})
        if "also" in blobs and blobs["function"].endswith(f"/{record.text('lock')}"):
            container, _, name = blobs["also"].partition("/")
            lock = name if blobs["function"].startswith(f"{container}/") else blobs["also"]
            about = {"lock": lock, "mode": "also"}
            yield Record(record.t, record.host, record.event, {**record.fields, **about})


def bear_witness(history: History) -> None:
    """Correct what the lock said by what the hosts saw, and note where the two differ."""
    calls = {(call.host, call.id): call for call in history.invocations}
    _rename(history, calls)
    _correct(history, calls)
    known = {call.function for call in history.invocations if "also" in call.blobs}
    history.renamed &= {call.function for call in history.invocations} - known
    history.twofold = {deed.lock for deed in _deeds(history) if history.renamed or deed.function in known}


def _rename(history: History, calls: dict[tuple[str, str], Invocation]) -> None:
    """Give one lock name to the deeds under one expected key: the first name that was seen.

    Two names of one key have two blobs: an older name without ``scope_hash``, or of another container.
    """
    names: dict[str, dict[str, None]] = defaultdict(dict)
    keys: dict[str, dict[str, None]] = defaultdict(dict)
    of_listeners = {call.function: call for call in history.invocations if call.keys.get("listener")}
    known: list[tuple[Deed, str]] = []
    mixed = _mixed(history.altered)
    for deed in (each for each in _deeds(history) if each.function not in mixed):
        # A process asks for a listener's lock, not an invocation.
        listens = deed.mode == "listener"
        caller = of_listeners.get(deed.function) if listens else calls.get((deed.host, deed.owner))
        key = caller.keys.get(deed.mode) if caller is not None else None
        if caller is not None and key:
            key = caller.blobs.get(deed.mode, key)
            names[key][deed.lock] = None
            keys[deed.lock][key] = None
            known.append((deed, key))
    history.names = {key: tuple(several) for key, several in names.items() if len(several) > 1}
    history.merged = {lock: tuple(several) for lock, several in keys.items() if len(several) > 1}
    for deed, key in known:
        deed.lock = next(iter(names[key]))


def _deeds(history: History) -> Iterator[Deed]:
    yield from history.sections
    yield from history.waits
    yield from history.acquisitions
    yield from history.refusals
    for kill in history.kills:
        yield from kill.holds


def _correct(history: History, calls: dict[tuple[str, str], Invocation]) -> None:
    """Give each guarded body the time in which its host saw it. Add bodies of which no lock knew."""
    told: dict[Whose, list[Section]] = defaultdict(list)
    for section in history.sections:
        told[section.host, section.owner, section.mode].append(section)
    lock_of = {(deed.host, deed.owner, deed.mode): deed.lock for deed in _deeds(history)}
    # The body that a lock reported last, and the end of the body as the lock says.
    around: dict[Whose, tuple[Section, float]] = {}
    for sight in history.sights:
        call = calls.get((sight.host, sight.invocation))
        function = history.function(sight.function)
        its_own = call is not None and call.function == sight.function
        if not (its_own or sight.inner) or not function.guarded:
            continue
        for mode in _MODES:
            whose = (sight.host, sight.invocation, mode)
            keyed = call is not None and mode in call.keys and mode != "also"
            if not (told[whose] or keyed or mode == function.mode):
                continue
            if whose in around and sight.start < around[whose][1]:  # again: decorators of the app may do so
                section = around[whose][0]
                section.end = max(section.end, sight.end)
            else:
                if (heard := _heard(told, sight, whose)) is not None:
                    section = heard
                    if sight.sees and mode == function.mode:
                        history.mistold[sight.function] += section.held and section.token != sight.token
                        section.token = sight.token
                    around[whose] = (section, section.end)
                else:
                    section = _unheard(sight, mode, lock_of.get(whose))
                    history.sections.append(section)
                section.start, section.end, section.error = sight.start, sight.end, sight.error
            if section.ending != "lost":
                section.ending = sight.ending


def _heard(told: dict[Whose, list[Section]], sight: Sight, whose: Whose) -> Section | None:
    """Take out the body that a lock has reported for this run of a function; None: there is none."""
    if told[whose]:
        return told[whose].pop(0)
    # An async function that is given no context does not know its invocation.
    nameless = told[sight.host, "", whose[2]]
    begun = (
        at
        for at, each in enumerate(nameless)
        if each.function == sight.function and each.start <= sight.start <= each.end
    )
    last = max(begun, key=lambda at: nameless[at].start, default=None)
    return None if last is None else nameless.pop(last)


def _unheard(sight: Sight, mode: Mode, lock: str | None) -> Section:
    """Return a body that no lock has reported."""
    return Section(
        lock=lock or sight.function,
        function=sight.function,
        host=sight.host,
        owner=sight.invocation,
        mode=mode,
        token=None,
        start=sight.start,
    )
