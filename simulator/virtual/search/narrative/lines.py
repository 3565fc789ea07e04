"""The lines of a story: the visits, leases and requests that matter, and a line for each group that is left out.

And the sentences: each event in a sentence without its end. What a host believes and what the service knows have
different words: a caller lets go of its lock, the service ends a lease.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.findings import count, label
from simulator.virtual.search.narrative.choice import NEEDED, OF_OTHERS, Tale, ranked, told_leases
from simulator.virtual.search.narrative.requests import NOTES, SLOW, in_vain, is_trouble, told_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simulator.history.journal import Record
    from simulator.history.leases import Lease
    from simulator.virtual.search.narrative.visits import Visit


_TWICE: Final = 2
_LEASING: Final = ("acquire", "renew")
"""Requests after which a lease lasts longer."""
_OF_MESSAGES: Final = {
    "message_sent": "message {id} is sent to the queue {queue}",
    "message_copied": "message {id}, a copy of {first}, comes into the queue {queue}",
    "message_received": "{host} receives message {id}",
    "message_completed": "{host} deletes message {id} as done",
    "message_returned": "{host} leaves message {id} to be received again{reason}",
    "message_poisoned": "{host} moves message {id} to the poison queue{reason}",
}
_DONE: Final = {
    "contended": "{owner} does not get {lock}{reason}",
    "coalesced": "{owner} leaves, as another invocation waits for {lock}",
    "deferred": "{owner} has {message} put back, as message {copy_id}",
    "poisoned": "{owner} gives {message} up: it was put back and has failed too often",
    "released": "{owner} lets go of {lock}",
}
_CARRIED_OUT: Final = {
    "acquire": "the service gives {host} the lease of {lock}",
    "renew": "the service renews {host}'s lease of {lock}",
    "release": "the service ends {host}'s lease of {lock}, as {host} asks",
    "evict": "the service ends the lease of {lock}, whose holder is silent, as {host} asks",
    "break_": "the service breaks the lease of {lock}, as {host} asks",
}
_OPERATORS: Final = {
    "break_": "breaks the lease of {lock}",
    "break slowly": "breaks the lease of {lock}, with ten seconds' notice",
    "label": "writes a key of his own on {lock}",
    "steal": "takes the lease of {lock} away",
    "delete": "deletes the blob of {lock}",
}

Told = tuple["Record", str]
"""Something that was written down, in words."""


def visit_words(visit: Visit, *, brief: bool, scope: str = "") -> list[Told]:
    """Tell of a visit what its host says; what the service knows is told of its lease. ``brief``: not of its wait."""
    who, lock = visit.owner or visit.host, label(visit.lock)
    told: list[Told] = []
    if visit.began is not None and not brief:
        told.append((visit.began, f"{who} {_wish(visit.began)}"))
    if visit.asked is not None and not brief:
        told.append((visit.asked, f"{who} asks for {lock}{f', for the scope {scope!r}' if scope else ''}"))
    token = "" if visit.got is None or visit.got.get("token") is None else f" with token {visit.got.get('token')}"
    told += _joined(who, visit.got, f"gets {lock}{token}", visit.entered, "enters its body")
    lost = f"is told that it lost {lock}{_reason(visit.lost)}"
    told += _joined(who, visit.lost, lost, visit.left, f"leaves its body{_reason(visit.left)}")
    if visit.done is not None and not (visit.was_lost and visit.done.text("kind") == "released"):
        if visit.left is not None and visit.left.t == visit.done.t and visit.done.text("kind") == "released":
            told[-1] = visit.left, f"{told[-1][1]}, and lets go of {lock}"
        else:
            told.append((visit.done, _DONE[visit.done.text("kind")].format(**_fields(visit.done, who))))
    return [*told, *((record, other_words(record)) for record in visit.others)]


def outcome_words(record: Record) -> str:
    """Tell how a call ended."""
    who = record.text("invocation") or record.text("owner")
    error = record.text("error") or ("" if record.text("outcome") in ("ok", "error") else record.text("outcome"))
    if error == "failed":
        return f"{who} fails, as functions do"
    return f"{who} ends with {error}" if error else f"{who} ends well"


def message_words(record: Record) -> str:
    """Tell what happened to a message."""
    told = {name: record.text(name) for name in ("id", "queue", "first")}
    told |= {"host": record.host, "reason": _reason(record)}
    sentence = _OF_MESSAGES.get(record.event, f"{{host}}: {record.event.replace('_', ' ')}, {{id}}")
    times = int(record.get("dequeue_count") or 1)
    again = f", {times} times by now" if times > 1 else ""
    return sentence.format(**told) + again


def other_words(record: Record) -> str:
    """Tell a record that has no sentence of its own."""
    what = record.text("kind").replace("_", " ") or record.event.replace("_", " ")
    if record.text("kind") in _DONE:
        return _DONE[record.text("kind")].format(**_fields(record, record.text("owner") or record.host))
    return f"{record.text('owner') or record.host}: {what}, {label(record.text('lock'))}{_reason(record)}"


def operator_words(record: Record) -> str:
    """Tell what an operator did."""
    what = _OPERATORS.get(record.text("action"), f"does {record.text('action')!r} to {{lock}}")
    return f"an operator {what.format(lock=label(record.text('lock')))}"


def request_words(records: Sequence[Record], lease: Lease | None) -> str:
    """Tell the service's answers to similar requests, and whether requests or replies were late or lost.

    ``lease``: the lease of the requests, if ever granted.
    """
    record, last = records[0], records[-1]
    lasts = f" until {last.get('until'):.3f} s" if record.text("call") in _LEASING and last.get("until") else ""
    what, delays = _done_with(record, lease), _delays(record)
    if len(records) == 1:
        return f"{what}{lasts}{delays}"
    if lasts:
        often = f"{_times(len(records))}, last at {last.t:.3f} s,{lasts}"
        return f"{what}{delays}, {often}" if delays else f"{what} {often}"
    if len(records) == _TWICE:
        return f"{what}{delays}, and again at {last.t:.3f} s"
    return f"{what}{delays}, {_times(len(records))} until {last.t:.3f} s"


def _done_with(record: Record, lease: Lease | None) -> str:
    """Tell what the service did with a request, if it arrived."""
    call, answer = record.text("call"), record.text("answer")
    lock = f"{label(record.text('name'))}{_of_what(record)}"
    about = {"host": record.host, "call": call.strip("_"), "lock": lock}
    if call.startswith("database "):
        about |= {"call": call.partition(" ")[2], "lock": record.text("about")}
        done = "carries out" if answer == "ok" else f"answers with {answer} to"
        return "the database {done} {host}'s {call} of {lock}".format(done=done, **about)
    if record.text("name").startswith(NOTES) and answer == "ok":
        verb = "forgets" if call == "remove" else "notes"
        return f"{record.host} {verb} the failures of message {record.text('name').rpartition('/')[2]}"
    if answer == "lost":
        return "{host}'s {call} of {lock} is lost on its way".format(**about)
    if in_vain(record):
        return "{host} asks for the lease of {lock} in vain".format(**about)
    if answer != "ok":
        with_ = answer.removesuffix(" simulated") + _asks_for_time(record)
        return "the service answers {host}'s {call} of {lock} with {answer}".format(**about, answer=with_)
    if call == "acquire" and not (lease is not None and lease.requests[0] is record):
        return "the service gives {host} the same lease of {lock}".format(**about)
    if call == "release" and lease is not None and lease.ending == "expired" and lease.end <= record.t:
        return "{host} gives the lease of {lock} back, which has run out".format(**about)
    return _CARRIED_OUT.get(call, "the service carries out {host}'s {call} of {lock}").format(**about)


def _of_what(record: Record) -> str:
    """Tell which message, row or token a request is about."""
    about = record.text("about")
    return f" ({about})" if about and record.text("call").startswith((*OF_OTHERS, "append")) else ""


def _asks_for_time(record: Record) -> str:
    retry_after = record.get("retry_after")
    return "" if retry_after is None else f", and asks for {retry_after:g} s (Retry-After)"


def _times(number: int) -> str:
    return "twice" if number == _TWICE else f"{number} times"


def _delays(record: Record) -> str:
    if record.text("answer") == "lost":
        return ""
    out, back = float(record.get("out", 0.0)), record.get("back", 0.0)
    late = f", {out:.1f} s after it was sent" if out >= SLOW else ""
    if back is None:
        return f"{late}, but the reply is lost"
    return f"{late}; the reply takes {back:.1f} s" if back >= SLOW else late


def _joined(who: str, one: Record | None, said: str, other: Record | None, then: str) -> list[Told]:
    """Tell of two records: in one sentence, if at one time."""
    if one is not None and other is not None and round(one.t - other.t, 3) == 0:
        return [(one, f"{who} {said}, and {then}")]
    return [(record, f"{who} {text}") for record, text in ((one, said), (other, then)) if record is not None]


def _reason(record: Record | None) -> str:
    reason = "" if record is None else record.text("reason")
    return f" ({reason})" if reason else ""


def _wish(record: Record) -> str:
    if record.get("lock"):
        return f"becomes a candidate for {label(record.text('lock'))}"
    timeout = record.get("timeout")
    return "wants a slot" if timeout is None else f"wants a slot within {timeout:g} s"


def _fields(record: Record, who: str) -> dict[str, Any]:
    message = f"message {record.text('message_id')}" if record.text("message_id") else "its message"
    told = {"message": message, "copy_id": record.text("copy_id")}
    return {"owner": who, "lock": label(record.text("lock")), "reason": _reason(record), **told}


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
    return record.text("call") in ("acquire", "release", "evict", "break_") and record.text("answer") == "ok"


def _alike(one: Record, other: Record) -> bool:
    same = all(one.text(name) == other.text(name) for name in ("call", "answer", "about", "retry_after"))
    return same and is_trouble(one) == is_trouble(other) and in_vain(one) == in_vain(other)


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
_LONG: Final = 1.0
"""Seconds after its use within which a lease should have been given back."""
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
        told += visit_words(
            visit, brief=tale.comes_often or ranks[visit] > NEEDED, scope=tale.scopes.get(visit.owner, "")
        )
    told += _outcomes(tale, visits)
    needed = [visit for visit in visits if ranks[visit] == NEEDED]
    told += grouped(told_requests(tale, needed, leases), needed, tale.leases, coarse=coarse)
    told += [(record, message_words(record)) for record in _of_messages(tale)]
    told += _of_hosts(tale, hosts)
    place = {id(record): number for number, record in enumerate(tale.records)}
    lines = [(record.t, place[id(record)], text) for record, text in told]
    lines += [
        (lease.end, _UNWRITTEN, f"{lease.host}'s lease of {label(lease.blob)} runs out")
        for lease in leases
        if lease.ending == "expired"
    ]
    lines += [(tale.focus.at, len(tale.records), text) for text in _kept_for_nobody(tale, leases)]
    left = [visit for visit in tale.visits if visit.lock in tale.locks and visit not in visits]
    breaks = [record.t for record in tale.records if record.event == "fault"] + [lease.start for lease in leases]
    lines += [(at, _UNWRITTEN, text) for at, text in fold(left, () if coarse else breaks)]
    return StoryLines([(at, text) for at, _, text in sorted(set(lines))], frozenset(hosts))


def _kept_for_nobody(tale: Tale, leases: Sequence[Lease]) -> Iterator[str]:
    """Tell of leases that go on though whoever used them has left, and whether their release was asked for."""
    for lease in leases:
        visits = [visit for visit in tale.visits if visit.lease is lease]
        last = max((visit.last for visit in visits), default=lease.start)
        if lease.ending == "open" and tale.focus.at >= last + _LONG and not any(visit.open for visit in visits):
            asked = any(record.text("call") == "release" and record.t >= last for record in lease.requests)
            release = "its release did not get through" if asked else f"{lease.host} has not asked for its release"
            yield f"{lease.host}'s lease of {label(lease.blob)} goes on, and {release} since {last:.3f} s"


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
    put_back = {record.text("copy_id") for record in tale.records if record.text("kind") == "deferred"}  # told already
    mine = [record for record in mine if record.event != "message_copied" or record.text("id") not in put_back]
    mine = [record for record in mine if tale.focus.messages & {record.text("id"), record.text("first")}]
    return mine if len(mine) <= _FIRST + _LAST else [*mine[:_FIRST], *mine[-_LAST:]]


# --- of hosts and faults ----------------------------------------------------------------------------------------------


def _failover(record: Record) -> str:
    seconds = record.get("seconds")
    return "none" if seconds is None else f"{seconds:g} s"


def _of_hosts(tale: Tale, hosts: set[str]) -> list[Told]:
    told: list[Told] = []
    sudden = {record.t for record in tale.records if record.event == "fault"}
    failovers = {record.host: record for record in tale.records if record.event == "failover" and record.host in hosts}
    if len({record.get("seconds") for record in failovers.values()}) > 1:
        each = [f"{host}: {_failover(record)}" for host, record in sorted(failovers.items())]
        told.append((next(iter(failovers.values())), f"failover is not the same everywhere ({', '.join(each)})"))
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
