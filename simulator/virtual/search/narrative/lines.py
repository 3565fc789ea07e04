"""The lines of a story: the visits, leases and requests that matter, and a line for each group that is left out."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count, label
from simulator.virtual.search.narrative.choice import NEEDED, Tale, ranked, told_leases
from simulator.virtual.search.narrative.sentences import (
    in_vain,
    is_trouble,
    message_words,
    operator_words,
    outcome_words,
    request_words,
    visit_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simulator.history.journal import Record
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


_NAMED: Final = 3
_KINDS: Final[dict[tuple[str, str], Callable[[Visit], bool]]] = {
    ("healthy hand-over", ""): lambda visit: visit.well and visit.got is not None,
    ("healthy body", "healthy bodies"): lambda visit: visit.well,
    ("lost hold", ""): lambda visit: visit.was_lost,
    ("hold that is never let go", "holds that are never let go"): lambda visit: visit.has and visit.left is not None,
    ("hold that goes on", "holds that go on"): lambda visit: visit.has,
    ("call in vain", "calls in vain"): lambda _: True,
}
"""The outcome of a visit, in one word and in many; the first that is true."""


def fold(visits: Iterable[Visit], breaks: Iterable[float]) -> Iterator[tuple[float, str]]:
    """Say in few lines how these visits ended; holds before and after each of the ``breaks`` are separate."""
    times = sorted(breaks)
    groups: list[list[Visit]] = []
    stretch = None
    for visit in sorted((visit for visit in visits if visit.has or visit.done is not None), key=_met):
        began, stretch = stretch, bisect_right(times, _met(visit)) if visit.has else stretch
        if groups and began in (None, stretch):
            groups[-1].append(visit)
        else:
            groups.append([visit])
    for group in groups:
        yield _met(group[0]), _folded(group)


def _met(visit: Visit) -> float:
    """Return when it got the lock, or was told that it does not."""
    first = visit.got or visit.entered or visit.done
    return visit.start if first is None else first.t


def _folded(group: Sequence[Visit]) -> str:
    kinds = Counter(next(kind for kind, holds in _KINDS.items() if holds(visit)) for visit in group)
    first, *others = [count(kinds[kind], *kind) for kind in _KINDS if kinds[kind]]
    hosts = sorted({visit.host for visit in group})
    where = f"on {hosts[0]}" if len(hosts) == 1 else f"among {len(hosts)} hosts"
    rest = f", and {' and '.join(others)}" if others else ""
    of = "of" if any(visit.has for visit in group) else "for"
    return f"until {max(visit.last for visit in group):.3f} s: {first} {of} {_locks(group)} {where}{rest}"


def _locks(group: Sequence[Visit]) -> str:
    names = sorted({label(visit.lock) for visit in group})
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} locks"


_OF_CALLS: Final = ("verdict", "cancelled by nobody", "cancellation swallowed")
"""Checks that ask how calls ended."""
_UNWRITTEN: Final = -1
"""The place, among records of the same time, of what no record tells."""
_FIRST: Final = 3
_LAST: Final = 6
"""How many records of a message are told if there are too many."""


@dataclass(frozen=True, slots=True)
class StoryLines:
    """What happened, in words, in order of time, and the hosts that it is about."""

    lines: list[tuple[float, str]]
    hosts: frozenset[str]


def tell_lines(tale: Tale, *, most: int) -> StoryLines:
    """Tell what matters, in ``most`` lines: the least needed is left out first."""
    ranks = ranked(tale)
    visits = sorted(ranks, key=lambda visit: (ranks[visit], -visit.start))
    while True:
        coarse = not visits or ranks[visits[-1]] == NEEDED
        story = _told(tale, visits, ranks, coarse=False)
        if len(story.lines) > most and coarse:
            return _told(tale, visits, ranks, coarse=True)
        if len(story.lines) <= most:
            return story
        visits.pop()


def _told(tale: Tale, visits: Sequence[Visit], ranks: Mapping[Visit, int], *, coarse: bool) -> StoryLines:
    leases = told_leases(tale, visits)
    hosts = {visit.host for visit in visits} | {lease.host for lease in leases} | tale.focus.hosts
    told: list[Told] = []
    for visit in visits:
        told += visit_words(visit, brief=ranks[visit] > NEEDED, scope=tale.scopes.get(visit.owner, ""))
    told += _outcomes(tale, visits)
    needed = [visit for visit in visits if ranks[visit] == NEEDED]
    told += grouped(told_requests(tale, needed, leases), needed, tale.leases, coarse=coarse)
    told += [(record, message_words(record)) for record in _of_messages(tale)]
    told += _of_hosts(tale, hosts)
    place = {id(record): number for number, record in enumerate(tale.records)}
    lines = [(record.t, place[id(record)], text) for record, text in told]
    lines += [
        (lease.ended, _UNWRITTEN, f"{lease.host}'s lease of {label(lease.lock)} runs out")
        for lease in leases
        if lease.ending == "expired" and lease.ended is not None
    ]
    left = [visit for visit in tale.visits if visit.lock in tale.locks and visit not in visits]
    breaks = [record.t for record in tale.records if record.event == "fault"] + [lease.since for lease in leases]
    lines += [(at, _UNWRITTEN, text) for at, text in fold(left, () if coarse else breaks)]
    return StoryLines([(at, text) for at, _, text in sorted(set(lines))], frozenset(hosts))


# --- of callers and messages ------------------------------------------------------------------------------------------


def _outcomes(tale: Tale, visits: Sequence[Visit]) -> list[Told]:
    """Tell how calls ended, if the violation is about that; tell a good end only if that is the question."""
    if tale.check not in _OF_CALLS and not tale.focus.messages:
        return []
    outcomes = [visit.outcome for visit in visits if visit.outcome is not None and _is_asked(tale, visit)]
    return [(outcome, outcome_words(outcome)) for outcome in outcomes]


def _is_asked(tale: Tale, visit: Visit) -> bool:
    well = visit.outcome is not None and visit.outcome.text("outcome") == "ok"
    return not well or tale.focus.names("succeeded") or (bool(tale.focus.messages) and visit.has)


def _of_messages(tale: Tale) -> list[Record]:
    """Return what was done with the messages that are named: of a message that came often, the first and the last."""
    mine = [record for record in tale.records if record.event.startswith("message_")]
    mine = [record for record in mine if record.text("id") in tale.focus.messages]
    return mine if len(mine) <= _FIRST + _LAST else [*mine[:_FIRST], *mine[-_LAST:]]


# --- of hosts and faults ----------------------------------------------------------------------------------------------


def _of_hosts(tale: Tale, hosts: set[str]) -> list[Told]:
    told: list[Told] = []
    sudden = {record.t for record in tale.records if record.event == "fault"}
    for record in tale.records:
        mine = record.host in hosts
        if record.event == "fault" and record.text("kind") != "operator":
            told.append((record, record.text("words")))
        elif record.event == "operator":
            told.append((record, operator_words(record)))
        elif record.event == "pause" and mine and record.t not in sudden:
            told.append((record, f"{record.host} stands still"))
        elif record.event == "resume" and mine:
            told.append((record, f"{record.host} runs on"))
        elif record.event == "host_exited" and mine:
            told.append((record, f"{record.host} has closed its locks, and ends"))
    return told
