"""Draw a run as a trace: a process for each host, one with all locks, one with the faults and what was found.

A host's threads are no threads of its process: invocations that run at the same time are drawn below each other. An
arrow leads from the body whose lock was handed on, or taken over, to the body that got it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.findings import label
from simulator.history.historian import read_history
from simulator.report.timeline.build import build_timeline
from simulator.report.trace.sheet import Placed, Sheet, Slice, clean, micros, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import History, Invocation
    from simulator.history.journal import Record
    from simulator.report.files import OutFile
    from simulator.report.timeline.timeline import (
        BodySpan,
        Handover,
        HoldSpan,
        LeaseSpan,
        Mark,
        OverlapSpan,
        Timeline,
        WaitSpan,
    )


PROGRAM: Final = "singleton-sim"
_TONES: Final = {"lost": "bad", "killed": "bad", "crashed": "bad", "error": "bad"}
_OF_ALL: Final = frozenset({"healed"})
_NEAR: Final = 0.5
"""Seconds between a take-over in the verdict and the acquisition in the journals that it is."""
_LEFT_OUT: Final = frozenset({"finding"})


def trace_of(timeline: Timeline, history: History, verdict: Verdict) -> dict[str, Any]:
    """Return the trace of a run, as data for JSON."""
    drawing = _Drawing(timeline, history)
    drawing.draw()
    told = {
        "program": PROGRAM,
        "verdict": verdict.verdict,
        "reasons": clean(list(verdict.reasons)),
        "seed": verdict.seed,
        "seconds": round(timeline.duration, 3),
        "hosts": len(timeline.hosts),
        "locks": len(timeline.locks),
        "bodies": verdict.sections,
        "overlaps": len(verdict.overlaps),
        "singleton": verdict.singleton,
        "interrupted": verdict.interrupted,
    }
    return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": drawing.sheet.written()}


def written(trace: dict[str, Any]) -> str:
    """Return a trace as JSON in ASCII, with a line for each event."""
    head = {name: value for name, value in trace.items() if name != "traceEvents"}
    events = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in trace["traceEvents"])
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "traceEvents": [\n{events}\n]}}\n'


class _Drawing:
    def __init__(self, timeline: Timeline, history: History) -> None:
        self.sheet = Sheet()
        self._timeline = timeline
        self._history = history
        self._lane = {life.name: lane.name for lane in timeline.hosts for life in lane.lives}
        self._bodies: dict[tuple[str, ...], list[Placed]] = defaultdict(list)

    def draw(self) -> None:
        """Draw everything, from the top to the bottom."""
        self._draw_faults()
        self._draw_hosts()
        self._draw_locks()
        self._draw_arrows()

    # -- faults, and what was found ------------------------------------------------------------------

    def _draw_faults(self) -> None:
        pid = self.sheet.process("faults")
        kinds: dict[str, list[Mark]] = defaultdict(list)
        for mark in self._timeline.marks:
            if mark.kind not in _LEFT_OUT:
                kinds[mark.fault or mark.kind].append(mark)
        for kind, marks in kinds.items():
            lasting = [mark for mark in marks if _lasts(mark)]
            placed = self.sheet.threads(pid, [kind], pack([_of_mark(mark)] for mark in lasting))
            track = placed[0].track if placed else self.sheet.thread(pid, kind)
            for mark in marks:
                if not _lasts(mark):
                    scope = "g" if mark.kind in _OF_ALL else "t"
                    self.sheet.instant(track, mark.at, mark.what, kind, _about(mark), scope)
        self._draw_findings(pid)

    def _draw_findings(self, pid: int) -> None:
        self.sheet.threads(pid, ["overlaps"], pack([_of_overlap(each)] for each in self._timeline.overlaps))
        found = [trouble for trouble in self._timeline.troubles if trouble.at is not None]
        if found:
            track = self.sheet.thread(pid, "findings")
            for trouble in found:
                about = {"check": trouble.check, "lock": trouble.lock, "host": trouble.host}
                self.sheet.instant(track, trouble.at or 0.0, trouble.text, "finding", about)

    # -- hosts -----------------------------------------------------------------------------------------

    def _draw_hosts(self) -> None:
        units = self._units()
        listeners: dict[str, list[Slice]] = defaultdict(list)
        for got in self._timeline.holdings:
            if got.mode == "listener":
                listeners[self._lane_of(got.host)].append(_of_listener(got))
        marks: dict[str, list[Mark]] = defaultdict(list)
        for mark in self._timeline.marks:
            for host in {self._lane_of(host) for host in mark.hosts}:
                marks[host].append(mark)
        names = dict.fromkeys([*(lane.name for lane in self._timeline.hosts), *sorted(units), *sorted(listeners)])
        lives = {lane.name: lane.lives for lane in self._timeline.hosts}
        for name in names:
            pid = self.sheet.process(name)
            track = self.sheet.thread(pid, "process")
            for life in lives.get(name, ()):
                told = {"pid": life.pid or None, "ended": life.ended}
                start, end = micros(life.start), micros(max(life.end, life.start))
                self.sheet.slice(track, Slice(name=life.name, kind="process", start=start, end=end, args=told))
            for mark in marks[name]:
                self.sheet.instant(track, mark.at, mark.what, mark.fault or mark.kind, _about(mark))
            self._keep(self.sheet.threads(pid, ["listener"], pack([each] for each in listeners[name])))
            self._keep(self.sheet.threads(pid, ["invocations"], pack(units.get(name, {}).values())))

    def _units(self) -> dict[str, dict[tuple[str, str], list[Slice]]]:
        """Return for each host's lane what it did, the parts of each invocation together."""
        units: dict[str, dict[tuple[str, str], list[Slice]]] = defaultdict(lambda: defaultdict(list))
        for call in self._history.invocations:
            units[self._lane_of(call.host)][call.host, call.id].append(self._of_call(call))
        for wait in self._timeline.waits:
            if micros(wait.end) > micros(wait.start) and wait.owner:
                units[self._lane_of(wait.host)][wait.host, wait.owner].append(_of_wait(wait))
        for body in self._timeline.bodies:
            units[self._lane_of(body.host)][body.host, body.owner].append(_of_body(body))
        return units

    def _of_call(self, call: Invocation) -> Slice:
        start = self._history.start
        told = {"invocation": call.id, "message": call.message, "ending": call.ending, "host": call.host}
        told["error"] = call.error.partition(":")[0]  # its text may hold what nobody else should read
        end = micros(min(call.end, self._history.end) - start)
        begin = micros(call.start - start)
        return Slice(
            name=call.function,
            kind="invocation",
            start=begin,
            end=max(end, begin),
            args=told,
            tone=_TONES.get(call.ending, ""),
        )

    def _lane_of(self, host: str) -> str:
        return self._lane.get(host, host)

    def _keep(self, placed: Iterable[Placed]) -> None:
        """Remember the slices that arrows begin and end in."""
        for each in placed:
            if each.slice.key:
                self._bodies[each.slice.key].append(each)

    # -- locks -----------------------------------------------------------------------------------------

    def _draw_locks(self) -> None:
        pid = self.sheet.process("locks")
        held: dict[str, list[Slice]] = defaultdict(list)
        for got in self._timeline.holdings:
            held[got.lock].append(_of_holding(got))
        for body in self._timeline.bodies:
            if not body.held:
                held[body.lock].append(_of_intruder(body))
        leases: dict[str, list[LeaseSpan]] = defaultdict(list)
        for lease in self._timeline.leases:
            leases[lease.lock].append(lease)
        for lane in self._timeline.locks:
            placed = self.sheet.threads(pid, [lane.label], pack([each] for each in held[lane.lock]))
            if not (placed or leases[lane.lock]):
                continue
            track = placed[0].track if placed else self.sheet.thread(pid, lane.label)
            for lease in leases[lane.lock]:
                about = {"host": lease.host, "blob": lease.blob}
                moments = [*((at, "renewed") for at in lease.renewed), *((at, "refused") for at in lease.refused)]
                if lease.ending in {"expired", "broken"}:
                    moments.append((lease.end, lease.ending))
                for at, what in moments:
                    self.sheet.instant(track, at, f"lease {what}", "lease", about)
        waits = self._timeline.waits
        self.sheet.counter(pid, "waiting", _changes((wait.start, wait.end) for wait in waits))
        self.sheet.counter(pid, "inside", _changes((body.start, body.end) for body in self._timeline.bodies))
        end = self._timeline.duration
        sent = ((each.sent, end if each.done is None else each.done) for each in self._timeline.messages)
        self.sheet.counter(pid, "messages under way", _changes(sent))

    # -- arrows ----------------------------------------------------------------------------------------

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

    def _find(self, host: str, lock: str, owner: str, at: float) -> Placed | None:
        """Return the slice of an invocation under a lock: the last that began by then, else the first."""
        several = self._bodies.get((host, lock, owner), ())
        begun = [each for each in several if each.slice.start <= micros(at)]
        return begun[-1] if begun else next(iter(several), None)


def _lasts(mark: Mark) -> bool:
    return micros(mark.end) > micros(mark.at)


def _about(mark: Mark) -> dict[str, Any]:
    told = {"hosts": list(mark.hosts) or None, "lock": mark.lock, "invocation": mark.owner, "id": mark.id or None}
    return {**told, "hits": mark.hits or None}


def _of_mark(mark: Mark) -> Slice:
    kind = mark.fault or mark.kind
    return Slice(name=mark.what, kind=kind, start=micros(mark.at), end=micros(mark.end), args=_about(mark))


def _of_overlap(each: OverlapSpan) -> Slice:
    what = "caught overlap" if each.caught else "OVERLAP"
    return Slice(
        name=f"{what} in {label(each.lock)}: {' and '.join(each.hosts)}",
        kind="overlap",
        start=micros(each.start),
        end=micros(each.end),
        args={"lock": each.lock, "hosts": list(each.hosts), "invocations": list(each.owners)},
        tone="" if each.caught else "terrible",
    )


def _of_wait(wait: WaitSpan) -> Slice:
    told = {"lock": wait.lock, "ending": wait.ending}
    name = f"waits for {label(wait.lock)}"
    return Slice(name=name, kind="wait", start=micros(wait.start), end=micros(wait.end), args=told)


def _of_body(body: BodySpan) -> Slice:
    told = {"lock": body.lock, "token": body.token, "invocation": body.owner, "ending": body.ending}
    return Slice(
        name=label(body.lock),
        kind="body",
        start=micros(body.start),
        end=micros(max(body.end, body.start)),
        args={**told, "held": body.held},
        key=(body.host, body.lock, body.owner),
        tone=_TONES.get(body.ending, ""),
    )


def _of_listener(got: HoldSpan) -> Slice:
    told = {"lock": got.lock, "token": got.token, "ending": got.ending}
    name, key = f"listens: {label(got.lock)}", (got.host, got.lock, got.owner)
    start, end = micros(got.start), micros(max(got.end, got.start))
    return Slice(name=name, kind="listener", start=start, end=end, args=told, key=key)


def _of_holding(got: HoldSpan) -> Slice:
    told = {"host": got.host, "token": got.token, "invocation": got.owner, "ending": got.ending, "lock": got.lock}
    start, end = micros(got.start), micros(max(got.end, got.start))
    return Slice(name=got.host, kind="hold", start=start, end=end, args=told, tone=_TONES.get(got.ending, ""))


def _of_intruder(body: BodySpan) -> Slice:
    told = {"host": body.host, "invocation": body.owner, "ending": body.ending, "lock": body.lock}
    start, end = micros(body.start), micros(max(body.end, body.start))
    name = f"{body.host}, without the lock"
    return Slice(name=name, kind="no hold", start=start, end=end, args=told, tone="terrible")


def _changes(spans: Iterable[tuple[float, float]]) -> Iterator[tuple[float, int]]:
    for start, end in spans:
        yield start, 1
        yield max(end, start), -1


def write_trace(file: OutFile, records: Sequence[Record], verdict: Verdict) -> None:
    """Write the trace of a run, from its records and what `judge` made of them.

    Raises:
        OutFileError: the file can't be written any more.
    """
    timeline = build_timeline(records, verdict)
    file.write(written(trace_of(timeline, read_history(records), verdict)))
