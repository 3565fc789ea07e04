"""Tell what happened in a world, in words that somebody can follow."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count, label
from simulator.virtual.oracle import blob_records, callers, conduct, listeners, oracle, takeovers
from simulator.virtual.search.narrative.choice import names_of_locks, read_tale
from simulator.virtual.search.narrative.lines import tell_lines
from simulator.virtual.search.registry import names, workload
from simulator.virtual.worlds import logs, world

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.search.world_scenario import WorldScenario
    from simulator.virtual.worlds.outcome import Run

LONGEST: Final = 40
"""The greatest number of lines of a story, if possible."""
_FRAME: Final = 5
"""Lines of it before what happens and after it."""
_NAMED: Final = 3
_PAD: Final = " " * 11
_LOCK: Final = re.compile(r"locks/[^\s,;:]*[^\s,;:.]")
_HOST: Final = re.compile(r"<(host-\d+)>")


def tell(scenario: WorldScenario, run: Run) -> list[str]:
    """Return the story of a run, a line each."""
    calm = [] if scenario.faults else ["No fault strikes."]
    setting = f"{'your app' if scenario.app else f'workload {scenario.workload!r}'}, seed {scenario.seed}."
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
    """Say how many hosts there are, and which of them matter."""
    if hosts == 1:
        return "1 host"
    if len(matter) == hosts:
        return f"{hosts} hosts, which all matter here"
    if not matter:
        return f"{hosts} hosts, none of which is named"
    named = f" ({', '.join(matter)})" if len(matter) <= _NAMED else ""
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
    text = _HOST.sub(r"\1", violation.text)
    for lock in sorted(locks, key=len, reverse=True):
        text = text.replace(lock, label(lock))
    text = _LOCK.sub(lambda lock: label(lock[0]), text)
    return f"{violation.at:9.3f} s  BROKEN ({violation.check}): {text}."


def promises() -> dict[str, str]:
    """Return what each check of the workloads and of the oracle says must not be, by the name of the check."""
    modules = [module for name in names() for module in workload(name).checks]
    of_all = (logs, world, conduct, callers, listeners, blob_records, takeovers, oracle)
    pages = [*map(_docstring, modules), *(module.__doc__ or "" for module in of_all)]
    return dict(re.findall(r"^ *([a-z]+(?: [a-z]+)*) {2,}(\S.*)$", "\n".join(pages), re.MULTILINE))


@cache
def _docstring(module: str) -> str:
    """Return the docstring of a module, without an import of the module: some need packages that are not installed."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
