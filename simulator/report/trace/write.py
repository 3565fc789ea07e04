"""Write the trace of a run into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.history.historian import read_history
from simulator.report.timeline.build import build_timeline
from simulator.report.trace.document import trace_of, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.journal import Record
    from simulator.report.outfile import OutFile


def write_trace(file: OutFile, records: Sequence[Record], verdict: Verdict) -> None:
    """Write the trace of a run, from its records and what `judge` made of them.

    Raises:
        OutFileError: the file can't be written any more.
    """
    timeline = build_timeline(records, verdict)
    file.write(written(trace_of(timeline, read_history(records), verdict)))
