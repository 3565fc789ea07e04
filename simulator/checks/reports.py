"""How much each check looked at: a check without anything to look at has shown nothing.

The check of sessions: the messages of one session are handled in the order in which they were sent, and one at a time.

A host that stands still, or renews a message's lock no more, loses that lock. The message is then delivered again, and
beside its old run the session's next message may run. No broker can prevent the overlap.

The report of faults, for the verdict: the effects of a fault, and the findings that the fault excused.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simulator.checks.excuses import ASKED, behind_failure, behind_loss, behind_overlap, behind_return
from simulator.checks.findings import Finding, by_function, count
from simulator.checks.messages import stood_still
from simulator.checks.second_tries import FAILED
from simulator.history.deeds import bodies_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.checks.exclusion import Overlap
    from simulator.history.facts import History, Message
    from simulator.history.outages import Strike


def sessions_of(history: History) -> dict[tuple[str, str], list[Message]]:
    """Return the messages of each session, by entity and session, in the order in which they were sent."""
    found: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in sorted(history.messages.values(), key=lambda message: message.sent or 0.0):
        if message.session and message.sent is not None:
            found[message.queue, message.session].append(message)
    return found


def judge_sessions(history: History) -> Iterator[Finding]:
    """Find messages that overtook a message of their session, or ran beside a message of their session."""
    if history.rough:
        return
    late, beside = Counter[str](), Counter[str]()
    ends: dict[tuple[str, str], float] = defaultdict(lambda: -math.inf)
    for sight in history.sights:
        whose = (sight.host, sight.invocation)
        ends[whose] = max(ends[whose], sight.end)
    for (queue, _), messages in sessions_of(history).items():
        placed = [(call, place) for place, message in enumerate(messages) for call in message.invocations]
        calls = sorted(placed, key=lambda each: each[0].start)
        for number, (call, place) in enumerate(calls):
            if stood_still(history, messages[place], call):
                continue
            others = [(other, at) for other, at in calls[:number] if at != place]
            late[queue] += any(at > place for _, at in others)
            runs = [each for each in others if max(each[0].end, ends[each[0].host, each[0].id]) > call.start]
            beside[queue] += not all(stood_still(history, messages[at], other) for other, at in runs)
    yield from by_function(late, "ran after a later one of the same session", "message")
    yield from by_function(beside, "ran beside another one of the same session", "message")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check of the verdict: the promise in a sentence, and how many of what it ``looked_at``."""

    name: str
    promise: str
    looked_at: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def violated(self) -> bool:
        """Whether it found a broken promise."""
        return any(finding.kind == "violation" for finding in self.findings)


CheckResults: TypeAlias = tuple[CheckResult, ...]


def report_checks(history: History, findings: Mapping[str, Iterable[Finding]]) -> CheckResults:
    """Return the result of each check: how much was looked at, and the findings."""
    ran = bodies_of(history)
    bodies = {"guarded bodies": len(ran), "locks": len({body.lock for body in ran})}
    if under := sum(bool(history.function(body.function).blob) for body in ran):
        bodies["of them under locks of lock clients"] = under
    holds, invocations = {"holds": len(history.acquisitions)}, {"invocations": len(history.invocations)}
    renewed = sum(got.renewed > 0 for got in history.acquisitions)
    issued = [got for got in history.acquisitions if got.token is not None]
    kills = {"kills": len(history.kills), "locks of the killed": sum(len(kill.holds) for kill in history.kills)}
    sent = [each for each in history.messages.values() if each.sent is not None]
    messages = {"messages sent": len(sent), "deliveries": sum(len(each.receipts) for each in sent)}
    sights, faults = {"bodies seen": len(history.sights)}, {"faults": len(history.faults)}
    sessions = sessions_of(history)
    in_sessions = {"sessions": len(sessions), "messages": sum(len(each) for each in sessions.values())}
    hosts = history.hosts.keys() - history.restarted.keys()  # a host that is started again counts once
    looked_at: dict[str, tuple[str, dict[str, int]]] = {
        "overlaps": ("Never two inside one lock at once.", bodies),
        "spans": (
            "A lock is kept as long as declared, held no longer, and no more wait for it than declared.",
            {**holds, "waits": len(history.waits)},
        ),
        "guards": ("Each guarded body runs under its lock.", {**bodies, **invocations}),
        "asking": (
            "The storage is asked for the declared lock, before a refusal too, and as seldom as documented.",
            {"lease requests": len(history.requests), "refusals": len(history.refusals)},
        ),
        "witnessed": ("What the lock says of bodies, names and tokens is what the hosts saw.", sights),
        "accounts": (
            "Each refusal, each wait and each hold of a lock has its reason.",
            {**invocations, "refusals": len(history.refusals)},
        ),
        "bounds": (
            "What has a bound takes no longer, by the options in force.",
            {**holds, "waits": len(history.waits)},
        ),
        "renewals": ("A long hold is renewed over the network.", {**holds, "of them renewed": renewed}),
        "losses": ("A body is told when its lock is lost.", {**sights, "lost holds": sum(history.losses.values())}),
        "endings": ("Each invocation ends as its body did.", invocations),
        "tokens": (
            "Each later holder of a lock has a greater token.",
            {"fencing tokens": len(issued), "locks": len({got.lock for got in issued})},
        ),
        "kept": ("What a holder keeps is what the next one reads: hold.state, results of once.", _uses(history)),
        "ordered": ("The messages of a key of an inbox or an outbox go in the order sent.", _sends(history)),
        "failovers": ("The locks of a killed host are taken over in time.", kills),
        "messages": ("No message is lost, and none is stuck.", messages),
        "copies": ("A message that is put back goes on as one copy with the same text.", messages),
        "sessions": ("The messages of a session run in the order sent, and one at a time.", in_sessions),
        "requests": (
            "Each caller of an HTTP function is answered once, as its invocation ended.",
            {"requests": len(history.traffic.requests)},
        ),
        "activity": ("Hosts work, and the run did what it was to do.", {"hosts": len(hosts), **invocations}),
        "liveness": (
            "After the faults everybody gets a turn, and whose lease was broken is told.",
            {**faults, "hosts started again": len(history.restarted)},
        ),
        "faults": ("The faults that were asked for struck.", faults),
    }
    if history.setup.get("sites"):
        apps = {**bodies, "apps": len(history.setup["sites"])}
        looked_at["sites"] = ("Apps that run one function share its lock.", apps)
    looked_at |= _in_tables(history)
    return _results(looked_at, {name: tuple(each) for name, each in findings.items()})


def _results(
    looked_at: Mapping[str, tuple[str, dict[str, int]]], findings: Mapping[str, tuple[Finding, ...]]
) -> CheckResults:
    unlisted = [name for name, each in findings.items() if each and name not in looked_at]
    assert not unlisted, f"findings of {unlisted} would be lost: the report has no such check"
    return tuple(
        CheckResult(name=name, promise=promise, looked_at=numbers, findings=findings[name])
        for name, (promise, numbers) in looked_at.items()
    )


def _in_tables(history: History) -> dict[str, tuple[str, dict[str, int]]]:
    claims = sum((use.of, use.what) == ("rows", "claim") for use in history.uses)
    failures = sum(use.of in {"outbox", "rows"} and use.what in FAILED for use in history.uses)
    looks = sum((use.of, use.what) == ("look", "left") for use in history.uses)
    told = {
        "rows": ("A row has one claimer at a time, and a stale claimer is refused.", {"claims": claims}),
        "tries": (
            "What failed in a table is tried again when it is due, and stays in an outbox until it is sent.",
            {"failed attempts": failures, "looks at all of an outbox": looks},
        ),
    }
    return {name: about for name, about in told.items() if any(about[1].values())}


def _uses(history: History) -> dict[str, int]:
    return {"uses of hold.state and once": sum(use.of in {"hold.state", "once"} for use in history.uses)}


def _sends(history: History) -> dict[str, int]:
    return {"messages sent by the app": sum(use.what == "send" for use in history.uses)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """One fault of a nemesis, as a `Strike` has the fields. ``excused``: the excused effects, in words, or nothing."""

    id: int
    kind: str
    at: float  # the begin, in seconds from the start of the run
    seconds: float | None  # None: until the end of the run
    hosts: tuple[str, ...]
    lock: str
    aim: str
    meant: str
    what: str
    hits: int
    excused: str


def report_faults(history: History, caught: Sequence[Overlap]) -> tuple[FaultReport, ...]:
    """Return a report for each fault, in order."""
    excused: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for faults, one, many in _excused(history, caught):
        if faults:  # several may be behind it: the last to begin is named
            excused[max(faults, key=lambda fault: fault.start).id][one, many] += 1
    return tuple(
        FaultReport(
            id=fault.id,
            kind=fault.kind,
            at=fault.start - history.start,
            seconds=None if fault.end == math.inf else fault.end - fault.start,
            hosts=fault.hosts,
            lock=fault.lock,
            aim=fault.aim,
            meant=fault.meant or fault.aim,
            what=fault.what,
            hits=fault.hits,
            excused=", ".join(count(number, *words) for words, number in excused[fault.id].items()),
        )
        for fault in history.faults
    )


def _excused(history: History, caught: Sequence[Overlap]) -> Iterator[tuple[list[Strike], str, str]]:
    """Yield what went wrong, with the faults behind it."""
    for overlap in caught:
        faults = behind_overlap(history, overlap.first, overlap.second)
        yield faults or _stood(history, overlap), "overlap", "overlaps"
    for section in bodies_of(history):
        if section.told is not None:
            yield behind_loss(history, section), "lost hold", "lost holds"
        elif section.ending == "killed":
            yield _ended(history, section.host, section.end), "body cut", "bodies cut"
    for call in history.invocations:
        if call.ending == "error" and call.blames:
            faults = behind_failure(history, call) or _of(history, "pause", call.host, call.start, call.end)
            yield faults, "failed invocation", "failed invocations"
    for message in history.messages.values():
        for call in message.invocations[:-1]:
            if call.ending in {"killed", "crashed"}:
                yield _ended(history, call.host, call.end), "repeated message", "repeated messages"
            elif call.ending == "ok":
                faults = behind_return(history, message, call) or _of(
                    history, "pause", call.host, call.start - ASKED, call.end + ASKED
                )
                yield faults, "repeated message", "repeated messages"


def _stood(history: History, overlap: Overlap) -> list[Strike]:
    pair = (overlap.first, overlap.second)
    return [fault for body in pair for fault in _of(history, "pause", body.host, body.start - 60, overlap.second.start)]


def _ended(history: History, host: str, t: float) -> list[Strike]:
    """Return the kill or the drain by which a host ended."""
    return _of(history, "kill", host, t - 1, t + 1) or _of(history, "drain", host, t - 60, t)


def _of(history: History, kind: str, host: str, start: float, end: float) -> list[Strike]:
    return [
        fault
        for fault in history.faults
        if fault.kind == kind and host in fault.hosts and fault.start <= end and fault.end >= start
    ]
