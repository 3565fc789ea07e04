"""The requests of a story: which are told. Similar ones share a line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count, label
from simulator.virtual.search.narrative.sentences import in_vain, is_trouble, request_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.history.journal import Record
    from simulator.virtual.search.narrative.choice import Tale
    from simulator.virtual.search.narrative.sentences import Told
    from simulator.virtual.search.narrative.visits import Lease, Visit

_ON_THE_WAY: Final = ("create", "read", "write")
"""Requests that are not told while they succeed."""


def told_requests(tale: Tale, visits: Sequence[Visit], leases: Sequence[Lease]) -> Iterator[Record]:
    """Yield the requests under these leases, and those that were sent for these visits while they waited."""
    mine = {id(record) for lease in leases for record in lease.requests}
    for record in tale.records:
        told = id(record) in mine or any(_of_wait(tale, visit, record) for visit in visits)
        if told and not _goes_without_saying(tale, record):
            yield record


def grouped(
    requests: Iterable[Record], visits: Sequence[Visit], leases: Sequence[Lease], *, coarse: bool
) -> list[Told]:
    """Tell similar requests that follow one another, for the same caller, in one line.

    ``coarse``: those that differ too, but for the first and the last of a lease.
    """
    under = {id(record): lease for lease in leases for record in lease.requests}
    groups: list[list[Record]] = []
    last: dict[tuple[str, str, int], list[Record]] = {}
    for record in requests:
        before = [visit for visit in visits if visit.host == record.host and (visit.over or record.t) < record.t]
        who = record.host, record.text("name"), len(before)
        same = who in last and under.get(id(record)) is under.get(id(last[who][-1]))
        if same and (_alike(last[who][-1], record) or (coarse and not _is_mark(record) and not _is_mark(last[who][0]))):
            last[who].append(record)
        else:
            last[who] = [record]
            groups.append(last[who])
    return [(group[0], _group_words(group, under.get(id(group[0])))) for group in groups]


def _group_words(group: Sequence[Record], lease: Lease | None) -> str:
    if all(_alike(group[0], record) for record in group):
        return request_words(group, lease)
    answers = Counter(_fate(record) for record in group)
    fates = ", ".join(f"{number} {fate}" for fate, number in answers.items())
    lock = label(group[0].text("name"))
    return f"{group[0].host} sends {count(len(group), 'request')} for {lock} until {group[-1].t:.3f} s: {fates}"


def _fate(record: Record) -> str:
    answer = record.text("answer")
    if answer == "lost":
        return "lost on the way"
    if record.get("back") is None:
        return "with a lost reply"
    return "in vain" if in_vain(record) else "carried out" if answer == "ok" else f"answered {answer.split()[0]}"


def _is_mark(record: Record) -> bool:
    """Tell whether a request begins or ends a lease."""
    return record.text("call") in ("acquire", "release", "break_") and record.text("answer") == "ok"


def _alike(one: Record, other: Record) -> bool:
    same = all(one.text(name) == other.text(name) for name in ("call", "answer"))
    return same and is_trouble(one) == is_trouble(other) and in_vain(one) == in_vain(other)


def _of_wait(tale: Tale, visit: Visit, record: Record) -> bool:
    """Tell whether a request was sent for a waiter. Failed polls of a caller that got the lock are not told."""
    if record.event != "request":
        return False
    first = visit.got or visit.entered or visit.done
    until = first.t if first is not None else tale.focus.at if visit.over is None else visit.over
    if visit.has and visit.owner not in tale.focus.owners and not is_trouble(record):
        return False
    locks = {visit.lock} if visit.lock else tale.locks
    return record.host == visit.host and record.text("name") in locks and visit.start <= record.t <= until


def _goes_without_saying(tale: Tale, record: Record) -> bool:
    call = record.text("call")
    if call == "acquire" and record.text("answer").startswith("404"):
        return _is_made(tale, record)
    return call in _ON_THE_WAY and not is_trouble(record) and not tale.focus.names(call)


def _is_made(tale: Tale, missing: Record) -> bool:
    """Tell whether anybody made the blob after an attempt that missed it."""
    made = [each for each in tale.records if each.event == "request" and each.text("call") == "create"]
    return any(each.text("name") == missing.text("name") and each.t >= missing.t for each in made)
