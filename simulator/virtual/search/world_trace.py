"""The trace of a virtual world: the timeline is that of its report, its faults and broken promises too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.checks.verdict import judge
from simulator.history.historian import read_history
from simulator.report.trace.drawing import trace_of, written
from simulator.report.trace.sheet import clean
from simulator.virtual.search.story_report import of_story
from simulator.virtual.worlds.outcome import told

if TYPE_CHECKING:
    from simulator.report.files import OutFile
    from simulator.virtual.search.world_scenario import WorldScenario
    from simulator.virtual.worlds.outcome import Run


def write_story_trace(file: OutFile, scenario: WorldScenario, run: Run) -> None:
    """Write the trace of a world that has run.

    Raises:
        OutFileError: the file can't be written any more.
    """
    records = told(run.records)
    timeline = of_story(scenario, run, (), "").timeline
    trace = trace_of(timeline, read_history(records), judge(records))
    trace["otherData"] |= {"workload": scenario.workload, "seed": scenario.seed, "history": run.history}
    if run.violations:
        trace["otherData"] |= {"verdict": "violated", "reasons": clean([each.text for each in timeline.troubles])}
    file.write(written(trace))
