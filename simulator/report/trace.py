"""Draw a run as a trace: a process for each host, a process with the locks, a process with the faults and findings.

A host's threads in the trace are no threads of its process: overlapping invocations are drawn below one another. An
arrow leads from the body whose lock was handed on, or taken over, to the body that got the lock.

`Sheet` writes Chrome's trace event format: processes, threads, slices, instants, arrows and counters.

The format is described in https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are
whole microseconds. Only complete slices are used (``X``), never a begin without its end. Thread numbers are unique in
the whole file, because some readers know a thread by its number alone.

Slices share as few threads as possible: the slices of a thread lie beside or within each other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.checks.findings import label
from simulator.program import PROGRAM
from simulator.report.timeline.build import build_timeline, careful, without_secrets
from simulator.report.timeline.timeline import FOLDED, ran_no_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Acquisition, Section, Wait
    from simulator.history.journal import Record
    from simulator.history.leases import Lease
    from simulator.report.files import OutFile
    from simulator.report.timeline.timeline import Handover, Mark, OverlapSpan, Timeline


TraceEvent = dict[str, Any]
_MICRO: Final = 1e6
_AT_ONE_INSTANT: Final = {"M": 0, "X": 1, "s": 2, "f": 3}
"""Slices come before the arrows that begin or end in them."""
_OTHERS: Final = 4


def micros(seconds: float) -> int:
    """Return a time in whole microseconds."""
    return max(round(seconds * _MICRO), 0)


class Track(NamedTuple):
    """A thread of a process."""

    pid: int
    tid: int


_NOWHERE: Final = Track(0, 0)


class Sheet:
    """Collects the events of a trace."""

    def __init__(self) -> None:
        self._events: list[TraceEvent] = []
        self._numbers = {"pid": count(1), "tid": count(1), "flow": count(1)}

    def process(self, name: str) -> int:
        """Add a process below the others, and return its number."""
        pid = next(self._numbers["pid"])
        self._name(pid, 0, "process", name, order=pid)
        return pid

    def thread(self, pid: int, name: str) -> Track:
        """Add a thread below the others of its process."""
        track = Track(pid, next(self._numbers["tid"]))
        self._name(pid, track.tid, "thread", name, order=track.tid)
        return track

    def threads(self, pid: int, title: str, units: Iterable[Sequence[Slice]]) -> list[Slice]:
        """Add units of slices on as few threads as there must be: ``title``, ``title (2)`` and so on."""
        tracks: list[Track] = []
        placed = []
        for number, each in pack(units):
            while len(tracks) <= number:
                tracks.append(self.thread(pid, f"{title} ({len(tracks) + 1})" if tracks else title))
            self.slice(tracks[number], each)
            placed.append(each)
        return placed

    def slice(self, track: Track, each: Slice) -> None:
        """Add something that lasted."""
        each.track = track
        event = self._event("X", track, each.start, each.name, each.kind, each.args)
        event["dur"] = each.end - each.start
        if each.tone:
            event["cname"] = each.tone

    def instant(self, track: Track, at: float, name: str, kind: str, args: Mapping[str, Any], scope: str = "t") -> None:
        """Add something that happened at a moment; ``scope``: ``t`` for its thread, ``p`` process, ``g`` everything."""
        self._event("i", track, micros(at), name, kind, args)["s"] = scope

    def arrow(self, since: tuple[Slice, float], until: tuple[Slice, float], name: str, kind: str) -> None:
        """Draw an arrow from a moment in one slice to a moment in another, unless it would go back in time."""
        begin, end = _within(*since), _within(*until)
        if begin is None or end is None or end < begin:
            return
        number = next(self._numbers["flow"])
        for phase, (each, _), at in (("s", since, begin), ("f", until, end)):
            self._event(phase, each.track, at, name, kind, {})["id"] = number
        self._events[-1]["bp"] = "e"

    def counter(self, pid: int, name: str, spans: Iterable[tuple[float, float]]) -> None:
        """Add the number of spans that last: it changes with the start and the end of each."""
        now = 0
        values = {0: 0}
        changes = [change for start, end in spans for change in ((start, 1), (max(end, start), -1))]
        for at, difference in sorted(changes):
            now += difference
            values[micros(at)] = now
        for at, value in values.items():
            self._event("C", Track(pid, 0), at, name, "", {name: value})

    def written(self) -> list[TraceEvent]:
        """Return all events, in the order of time."""
        return sorted(self._events, key=_place)

    def _name(self, pid: int, tid: int, what: str, name: str, *, order: int) -> None:
        for kind, args in ((f"{what}_name", {"name": careful(name)}), (f"{what}_sort_index", {"sort_index": order})):
            self._events.append({"ph": "M", "ts": 0, "pid": pid, "tid": tid, "name": kind, "args": args})

    def _event(self, phase: str, track: Track, at: int, name: str, kind: str, args: Mapping[str, Any]) -> TraceEvent:
        told = {key: without_secrets(value) for key, value in args.items() if value not in (None, "")}
        event: TraceEvent = {"ph": phase, "ts": at, "pid": track.pid, "tid": track.tid, "name": careful(name)}
        if kind:
            event["cat"] = kind
        if told:
            event["args"] = told
        self._events.append(event)
        return event


def _within(each: Slice, at: float) -> int | None:
    """Return the moment of a slice that is nearest to a time; its end is no part of it."""
    return None if each.end == each.start else min(max(micros(at), each.start), each.end - 1)


def _place(event: TraceEvent) -> tuple[int, int, int]:
    return event["ts"], _AT_ONE_INSTANT.get(event["ph"], _OTHERS), -event.get("dur", 0)


@dataclass(slots=True, kw_only=True)
class Slice:
    """A span of time in whole microseconds, with all worth knowing about it; ``key``: by which arrows find the slice.

    ``tone``: one of the format's names of colours, or "".
    """

    name: str
    kind: str
    start: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    tone: str = ""
    track: Track = _NOWHERE


class _Thread:
    """What is open on a thread, the outermost first. Slices come in the order of their starts."""

    def __init__(self) -> None:
        self._open: list[Slice] = []
        self.free = 0

    def takes(self, new: Slice) -> bool:
        """Take a slice, unless it would cross the end of one that is open."""
        while self._open and self._open[-1].end <= new.start:
            self._open.pop()
        if self._open and self._open[-1].end < new.end:
            return False
        self._open.append(new)
        self.free = max(self.free, new.end)
        return True


def pack(units: Iterable[Sequence[Slice]]) -> Iterator[tuple[int, Slice]]:
    """Yield each slice with the number of its thread, from 0.

    A unit has slices that belong together, such as an invocation and its parts. A unit has a thread for itself, from
    the first start to the last end. A slice that crosses the rest of its unit comes on another thread.
    """
    threads: list[_Thread] = []
    for unit in sorted((sorted(unit, key=_place_in_time) for unit in units), key=lambda unit: _place_in_time(unit[0])):
        start = unit[0].start
        free = [number for number, thread in enumerate(threads) if thread.free <= start]
        for each in unit:
            number = next((number for number in free if threads[number].takes(each)), len(threads))
            if number == len(threads):
                threads.append(_Thread())
                threads[number].takes(each)
                free.append(number)
            yield number, each


def _place_in_time(each: Slice) -> tuple[int, int]:
    return each.start, -each.end


_TONES: Final = {"lost": "bad", "killed": "bad", "crashed": "bad", "error": "bad"}
_NEAR: Final = 0.5
"""Seconds between a take-over in the verdict and the acquisition in the journals that it is."""


def trace_of(timeline: Timeline, verdict: Verdict) -> dict[str, Any]:
    """Return the trace of a run, as data for JSON."""
    told = {
        "program": PROGRAM,
        "verdict": verdict.verdict,
        "reasons": without_secrets(list(verdict.reasons)),
        "seed": verdict.seed,
        "seconds": round(timeline.duration, 3),
        "hosts": len(timeline.hosts),
        "locks": len(timeline.locks),
        "bodies": verdict.sections,
        "overlaps": len(verdict.overlaps),
        "singleton": verdict.singleton,
        "interrupted": verdict.interrupted,
    }
    return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": _Drawing(timeline).sheet.written()}


def written(trace: dict[str, Any]) -> str:
    """Return a trace as JSON in ASCII, with a line for each event."""
    head = {name: value for name, value in trace.items() if name != "traceEvents"}
    events = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in trace["traceEvents"])
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "traceEvents": [\n{events}\n]}}\n'


class _Drawing:
    """A sheet on which everything is drawn, from the top to the bottom."""

    def __init__(self, timeline: Timeline) -> None:
        self.sheet = Sheet()
        self._timeline = timeline
        self._lane = {life.name: lane.name for lane in timeline.hosts for life in lane.lives}
        self._bodies: dict[tuple[str, ...], list[Slice]] = defaultdict(list)
        self._draw_faults(self.sheet.process("faults"))
        self._draw_hosts()
        self._draw_locks(self.sheet.process("locks"))
        self._draw_arrows()

    def _draw_faults(self, pid: int) -> None:
        kinds: dict[str, list[Mark]] = defaultdict(list)
        for mark in self._timeline.marks:
            if mark.kind != "finding":
                kinds[mark.fault or mark.kind].append(mark)
        for kind, marks in kinds.items():
            lasting = [_slice(mark.what, kind, mark.at, mark.end, _about(mark)) for mark in marks]
            placed = self.sheet.threads(pid, kind, ([each] for each in lasting if each.end > each.start))
            track = placed[0].track if placed else self.sheet.thread(pid, kind)
            for mark in marks:
                if micros(mark.end) <= micros(mark.at):
                    scope = "g" if mark.kind == "healed" else "t"
                    self.sheet.instant(track, mark.at, mark.what, kind, _about(mark), scope)
        self.sheet.threads(pid, "overlaps", ([_of_overlap(each)] for each in self._timeline.overlaps))
        found = [trouble for trouble in self._timeline.troubles if trouble.at is not None]
        track = self.sheet.thread(pid, "findings") if found else Track(pid, 0)
        for trouble in found:
            about = {"check": trouble.check, "lock": trouble.lock, "host": trouble.host}
            self.sheet.instant(track, trouble.at or 0.0, trouble.text, "finding", about)

    def _draw_hosts(self) -> None:
        units = self._units()
        listeners: dict[str, list[Slice]] = defaultdict(list)
        for got in self._timeline.holdings:
            if got.mode == "listener":
                name, span = f"listens: {label(got.lock)}", (got.t, got.until)
                listeners[self._lane_of(got.host)].append(_of_deed(got, name, "listener", span, "lock token ending"))
        marks: dict[str, list[Mark]] = defaultdict(list)
        for mark in self._timeline.marks:
            for host in {self._lane_of(host) for host in mark.hosts}:
                marks[host].append(mark)
        names = dict.fromkeys([*(lane.name for lane in self._timeline.hosts), *sorted(units), *sorted(listeners)])
        lives = {lane.name: lane.lives for lane in self._timeline.hosts}
        busy = {*listeners, *marks, *(self._lane_of(body.host) for body in self._timeline.bodies)}
        quiet = [name for name in names if name not in busy]
        folded = quiet if len(quiet) >= FOLDED else []
        for name in (name for name in names if name not in folded):
            pid = self.sheet.process(name)
            track = self.sheet.thread(pid, "process")
            for life in lives.get(name, ()):
                told = {"pid": life.pid or None, "ended": life.ended}
                self.sheet.slice(track, _slice(life.name, "process", life.start, life.end, told))
            for mark in marks[name]:
                self.sheet.instant(track, mark.at, mark.what, mark.fault or mark.kind, _about(mark))
            placed = self.sheet.threads(pid, "listener", ([each] for each in listeners[name]))
            placed += self.sheet.threads(pid, "invocations", units.get(name, {}).values())
            for each in placed:
                if each.key:
                    self._bodies[each.key].append(each)
        if folded:
            self._draw_folded(folded)

    def _draw_folded(self, quiet: Sequence[str]) -> None:
        """Draw hosts that never ran a body, and to which nothing happened, as one: their invocations as a number."""
        name = ran_no_body(len(quiet))
        pid = self.sheet.process(name)
        lives = [life for lane in self._timeline.hosts if lane.name in quiet for life in lane.lives]
        start, end = min((life.start for life in lives), default=0.0), max((life.end for life in lives), default=0.0)
        whole = _slice(name, "process", start, end, {"hosts": [*quiet]})
        self.sheet.slice(self.sheet.thread(pid, "process"), whole)
        calls = [call for call in self._timeline.invocations if self._lane_of(call.host) in quiet]
        self.sheet.counter(pid, "invocations", ((call.start, min(call.end, end)) for call in calls))

    def _units(self) -> dict[str, dict[tuple[str, str], list[Slice]]]:
        """Return for each host's lane what it did, the parts of each invocation together."""
        units: dict[str, dict[tuple[str, str], list[Slice]]] = defaultdict(lambda: defaultdict(list))
        for call in self._timeline.invocations:
            told = {"invocation": call.id, "message": call.message, "ending": call.ending, "host": call.host}
            told["error"] = call.error.partition(":")[0]  # its text may hold what nobody else should read
            drawn = _slice(call.function, "invocation", call.start, call.end, told, tone=_TONES.get(call.ending, ""))
            units[self._lane_of(call.host)][call.host, call.id].append(drawn)
        for wait in self._timeline.waits:
            if micros(wait.end) > micros(wait.start) and wait.owner:
                name, span = f"waits for {label(wait.lock)}", (wait.start, wait.end)
                drawn = _of_deed(wait, name, "wait", span, "lock ending", tone="")
                units[self._lane_of(wait.host)][wait.host, wait.owner].append(drawn)
        for body in self._timeline.bodies:
            span = (body.start, body.end)
            drawn = _of_deed(body, label(body.lock), "body", span, "lock token owner ending held")
            units[self._lane_of(body.host)][body.host, body.owner].append(drawn)
        return units

    def _lane_of(self, host: str) -> str:
        return self._lane.get(host, host)

    def _draw_locks(self, pid: int) -> None:
        held: dict[str, list[Slice]] = defaultdict(list)
        for got in self._timeline.holdings:
            about = "host token owner ending lock"
            held[got.lock].append(_of_deed(got, got.host, "hold", (got.t, got.until), about))
        for body in self._timeline.bodies:
            if not body.held:
                name, span = f"{body.host}, without the lock", (body.start, body.end)
                held[body.lock].append(_of_deed(body, name, "no hold", span, "host owner ending lock", tone="terrible"))
        leases: dict[str, list[Lease]] = defaultdict(list)
        for lease in self._timeline.leases:
            leases[lease.lock].append(lease)
        for lane in self._timeline.locks:
            placed = self.sheet.threads(pid, lane.label, ([each] for each in held[lane.lock]))
            if not (placed or leases[lane.lock]):
                continue
            track = placed[0].track if placed else self.sheet.thread(pid, lane.label)
            for lease in leases[lane.lock]:
                moments = [*((at, "renewed") for at in lease.renewed), *((at, "refused") for at in lease.refused)]
                if lease.ending in {"expired", "broken"}:
                    moments.append((lease.end, lease.ending))
                for at, what in moments:
                    self.sheet.instant(track, at, f"lease {what}", "lease", {"host": lease.host, "blob": lease.blob})
        end, waits, bodies = self._timeline.duration, self._timeline.waits, self._timeline.bodies
        self.sheet.counter(pid, "waiting", ((wait.start, wait.end) for wait in waits))
        self.sheet.counter(pid, "inside", ((body.start, body.end) for body in bodies))
        sent = ((each.sent, end if each.done is None else each.done) for each in self._timeline.messages)
        self.sheet.counter(pid, "messages under way", sent)

    def _draw_arrows(self) -> None:
        for over in self._timeline.handovers:
            giver = self._find(over.giver, over.lock, over.owners[0], over.since)
            taker = self._find(over.taker, over.lock, over.owners[1], over.at)
            if giver is None or taker is None or giver is taker:
                continue
            if self._is_takeover(over):
                kind = "take-over"
            else:
                kind = "hand-over" if over.giver != over.taker else "hand-over within a host"
            self.sheet.arrow((giver, over.since), (taker, over.at), f"{kind} of {label(over.lock)}", kind)

    def _is_takeover(self, over: Handover) -> bool:
        return any(
            (each.lock, each.victim, each.by) == (over.lock, over.giver, over.taker)
            and each.taken is not None
            and abs(each.taken - over.at) < _NEAR
            for each in self._timeline.takeovers
        )

    def _find(self, host: str, lock: str, owner: str, at: float) -> Slice | None:
        """Return the slice of an invocation under a lock: the last that began by then, else the first."""
        several = self._bodies.get((host, lock, owner), ())
        begun = [each for each in several if each.start <= micros(at)]
        return begun[-1] if begun else next(iter(several), None)


def _about(mark: Mark) -> dict[str, Any]:
    told = {"hosts": list(mark.hosts) or None, "lock": mark.lock, "invocation": mark.owner, "id": mark.id or None}
    return {**told, "hits": mark.hits or None}


def _of_overlap(each: OverlapSpan) -> Slice:
    what = "caught overlap" if each.caught else "OVERLAP"
    name = f"{what} in {label(each.lock)}: {' and '.join(each.hosts)}"
    told = {"lock": each.lock, "hosts": list(each.hosts), "invocations": list(each.owners)}
    return _slice(name, "overlap", each.start, each.end, told, tone="" if each.caught else "terrible")


def _of_deed(
    deed: Section | Wait | Acquisition,
    name: str,
    kind: str,
    span: tuple[float, float],
    about: str,
    tone: str | None = None,
) -> Slice:
    """Make a slice of an action on a lock; ``about`` lists what is told of it."""
    told = {"invocation" if field == "owner" else field: getattr(deed, field) for field in about.split()}
    key = (deed.host, deed.lock, deed.owner) if kind in {"body", "listener"} else ()
    return _slice(name, kind, *span, told, key=key, tone=_TONES.get(deed.ending, "") if tone is None else tone)


def _slice(
    name: str,
    kind: str,
    start: float,
    end: float,
    args: Mapping[str, Any],
    *,
    key: tuple[str, ...] = (),
    tone: str = "",
) -> Slice:
    """Make a slice of times in seconds; an end before the start counts as the start."""
    begin = micros(start)
    return Slice(name=name, kind=kind, start=begin, end=max(micros(end), begin), args=args, key=key, tone=tone)


def write_trace(file: OutFile, records: Sequence[Record], verdict: Verdict) -> None:
    """Write the trace of a run, from its records and what `judge` made of them.

    Raises:
        OutFileError: the file can't be written any more.
    """
    file.write(written(trace_of(build_timeline(records, verdict), verdict)))
