"""Make a timeline from the records of a run and its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.history.historian import read_history
from simulator.history.journal import in_order
from simulator.report.timeline.calls import count_calls
from simulator.report.timeline.lanes import read_hosts, read_locks
from simulator.report.timeline.leases import read_leases
from simulator.report.timeline.marks import read_handovers, read_marks, read_overlaps, read_takeovers
from simulator.report.timeline.messages import read_messages
from simulator.report.timeline.model import Body, Holding, Mark, Timeline, Waiting
from simulator.report.timeline.notes import read_notes
from simulator.report.timeline.troubles import read_troubles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Acquisition, History, Section, Wait
    from simulator.history.journal import Record


def build_timeline(
    records: Iterable[Record], verdict: Verdict, *, hosts: Sequence[str] = (), faults: Sequence[Mark] = ()
) -> Timeline:
    """Return the timeline of a run.

    Args:
        records: all of its records, in any order.
        verdict: what `judge` made of them.
        hosts: names of hosts that may have said nothing.
        faults: faults of which the records don't tell.
    """
    told = in_order(records)
    history = read_history(told)
    leases = read_leases(history, told)
    start = history.start
    return Timeline(
        duration=max(history.end - start, 0.0),
        hosts=read_hosts(history, told, hosts),
        locks=read_locks(history, leases),
        bodies=tuple(sorted((_body(history, each) for each in history.bodies), key=_begin)),
        holdings=tuple(sorted((_holding(history, each) for each in history.acquisitions), key=_begin)),
        leases=leases,
        waits=tuple(sorted((_waiting(history, each) for each in history.waits), key=_begin)),
        marks=read_marks(history, told, leases, faults),
        overlaps=read_overlaps(verdict),
        takeovers=read_takeovers(verdict),
        handovers=read_handovers(history),
        messages=read_messages(history, told),
        troubles=read_troubles(history, verdict),
        notes=tuple(read_notes(told, start)),
        calls=count_calls(told),
    )


def _begin(span: Body | Holding | Waiting) -> tuple[float, str]:
    return span.start, span.owner


def _body(history: History, body: Section) -> Body:
    return Body(**_span(history, body, body.start, body.end), token=body.token, held=body.held)


def _holding(history: History, got: Acquisition) -> Holding:
    return Holding(**_span(history, got, got.t, got.until), token=got.token, mode=got.mode)


def _waiting(history: History, wait: Wait) -> Waiting:
    return Waiting(**_span(history, wait, wait.start, wait.end))


def _span(history: History, deed: Section | Acquisition | Wait, start: float, end: float) -> dict[str, Any]:
    about = {name: getattr(deed, name) for name in ("lock", "host", "function", "owner", "ending")}
    return {**about, "start": start - history.start, "end": min(end, history.end) - history.start}
