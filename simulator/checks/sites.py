"""Several apps, folders or sites: one function's bodies on apps whose locks are different blobs.

No lock can keep these bodies apart. The app's setup is at fault, and the user must see that: by the id that Azure would
use for each app, as the run's setup has the ids.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.exclusion import overlapping, with_others
from simulator.checks.findings import Finding, count, label, unproven, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.history.facts import History, Section

_ID: Final = re.compile(r"\Alocks/[^/]+/")
_REMEDY: Final = (
    "If one at a time is wanted, set one hostId in the section singleton of each app's host.json "
    "(AzureFunctionsJobHost__singleton__hostId), and one storage account for the locks"
)


def judge_sites(history: History) -> Iterator[Finding]:
    """Find the bodies of one function, and of one value of its scope, that ran under the locks of two apps."""
    sites = {host: site for site in history.setup.get("sites") or () for host in site["hosts"]}
    if not sites:
        return
    blobs: dict[str, dict[str, Section]] = defaultdict(dict)  # by the lock's name without its id
    for section in history.sections:
        blobs[_named(section)].setdefault(sites[history.first(section.host)]["lock_id"], section)
    apart = {name for name, of in blobs.items() if len(of) > 1 and len({each.lock for each in of.values()}) > 1}
    met: dict[str, list[tuple[Section, Section]]] = defaultdict(list)
    for second, firsts in with_others(overlapping(history.sections, _named)):
        strangers = [first for first in firsts if first.lock != second.lock]
        if strangers and len(firsts) >= history.function(second.function).at_once:
            met[second.function].append((strangers[0], second))
    for function, pairs in sorted(met.items()):
        first, second = max(pairs, key=lambda pair: min(each.end for each in pair) - pair[1].start)
        names, ids = _told([sites[history.first(each.host)] for each in (first, second)])
        yield violation(
            f"{count(len(pairs), 'overlap')} of {function!r} between apps: {first.host} ({names[0]}) and {second.host} "
            f"({names[1]}) were both inside {label(second.lock)} for {min(first.end, second.end) - second.start:.2f} s "
            f"at {second.start - history.start:.1f} s. Each lock did its work, but in Azure they are two blobs: {ids}"
        )
    for name in sorted(apart):
        first, second = [*blobs[name].values()][:2]
        if not {first.function, second.function} & met.keys():
            names, ids = _told([sites[history.first(each.host)] for each in (first, second)])
            yield unproven(
                f"nothing keeps {label(name)} of {names[0]} and of {names[1]} apart, though they were not inside at "
                f"once in this run: in Azure their locks are two blobs: {ids}"
            )


def _named(section: Section) -> str:
    """Return the name of a body's lock without the id in it."""
    return _ID.sub("", section.lock)


def _told(sites: list[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return the names of two apps, and in words their ids, where the ids come from, and what to set."""
    ids = [f"host id {site['lock_id']!r} ({site['cause']})" for site in sites]
    return [site["name"] for site in sites], f"{' and '.join(ids)}. {_REMEDY}"
