"""Compares the locks of two versions of an app: which have another name now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.checking.finding import Place
from singleton.checking.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a finding for each lock of the old report that the new one does not take, neither as its own nor as old."""
    places = {each["name"]: Place(each["file"], each["line"]) for each in new["functions"]}
    now = _locks(new)
    for (function, mode), before in _locks(old).items():
        if function not in places:
            continue  # it is gone, and so is its work
        after = now.get((function, mode))
        if after is not None and before[0] in after:
            continue
        became = f"and it is {after[0]} now" if after else "and it has none now"
        finding = RULES["lock-renamed"].broken(
            f"the lock was {before[0]}, {became}. While both versions run, they don't exclude one another. Take both "
            "for one deployment: also=OldLock(…)",
            function,
            places[function],
        )
        yield {
            "id": finding.id,
            "severity": finding.severity,
            "message": finding.message,
            "function": function,
            "file": places[function].file,
            "line": places[function].line,
            "docs": finding.docs,
        }


def _locks(report: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Return the locks of each function and mode: that of its name first, then its old one."""
    found = {}
    for function in report["functions"]:
        for guard in function["guards"]:
            if guard["blob"] is not None:
                own = f"{guard['connection']}: {guard['container']}/{guard['blob']}"
                old = [] if guard["also"] is None else [f"{guard['connection']}: {guard['also']}"]
                found[function["name"], guard["mode"]] = [own, *old]
    return found
