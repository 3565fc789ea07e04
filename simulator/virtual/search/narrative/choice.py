"""The matter of a broken promise: the things in its sentence, and the visits and leases for the story.

A sentence names hosts, callers, locks, tokens, messages, functions and errors. Each visit has a rank: how much the
story needs the visit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import label
from simulator.history.leases import leases_until
from simulator.virtual.search.narrative.visits import Visit, read_visits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.history.journal import Record
    from simulator.history.leases import Lease
    from simulator.virtual.oracle.evidence import Violation


_WORDS: Final = re.compile(r"[^\s,;:'\"<>()]+")
_TOKENS: Final = re.compile(r"\b(?:token|after|got) (\d+)\b")
OF_OTHERS: Final = ("queue ", "database ")
"""How the calls of requests begin that go to queues and databases."""
_BEGUN: Final = ("visit_began", "candidacy_began", "invocation_started")


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The things that a violation names, under their names in the records, and the time of the finding."""

    at: float
    words: frozenset[str]
    hosts: frozenset[str]
    owners: frozenset[str]
    locks: frozenset[str]
    tokens: frozenset[int]
    messages: frozenset[str]
    scopes: frozenset[str]

    def names(self, word: str) -> bool:
        """Tell whether the sentence has this word."""
        return bool(word) and word in self.words


def names_of_locks(records: Sequence[Record]) -> set[str]:
    """Return the names of the locks that were asked for."""
    asked = {record.text("lock") for record in records if record.event in ("lock", "candidacy_began")}
    sent = {record.text("name") for record in records if record.event == "request" and _of_lock(record)}
    return (asked | sent) - {""}


def focus_of(records: Sequence[Record], violation: Violation) -> Focus:
    """Find the things that a violation names."""
    words = frozenset(word.rstrip(".") for word in _WORDS.findall(violation.text))
    hosts = {record.host for record in records} - {"world"}
    messages = _messages(records, words)
    owners = _owners(records)
    named = {owner for owner in owners if owner in words and owner not in hosts}
    named |= {owner for owner, message in owners.items() if message in messages}
    return Focus(
        at=violation.at,
        words=words,
        hosts=frozenset((hosts & words) | {record.host for record in records if _owner(record) in named}),
        owners=frozenset(named),
        locks=frozenset(lock for lock in names_of_locks(records) if lock in words or label(lock) in words),
        tokens=frozenset(int(token) for token in _TOKENS.findall(violation.text) if "token" in words),
        messages=frozenset(messages),
        scopes=frozenset(scope for record in records for scope in scopes_of(record) if scope in words),
    )


def scopes_of(record: Record) -> set[str]:
    """Return the scopes of a call, as far as recorded."""
    keys = record.get("keys") if record.event == "expected" else None
    return {str(key) for key in keys.values() if key is not None} if isinstance(keys, dict) else set()


def _of_lock(record: Record) -> bool:
    return not record.text("call").startswith(OF_OTHERS)


def _owner(record: Record) -> str:
    return record.text("invocation") if record.event == "invocation_started" else record.text("owner")


def _owners(records: Sequence[Record]) -> dict[str, str]:
    """Return the callers, with the messages of their calls, or ""."""
    owners = {_owner(record): "" for record in records if record.event in ("lock", *_BEGUN)}
    owners |= {_owner(record): record.text("message") for record in records if record.event == "invocation_started"}
    owners.pop("", None)
    return owners


def _messages(records: Sequence[Record], words: frozenset[str]) -> set[str]:
    """Return the ids of the messages that a text names, and of the copies that replaced them."""
    named: set[str] = set()
    if "message" in words:
        named = {record.text("id") for record in records if record.event.startswith("message_")} & words
    for record in records:
        if record.event == "lock" and record.text("message_id") in named and record.text("copy_id"):
            named.add(record.text("copy_id"))
    return named - {""}


NEEDED: Final = 0
"""The need of a visit without which the last line can't be understood. Higher numbers are left out first."""
_HELPFUL: Final = 1
_FEW: Final = 2
_MANY: Final = 4
_OF_OLD_LEASES: Final = ("used after release", "used after closing")
"""Checks that are about a lease which its host has given back."""


@dataclass(slots=True)
class Tale:
    """The contents of a run's records up to the moment at which a promise was broken."""

    records: Sequence[Record]
    focus: Focus
    check: str
    visits: Sequence[Visit]
    leases: Sequence[Lease]
    locks: frozenset[str]
    """The locks that matter."""
    scopes: dict[str, str]
    """Scopes of callers that the violation names, by invocation."""

    @property
    def late(self) -> bool:
        """Whether the promise was broken at any time before: a verdict is given at the end."""
        return self.check == "verdict"

    @property
    def comes_often(self) -> bool:
        """Whether the violation is about messages that came often, and not about a lock."""
        mine = [visit for visit in self.visits if visit.owner in self.focus.owners]
        return bool(self.focus.messages) and not self.focus.locks and len(mine) > _FEW

    @property
    def callers(self) -> set[str]:
        """The hosts of the callers that are named: of these hosts, the callers matter and not the rest."""
        return {visit.host for visit in self.visits if visit.owner in self.focus.owners}


def read_tale(records: Sequence[Record], violation: Violation) -> Tale:
    """Read the records of a run whose promise was broken."""
    before = [record for record in records if record.t <= violation.at]
    focus = focus_of(before, violation)
    leases = leases_until(before, violation.at)
    visits = read_visits(before, leases)
    scopes = {
        record.text("invocation"): scope for record in before for scope in sorted(scopes_of(record) & focus.scopes)
    }
    locks = focus.locks or frozenset(_locks_of(focus, visits)) or frozenset(names_of_locks(before))
    return Tale(before, focus, violation.check, visits, leases, locks, scopes)


def _locks_of(focus: Focus, visits: Sequence[Visit]) -> Iterator[str]:
    """Yield the locks of the named callers if no lock is named: waited for, held, or held last."""
    if any(visit.owner in focus.owners and not visit.lock for visit in visits):
        return  # any slot would do
    mine = [visit for visit in visits if visit.owner in focus.owners]
    mine = mine or [visit for visit in visits if visit.host in focus.hosts]
    for visit in [visit for visit in mine if visit.open] or mine[-1:]:
        if visit.lock:
            yield visit.lock


def ranked(tale: Tale) -> dict[Visit, int]:
    """Return the ranks of the visits of important locks. A visit without a rank is not needed."""
    named = list(_named(tale))
    if len(named) > _FEW + _MANY:
        named = [*named[:_FEW], *named[-_MANY:]]
    at_the_end = list(_at_the_end(tale))
    if not tale.focus.locks:
        at_the_end = sorted(at_the_end, key=lambda visit: visit.start)[:_MANY]
    needed = [*named, *(_judged(tale) if tale.late else at_the_end)]
    ranks = dict.fromkeys(needed, NEEDED)
    if not tale.late and not tale.focus.messages:
        since = min((visit.start for visit in needed), default=0.0)
        for visit in (*_holders(tale), *_odd(tale, since)):
            ranks.setdefault(visit, _HELPFUL)
    return ranks


def told_leases(tale: Tale, visits: Iterable[Visit]) -> list[Lease]:
    """Return the leases of these visits, and the last lease that the violation can be about."""
    told: dict[Lease, None] = {visit.lease: None for visit in visits if visit.lease is not None}
    for lock in sorted(tale.focus.locks) if not tale.late else ():
        mine = [lease for lease in tale.leases if lease.blob == lock]
        told |= dict.fromkeys(mine[-1:])
        for host in sorted(tale.focus.hosts) if tale.check in _OF_OLD_LEASES else ():
            told |= dict.fromkeys([lease for lease in mine if lease.host == host][-1:])
    return sorted(
        [lease for lease in told if not tale.comes_often or lease.ending != "released"], key=lambda lease: lease.start
    )


def _named(tale: Tale) -> Iterator[Visit]:
    """Yield the visits of the named callers and tokens; of a caller that came often, the last."""
    last = {(visit.host, visit.owner, visit.lock): visit for visit in tale.visits}
    for visit in tale.visits:
        token = None if visit.got is None else visit.got.get("token")
        if (token in tale.focus.tokens and visit.lock in tale.locks) or (
            visit.owner in tale.focus.owners and last[visit.host, visit.owner, visit.lock] is visit
        ):
            yield visit


def _at_the_end(tale: Tale) -> Iterator[Visit]:
    """Yield which important locks the named hosts have at the end, or had last."""
    for host in sorted(tale.focus.hosts):
        for lock in sorted(tale.locks):
            mine = [visit for visit in tale.visits if (visit.host, visit.lock) == (host, lock)]
            has = [visit for visit in mine if visit.has]
            holding = [visit for visit in has if visit.inside] or [visit for visit in has if visit.open]
            yield from holding[-_FEW:]
            if not holding and host not in tale.callers:
                yield from _had_or_wanted(tale, host, lock, mine)


def _had_or_wanted(tale: Tale, host: str, lock: str, mine: Sequence[Visit]) -> list[Visit]:
    """Return the visit of a host's last lease; if the host waits for another host's lease, the waiting visits."""
    has = [visit for visit in mine if visit.has]
    waiting = [visit for visit in mine if visit.open and not visit.has]
    leases = [lease for lease in tale.leases if lease.blob == lock]
    if tale.check in _OF_OLD_LEASES:
        return has[-1:] or waiting[:1]
    if not leases or leases[-1].host != host:
        return waiting[:1] or has[-1:]
    if any(visit.lease is leases[-1] for visit in has):
        return has[-1:]
    early = [visit for visit in mine if visit.start <= leases[-1].start and not visit.has]
    return [visit for visit in early if visit.open][:1] or early[-1:]


def _holders(tale: Tale) -> Iterator[Visit]:
    """Yield the holders of the important locks at the end; of a free lock, the last holder."""
    for lock in sorted(tale.locks):
        has = [visit for visit in tale.visits if visit.lock == lock and visit.has]
        leases = [lease for lease in tale.leases if lease.blob == lock]
        if not leases or any(visit.lease is leases[-1] for visit in has):
            inside = [visit for visit in has if visit.inside] or [visit for visit in has if visit.open]
            yield from inside[-_FEW:] or sorted(has, key=lambda visit: visit.last)[-1:]


def _odd(tale: Tale, since: float) -> list[Visit]:
    """Return the last visits that did not go as they should, and had not ended before a time."""
    here = [visit for visit in tale.visits if visit.lock in tale.locks and visit.has]
    odd = [visit for visit in here if visit.was_lost or _outlived(visit)]
    odd += [visit for visit in here for other in here if _meet(visit, other) and visit not in odd]
    return sorted((visit for visit in odd if visit.last >= since), key=lambda visit: visit.start)[-_MANY:]


def _outlived(visit: Visit) -> bool:
    lease = visit.lease
    if lease is None or lease.ending == "open" or visit.entered is None:
        return False
    left = visit.left.t if visit.left is not None else visit.over
    return left is None or left > lease.end


def _meet(one: Visit, other: Visit) -> bool:
    apart = one is other or one.lock != other.lock or (one.host == other.host and one.got is None)
    return not apart and one.inside_with(other)


def _judged(tale: Tale) -> list[Visit]:
    """Return a few examples for a verdict that is given at the end on the whole run."""
    focus = tale.focus
    mine = [visit for visit in tale.visits if visit.lock in tale.locks]
    if focus.scopes:
        first = {tale.scopes[visit.owner]: visit for visit in reversed(mine) if visit.owner in tale.scopes}
        return list(first.values())
    of_function = [visit for visit in mine if focus.names(visit.function)]
    said = [visit for visit in of_function if _is_said(focus, visit)]
    odd = [visit for visit in _odd(tale, 0.0) if not focus.hosts or visit.host in focus.hosts]
    odd = [visit for visit in odd if visit in of_function] or odd
    bare = [visit for visit in of_function if visit.outcome and visit.outcome.text("outcome") == "ok" and not visit.has]
    first = {visit.lock: visit for visit in reversed(mine) if visit.lock in focus.locks}
    return said[:_FEW] or odd or bare[:_FEW] or of_function[:_FEW] or list(first.values())[:_MANY] or mine[-1:]


def _is_said(focus: Focus, visit: Visit) -> bool:
    """Tell whether a violation names how a visit ended: its error, or why it did not get the lock."""
    error = visit.outcome.text("error") if visit.outcome is not None else ""
    reason = visit.done.text("reason") if visit.done is not None else ""
    return focus.names(error) or focus.names(reason)
