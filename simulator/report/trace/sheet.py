"""Chrome's trace event format: processes, threads, slices, instants, arrows and counters.

The format is described in https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are
whole microseconds. Only complete slices are used (``X``), never a begin without its end. Thread numbers are unique in
the whole file, because some readers know a thread by its number alone.

Slices share as few threads as possible: the slices of a thread lie beside or within each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


TraceEvent = dict[str, Any]
_MICRO: Final = 1e6
_AT_ONE_INSTANT: Final = {"M": 0, "X": 1, "s": 2, "f": 3}
"""Slices come before the arrows that begin or end in them."""
_OTHERS: Final = 4


def micros(seconds: float) -> int:
    """Return a time in whole microseconds."""
    return max(round(seconds * _MICRO), 0)


@lru_cache(maxsize=65536)
def _redacted(text: str) -> str:
    return redact(text)


def clean(value: Any) -> Any:
    """Return an argument without keys and signatures."""
    if isinstance(value, str):
        return _redacted(value)
    return [clean(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Track:
    """A thread of a process."""

    pid: int
    tid: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A slice on its thread."""

    track: Track
    slice: Slice


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

    def threads(self, pid: int, names: Sequence[str], packed: Iterable[tuple[int, Slice]]) -> list[Placed]:
        """Add slices on numbered threads. Each has a name of its own; those beyond are called after the last one."""
        tracks: list[Track] = []
        placed = []
        for number, each in packed:
            while len(tracks) <= number:
                named = len(tracks) < len(names)
                title = names[len(tracks)] if named else f"{names[-1]} ({len(tracks) - len(names) + 2})"
                tracks.append(self.thread(pid, title))
            placed.append(self.slice(tracks[number], each))
        return placed

    def slice(self, track: Track, each: Slice) -> Placed:
        """Add something that lasted."""
        event = self._event("X", track, each.start, each.name, each.kind, each.args)
        event["dur"] = each.end - each.start
        if each.tone:
            event["cname"] = each.tone
        return Placed(track, each)

    def instant(self, track: Track, at: float, name: str, kind: str, args: Mapping[str, Any], scope: str = "t") -> None:
        """Add something that happened at a moment; ``scope``: ``t`` for its thread, ``p`` process, ``g`` everything."""
        self._event("i", track, micros(at), name, kind, args)["s"] = scope

    def arrow(self, since: tuple[Placed, float], until: tuple[Placed, float], name: str, kind: str) -> bool:
        """Draw an arrow from a moment in one slice to a moment in another; false if it would go back in time."""
        begin, end = _within(*since), _within(*until)
        if begin is None or end is None or end < begin:
            return False
        number = next(self._numbers["flow"])
        for phase, (placed, _), at in (("s", since, begin), ("f", until, end)):
            self._event(phase, placed.track, at, name, kind, {})["id"] = number
        self._events[-1]["bp"] = "e"
        return True

    def counter(self, pid: int, name: str, changes: Iterable[tuple[float, int]]) -> None:
        """Add a number that changes: each moment with the difference it makes."""
        now = 0
        values = {0: 0}
        for at, difference in sorted(changes):
            now += difference
            values[micros(at)] = now
        for at, value in values.items():
            self._event("C", Track(pid, 0), at, name, "", {name: value})

    def written(self) -> list[TraceEvent]:
        """Return all events, in the order of time."""
        return sorted(self._events, key=_place)

    def _name(self, pid: int, tid: int, what: str, name: str, *, order: int) -> None:
        for kind, args in ((f"{what}_name", {"name": _redacted(name)}), (f"{what}_sort_index", {"sort_index": order})):
            self._events.append({"ph": "M", "ts": 0, "pid": pid, "tid": tid, "name": kind, "args": args})

    def _event(self, phase: str, track: Track, at: int, name: str, kind: str, args: Mapping[str, Any]) -> TraceEvent:
        told = {key: clean(value) for key, value in args.items() if value not in (None, "")}
        event: TraceEvent = {"ph": phase, "ts": at, "pid": track.pid, "tid": track.tid, "name": _redacted(name)}
        if kind:
            event["cat"] = kind
        if told:
            event["args"] = told
        self._events.append(event)
        return event


def _within(placed: Placed, at: float) -> int | None:
    """Return the moment of a slice that is nearest to a time; its end is no part of it."""
    last = placed.slice.end - 1
    return None if last < placed.slice.start else min(max(micros(at), placed.slice.start), last)


def _place(event: TraceEvent) -> tuple[int, int, int]:
    return event["ts"], _AT_ONE_INSTANT.get(event["ph"], _OTHERS), -event.get("dur", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Something that lasted, in whole microseconds, with what is worth knowing about it.

    Attributes:
        key: the key by which arrows find the slice; empty for a slice without arrows.
        tone: one of the format's names of colours, or "".
    """

    name: str
    kind: str
    start: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    tone: str = ""


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

    A unit is what belongs together, such as an invocation and all that is within it. It has its thread for itself, from
    its first start to its last end. What crosses the rest of its unit comes on another thread.
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
