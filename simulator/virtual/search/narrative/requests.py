"""The requests that a story tells: of its leases and its waits, about its messages, and the refusals of its callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.virtual.search.narrative.choice import OF_OTHERS
from simulator.virtual.storage.network import SOON
from singleton.locking.seat import seat_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.history.journal import Record
    from simulator.history.leases import Lease
    from simulator.virtual.search.narrative.choice import Tale
    from simulator.virtual.search.narrative.visits import Visit

SLOW: Final = SOON / 2
_OF_HOST: Final = "queue receive"
"""Requests to a queue that no caller makes."""
NOTES: Final = "deferred/"
"""Where the failures of messages are noted that were put back."""
_ON_THE_WAY: Final = {"create": "create", "read": "read", "write": "write", "get": "read", "put": "write"}
"""Requests that are not told while they succeed, unless the violation has this word for them."""
_WRITES: Final = ("create", "write")
_REMOVALS: Final = ("drop", "remove", "delete")


def told_requests(tale: Tale, visits: Sequence[Visit], leases: Sequence[Lease]) -> Iterator[Record]:
    """Yield the requests under these leases, and those that were sent for these visits while they waited."""
    mine = {id(record) for lease in leases for record in lease.requests}
    words = {id(record) for visit in visits for record in _word_on_seat(tale, visit)}
    for record in tale.records:
        told = id(record) in mine or any(
            _of_wait(tale, visit, record) or _failed_elsewhere(tale, visit, record) for visit in visits
        )
        if _is_named(tale, record) or id(record) in words or (told and not _goes_without_saying(tale, record)):
            yield record


def _is_named(tale: Tale, record: Record) -> bool:
    """Tell whether a request is about a message, a row or a token that the violation names, or removes what it names.

    Also a sender's appends to logs, if the violation names the sender's message.
    """
    call, name, about = record.text("call"), record.text("name"), record.text("about")
    if record.event != "request":
        return False
    if call.startswith("queue "):
        return about in tale.focus.messages and (is_trouble(record) or call != "queue update")
    if call.startswith("database "):
        return bool(about) and tale.focus.words.issuperset(about.split())
    if name.startswith(NOTES):
        return name.rpartition("/")[2] in tale.focus.messages and call != "noted"
    if call == "append":
        return record.host in tale.focus.hosts and tale.focus.names("message")
    return call in _REMOVALS and name in tale.locks


def in_vain(record: Record) -> bool:
    """Tell whether this is a request for a lease that somebody else has."""
    return record.text("call") == "acquire" and record.text("answer").endswith("LeaseAlreadyPresent")


def is_trouble(record: Record) -> bool:
    """Tell whether a request was late, lost or refused, for another reason than that somebody else has the lease."""
    late = float(record.get("out") or 0.0) >= SLOW or record.get("back") is None or record.get("back") >= SLOW
    return late or not (record.text("answer") == "ok" or in_vain(record))


def _of_wait(tale: Tale, visit: Visit, record: Record) -> bool:
    """Tell whether a request was sent for a waiter. Failed polls of a caller that got the lock are not told."""
    if record.event != "request":
        return False
    first = visit.got or visit.entered or visit.done
    until = first.t if first is not None else tale.focus.at if visit.over is None else visit.over
    if (tale.comes_often or (visit.has and visit.owner not in tale.focus.owners)) and not is_trouble(record):
        return False
    locks = {visit.lock} if visit.lock else tale.locks
    return record.host == visit.host and record.text("name") in locks and visit.start <= record.t <= until


def _goes_without_saying(tale: Tale, record: Record) -> bool:
    call = record.text("call")
    if call == "acquire" and record.text("answer").startswith("404"):
        return _is_made(tale, record)
    if call not in _ON_THE_WAY or is_trouble(record):
        return False
    return record.host not in tale.focus.hosts or not (tale.focus.names(call) or tale.focus.names(_ON_THE_WAY[call]))


def _is_made(tale: Tale, missing: Record) -> bool:
    made = [each for each in tale.records if each.event == "request" and each.text("call") == "create"]
    return any(each.text("name") == missing.text("name") and each.t >= missing.t for each in made)


def _word_on_seat(tale: Tale, visit: Visit) -> Iterator[Record]:
    """Yield the last write on the seat of a caller that left for it, and what went wrong there for its writer since."""
    if visit.done is None or visit.done.text("kind") != "coalesced":
        return
    name, until = seat_name(visit.lock), visit.done.t
    there = [record for record in tale.records if record.text("name") == name and record.t <= until]
    writes = [record for record in there if record.text("call") in _WRITES]
    last = next((record for record in reversed(writes) if record.text("answer") == "ok"), None)
    if last is not None:
        yield last
        yield from (each for each in there if each.host == last.host and each.t > last.t and is_trouble(each))


def _failed_elsewhere(tale: Tale, visit: Visit, record: Record) -> bool:
    """Tell whether a queue or a database failed a named caller: its last line may rest on that."""
    call = record.text("call")
    if record.event != "request" or not call.startswith(OF_OTHERS) or call == _OF_HOST or not is_trouble(record):
        return False
    ends = tale.focus.at if visit.outcome is None else visit.outcome.t
    return visit.owner in tale.focus.owners and record.host == visit.host and visit.start <= record.t <= ends
