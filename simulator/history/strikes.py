"""Read what was done to hosts and locks from outside: pauses, leases that operators ended, the faults of a nemesis."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulator.faults.real import KINDS
from simulator.history.deeds import about_of
from simulator.history.facts import Drain, Held
from simulator.history.journal import Record
from simulator.history.outages import PauseSpan, Strike

if TYPE_CHECKING:
    from simulator.history.facts import History


class Strikes:
    """Reads the fleet's records of strikes into a history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def take(self, record: Record) -> None:
        """Take a record; those that are about something else are skipped."""
        getattr(self, f"_on_{record.event}", lambda _: None)(record)

    def _on_pause(self, record: Record) -> None:
        self._history.pauses.append(PauseSpan(host=record.host, start=record.t))

    def _on_resume(self, record: Record) -> None:
        for pause in self._history.pauses:
            if pause.host == record.host and pause.end == math.inf:
                pause.end = record.t

    def _on_operator(self, record: Record) -> None:
        self._history.operated.append((record.t, record.text("lock")))

    def _on_fault(self, record: Record) -> None:
        if record.get("id") is None:
            return  # one of a virtual world: there any fault excuses what it may cause (`History.rough`)
        kind = record.text("kind")
        told: dict[str, Any] = {name: record.text(name) for name in ("lock", "way", "aim", "meant", "what")}
        fault = Strike(
            id=int(record.get("id")),
            kind=kind if kind in KINDS else "unknown",
            hosts=tuple(record.get("hosts") or ()),
            start=record.t,
            seconds=record.get("seconds"),
            **told,
        )
        self._history.faults.append(fault)

    def _on_fault_ended(self, record: Record) -> None:
        number, hits = int(record.get("id") or 0), int(record.get("hits") or 0)
        faults = self._history.faults
        for place, fault in enumerate(faults):
            if fault.id == number:
                faults[place] = replace(fault, end=record.t, hits=hits)

    def _on_queue_unreachable(self, record: Record) -> None:
        self._history.unreachable.setdefault((record.host, record.text("queue")), record.t)

    def _on_queue_reached(self, record: Record) -> None:
        self._history.unreachable.pop((record.host, record.text("queue")), None)

    def _on_host_stopping(self, record: Record) -> None:
        self._history.stopping[record.host] = record.t

    def _on_healed(self, record: Record) -> None:
        self._history.healed = record.t

    def _on_host_restarted(self, record: Record) -> None:
        self._history.restarted[record.host] = record.text("after")

    def _on_host_draining(self, record: Record) -> None:
        self._history.drains.append(Drain(t=record.t, host=record.host, holds=holds_of(record)))


def holds_of(record: Record) -> tuple[Held, ...]:
    """Return what a host held when it was killed or drained, as the fleet wrote it down."""
    holds = (Record(record.t, record.host, "held", hold) for hold in record.get("holds") or ())
    return tuple(Held(t=hold.t, token=hold.get("token"), **about_of(hold)) for hold in holds)
