"""The lanes: hosts with their lives, locks with readable names."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import label
from simulator.report.timeline.model import HostLane, Life, LockLane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.history.facts import Deed, History
    from simulator.history.journal import Record
    from simulator.report.timeline.model import LeaseSpan

_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,15}(?:[.][0-9]{1,15})?)?", re.DOTALL)
_NOBODY: Final = frozenset({"fleet", "world", ""})
"""Who writes records and is no host."""


def read_hosts(history: History, records: Sequence[Record], more: Sequence[str] = ()) -> tuple[HostLane, ...]:
    """Return a lane for each host; a host that was started again keeps its lane. ``more``: hosts that said nothing."""
    begun: dict[str, float] = {}
    after: dict[str, str] = {}
    ends: dict[str, tuple[float, str]] = {}
    for record in records:
        if record.event == "host_restarted":
            after[record.host] = record.text("after")
        if record.host not in _NOBODY:
            begun.setdefault(record.host, record.t)
        if record.event == "host_exited":
            ends.setdefault(record.host, (record.t, "stopped" if record.get("expected") else "crashed"))
        elif record.event == "kill":
            ends[record.host] = (record.t, "killed")
    lanes: dict[str, list[Life]] = {name: [] for name in more}
    for name in sorted({*begun, *more}, key=natural):
        end, ended = ends.get(name, (history.end, "open"))
        life = Life(
            name=name,
            pid=history.hosts.get(name, 0),
            start=begun.get(name, history.start) - history.start,
            end=end - history.start,
            ended=ended,
        )
        lanes.setdefault(_first(name, after), []).append(life)
    return tuple(
        HostLane(name=name, lives=tuple(sorted(lives, key=lambda life: life.start)))
        for name, lives in sorted(lanes.items(), key=lambda item: natural(item[0]))
    )


def _first(name: str, after: dict[str, str]) -> str:
    """Return the name with which a host was started for the first time."""
    known = {name}
    while name in after and after[name] not in known:
        name = after[name]
        known.add(name)
    return name


def read_locks(history: History, leases: Iterable[LeaseSpan]) -> tuple[LockLane, ...]:
    """Return a lane for each lock that was used, those of one function together."""
    functions = dict.fromkeys((lease.lock for lease in leases), "")
    functions |= {deed.lock: deed.function for deed in _deeds(history) if deed.lock}
    same = Counter(map(label, functions))
    return tuple(
        LockLane(lock=lock, label=label(lock) if same[label(lock)] == 1 else lock, function=function)
        for lock, function in sorted(functions.items(), key=lambda item: (item[1], natural(item[0])))
    )


def _deeds(history: History) -> Iterator[Deed]:
    yield from history.refusals
    yield from history.waits
    yield from history.acquisitions
    yield from history.sections


def natural(name: str) -> tuple[str, float, str]:
    """Order names by the number at their end: ``host-2`` before ``host-10``.

    >>> sorted(["host-10", "host-2", "a"], key=natural)
    ['a', 'host-2', 'host-10']
    """
    stem, number = _NUMBERED.fullmatch(name).groups()  # type: ignore[union-attr]  # it matches every text
    return (stem, float(number or 0), name)
