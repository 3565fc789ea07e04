"""The HTML report and the trace of a virtual world: the timeline of a real run, with the faults and broken promises.

And the story of a world: its events, in words that a reader can follow.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count, label
from simulator.checks.verdict import judge
from simulator.history.journal import Record
from simulator.report.html.html_report import ReportContent, facts_of
from simulator.report.timeline.build import build_timeline, without_secrets
from simulator.report.timeline.timeline import BrokenPromise, Mark, MarkKind, Timeline
from simulator.report.trace import trace_of, written
from simulator.report.words import Line
from simulator.virtual import oracle
from simulator.virtual.http import virtual_wire
from simulator.virtual.search.narrative.choice import names_of_locks, read_tale
from simulator.virtual.search.narrative.lines import tell_lines
from simulator.virtual.search.tried import tried
from simulator.virtual.worlds import logs, world
from simulator.virtual.worlds.outcome import told
from simulator.virtual.worlds.registry import names, workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simulator.report.files import OutFile
    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.search.exploration import Exploration, Summary
    from simulator.virtual.search.world_scenario import WorldScenario
    from simulator.virtual.worlds.outcome import Run


LONGEST: Final = 40
"""The greatest number of lines of a story, if possible."""
_FRAME: Final = 5
"""Lines of a story before and after the broken promise."""
_NAMED_PLACES: Final = 3
_PAD: Final = " " * 11
_LOCK: Final = re.compile(r"locks/[^\s,;:]*[^\s,;:.]")


def tell(scenario: WorldScenario, run: Run) -> list[str]:
    """Return the story of a run, a line each."""
    calm = [] if scenario.faults else ["No fault strikes."]
    way = ", through the SDK" if scenario.sdk else ", over the virtual wire" if scenario.wire else ""
    setting = f"{'your app' if scenario.app else f'workload {scenario.workload!r}'}{way}, seed {scenario.seed}."
    if not run.violations:
        told = [f"{fault.at:9.3f} s  {fault.words()}." for fault in scenario.faults]
        return [f"{count(scenario.hosts, 'host')}, {setting}", *calm, *told, "Every promise was kept."]
    first = run.violations[0]
    story = tell_lines(read_tale(run.records, first), most=LONGEST - _FRAME)
    lines = [f"{_cast(scenario.hosts, sorted(story.hosts))}, {setting}", *calm]
    lines += [f"{at:9.3f} s  {text}." for at, text in story.lines]
    lines.append(_broken(first, names_of_locks(run.records)))
    if promise := promises().get(first.check):
        lines.append(f"{_PAD}What must not be: {promise}.")
    if len(run.violations) > 1:
        lines.append(f"{_PAD}And {len(run.violations) - 1} more after it.")
    return lines


def _cast(hosts: int, matter: list[str]) -> str:
    if hosts == 1:
        return "1 host"
    if len(matter) == hosts:
        return f"{hosts} hosts, which all matter here"
    if not matter:
        return f"{hosts} hosts, none of which is named"
    named = f" ({', '.join(matter)})" if len(matter) <= _NAMED_PLACES else ""
    return f"{hosts} hosts, of which {len(matter)} matter{'s' if len(matter) == 1 else ''} here{named}"


def gone(violation: Violation, *, app: bool) -> list[str]:
    """Return the text for a broken promise that was kept when its world ran again."""
    lines = [
        _broken(violation, ()),
        "It did not come back: the same world was run again, and every promise was kept. There is no story to replay.",
    ]
    if app:
        lines.append(
            "The app's bodies do not do the same each time: they may depend on files, on what the app remembers from "
            "one call to the next, on chance, on the real time or on the network."
        )
    return lines


def _broken(violation: Violation, locks: Iterable[str]) -> str:
    text = _LOCK.sub(lambda lock: label(lock[0]), _plain(violation.text, {lock: label(lock) for lock in locks}))
    return f"{violation.at:9.3f} s  BROKEN ({violation.check}): {text}."


def promises() -> dict[str, str]:
    """Return what each check of the workloads and of the oracle says must not be, by the name of the check."""
    modules = [module for name in names() for module in workload(name).checks]
    modules += [f"{oracle.__name__}.{each.name}" for each in iter_modules(oracle.__path__) if each.name != "evidence"]
    pages = [*map(_docstring, modules), *(module.__doc__ or "" for module in (logs, virtual_wire, world))]
    return dict(re.findall(r"^ *([a-z]+(?: [a-z]+)*) {2,}(\S.*)$", "\n".join(pages), re.MULTILINE))


@cache
def _docstring(module: str) -> str:
    """Return the docstring of a module, without an import of the module: some need packages that are not installed."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


_OF_FLEETS: Final = frozenset({"activity", "liveness", "renewals"})
"""Checks that read what a fleet of real hosts writes down; a world has no such records."""
_HOST: Final = re.compile(r"\bhost-[0-9]+")
_NAMED: Final = re.compile(r"<(host-[0-9]+)>")


def of_story(scenario: WorldScenario, run: Run, lines: Sequence[str], again: str) -> ReportContent:
    """Make the report of a world; ``lines`` are its story in words."""
    records = [*told(run.records), Record(run.seconds, "world", "run_ended")]
    verdict = judge(records)
    requests = [record for record in run.records if record.event == "request"]
    timeline = build_timeline(
        [*records, *requests],
        verdict,
        hosts=[f"host-{number}" for number in range(scenario.hosts)],
        faults=[_mark("fault", fault.at, fault.ends, fault.words(), fault=fault.kind) for fault in scenario.faults],
    )
    names = {lane.lock: lane.label for lane in timeline.locks}
    what = f"your app in {Path(scenario.app).name}" if scenario.app else f"workload {scenario.workload!r}"
    world = f"a virtual world: {what}, {count(scenario.hosts, 'host')}, {count(len(scenario.faults), 'fault')}"
    findings = [
        _mark(
            "finding", each.at, each.at, f"BROKEN ({each.check}): {_plain(each.text, names)}", lock=_lock(each, names)
        )
        for each in run.violations
    ]
    headline = Line("good", "Every promise was kept in this world.")
    if findings:
        headline = Line("bad", f"{findings[0].what}.")
    facts = [fact for fact in facts_of(verdict) if fact[0] not in {"hosts", "kills"}]
    return ReportContent(
        title=f"singleton-sim, {world}, seed {scenario.seed}",
        headline=headline,
        lines=[
            Line("note", "Time is virtual here, and an oracle knows what the service knows."),
            Line("note", "The oracle judges. The checks below are those of a run on real hosts, and see less."),
        ],
        facts=[("hosts", str(scenario.hosts)), ("faults", str(len(scenario.faults))), *facts],
        timeline=replace(
            timeline,
            troubles=tuple(_trouble(violation, names) for violation in run.violations),
            marks=tuple(sorted([*timeline.marks, *findings], key=lambda mark: mark.at)),
        ),
        checks=[each for each in verdict.checks if each.name not in _OF_FLEETS and any(each.looked_at.values())],
        story=lines,
        again=again,
    )


def outcome(summary: Summary) -> Line:
    """Say in a line what an exploration without a broken promise has shown."""
    if summary.reached["bodies"]:
        return Line("good", "No promise was broken.")
    return Line(
        "note",
        "Nothing was shown of the lock, because no guarded body ran in any world. Functions on timers and storage "
        "queues run here, and none of them got to a guarded function: let one call it, or try the app with "
        "singleton-sim run.",
    )


def of_exploration(plan: Exploration, summary: Summary, lines: Sequence[str], *, broken: str = "") -> ReportContent:
    """Make the report of an exploration without a story: nothing was found, or it did not come back."""
    headline = Line("bad", f"{broken} It did not come back.") if broken else outcome(summary)
    faults = sum(many for name, many in summary.reached.items() if name.startswith("fault: "))
    return ReportContent(
        title=f"singleton-sim explore, seed {plan.seed}",
        headline=headline,
        lines=[Line("note", line) for line in (*lines, *tried(plan, summary))],
        facts=[
            ("virtual worlds", f"{summary.scenarios:,}"),
            ("virtual hours", f"{summary.virtual_seconds / 3600:,.1f}"),
            ("faults", f"{faults:,}"),
            ("bodies", f"{summary.reached['bodies']:,}"),
            ("seconds", f"{summary.elapsed:.0f}"),
        ],
        timeline=Timeline(duration=0.0, hosts=(), locks=()),
    )


def _mark(kind: MarkKind, at: float, end: float, what: str, *, lock: str = "", fault: str = "") -> Mark:
    hosts = tuple(dict.fromkeys(_HOST.findall(what)))
    return Mark(kind=kind, at=at, end=max(end, at), what=what, hosts=hosts, lock=lock, fault=fault)


def _trouble(violation: Violation, names: Mapping[str, str]) -> BrokenPromise:
    text = f"{violation.check}: {_plain(violation.text, names)}"
    return BrokenPromise(check=violation.check, text=text, at=violation.at, lock=_lock(violation, names))


def _lock(violation: Violation, names: Mapping[str, str]) -> str:
    return max((lock for lock in names if lock in violation.text), key=len, default="")


def _plain(text: str, names: Mapping[str, str]) -> str:
    for lock in sorted(names, key=len, reverse=True):
        text = text.replace(lock, names[lock])
    return _NAMED.sub(r"\1", text)


def write_story_trace(file: OutFile, scenario: WorldScenario, run: Run) -> None:
    """Write the trace of a world that has run.

    Raises:
        OutFileError: the file can't be written any more.
    """
    records = told(run.records)
    timeline = of_story(scenario, run, (), "").timeline
    trace = trace_of(timeline, judge(records))
    trace["otherData"] |= {"workload": scenario.workload, "seed": scenario.seed, "history": run.history}
    if run.violations:
        trace["otherData"] |= {
            "verdict": "violated",
            "reasons": without_secrets([each.text for each in timeline.troubles]),
        }
    file.write(written(trace))
