"""Compares the locks of two versions of an app: which exclude nobody while both run, and whose tokens may go back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from simulator.appcheck.finding import Place
from simulator.appcheck.lock_places import HASH
from simulator.appcheck.rules import RULES
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STOP: Final = "Stop all of the old version before the new one starts"


def renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a finding for each lock of the old report that the new one does not take, neither as its own nor as old.

    Yield one, too, for each lock that the old version took under an old name, ``also=``, and the new one does not.
    A function that is gone is looked for among the new functions, under another name with an equal trigger.
    """
    functions = {each["name"]: each for each in new["functions"]}
    called = _new_names(old, new)
    for before in old["functions"]:
        after = functions.get(called.get(before["name"], before["name"]))
        if after is None:
            continue  # the function is gone, and its work too
        for guard in before["guards"]:
            if guard["blob"] is not None and not after["refused"]:
                yield from _compared(before["name"], guard, after)


def _new_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return the new names of the functions that were renamed, as far as no other function may be meant."""
    names = [{each["name"] for each in report["functions"]} for report in (old, new)]
    gone = [each for each in old["functions"] if each["name"] not in names[1]]
    added = [each for each in new["functions"] if each["name"] not in names[0]]
    found = {}
    for each in gone:
        same = [other for other in gone if other["source"] == each["source"]]
        meant = [other for other in added if other["source"] == each["source"]]
        if len(same) == len(meant) == 1:
            found[each["name"]] = meant[0]["name"]
    return found


def _compared(name: str, before: Mapping[str, Any], function: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    same_mode = [each for each in function["guards"] if each["mode"] == before["mode"] and each["blob"]]
    same_mode.sort(key=lambda each: each["decorator"] != before["decorator"])
    after = next(iter(same_mode), None)
    limits: list[Any] = [None if each is None else _limit(each) for each in (before, after)]
    place = Place(function["file"], function["line"])
    if after is None:
        whose = "" if name == function["name"] else f"{name} seems to be {function['name']} now: "
        became = f"{whose}its lock was {_said(before)}, and it has none now. While both versions run, both do the work"
        yield _finding("lock-renamed", f"{became}. {_STOP}", function, place)
        return
    place = Place(after["file"], after["line"])
    taken = {*_hashes(after), *_hashes(after, "also_")}
    if before["also"] is not None and taken.isdisjoint(_hashes(before, "also_")) and _has_tokens(before):
        told = (
            f"also= is gone: the lock was also {before['also']}. A key whose last use was under that name alone would "
            "get smaller tokens now. When the last version that knows only that name has ended, look for such keys: "
            "singleton-locks ahead. If there are any, run singleton-locks lift-epochs before this version starts"
        )
        yield _finding("also-removed", told, function, place)
    if not taken.isdisjoint(_hashes(before)) and (limits[0] is None) == (limits[1] is None):
        if limits[0] != limits[1]:
            told = (
                f"the limit was {limits[0]}, and it is {limits[1]} now. While both versions run, up to {max(limits)} "
                f"run at a time. {_STOP}, if that is too many"
            )
            yield _finding("limit-changed", told, function, place)
        return
    whose = "the lock" if name == function["name"] else f"{name} seems to be {function['name']} now: its lock"
    same = f" ({_unseen(after)})" if _said(before) == _said(after) else ""
    told = (
        f"{whose} was {_said(before)}, and it is {_said(after)} now{same}. While both versions run, they don't exclude "
        f"one another. {_remedy(name, before, after, function)}"
    )
    yield _finding("lock-renamed", told, function, place)


def _unseen(guard: Mapping[str, Any]) -> str:
    """Return how two locks may differ that are shown alike."""
    if guard["blob"].endswith(HASH):
        return "what is cut off differs"
    return "a path without braces is looked up in the body alone, {name} in what the host knows of the message, too"


def _remedy(name: str, before: Mapping[str, Any], after: Mapping[str, Any], function: Mapping[str, Any]) -> str:
    if before["decorator"] == "@once":
        return f"{_STOP}: what was done under the old key is done again when it comes again"
    if before["decorator"] != "@singleton" or _scope(before) != _scope(after) or _said(before) == _said(after):
        return _STOP
    if (_limit(before), _limit(after)) != (None, None):
        return f"also= does not go with limit: {_STOP[0].lower()}{_STOP[1:]}"
    if name != function["name"]:
        return f"Keep it with name={name!r}, or take both for one deployment: also=OldLock(name={name!r})"
    return "Take both for one deployment: also=OldLock(…)"


def _scope(guard: Mapping[str, Any]) -> list[str]:
    """Return what a message puts into the name, which no ``also=`` can change; its hash stands for the value."""
    return [each.replace("{hash of ", "{") for each in re.findall(r"\{.*?\}+", guard["blob"])]


def _hashes(guard: Mapping[str, Any], which: str = "") -> set[str]:
    """Return the hashes of a guard's lock, or with ``also_`` of the old name. Equal locks share a hash."""
    return {guard[f"{which}identity"], guard[f"{which}folded_identity"]} - {None}


def _limit(guard: Mapping[str, Any]) -> int | None:
    """Return the limit; None: the guard has no limit."""
    limit: int | None = guard["options"].get("limit", {}).get("value")
    return limit


def _has_tokens(guard: Mapping[str, Any]) -> bool:
    """Tell whether the holds of a lock with an old name have tokens: locks of .NET's WebJobs have none."""
    webjobs = guard["layout"] == "webjobs" or guard["also"].startswith(f"{WEBJOBS}/")
    return not webjobs and bool(guard["options"]["fencing_tokens"]["value"])


def _said(guard: Mapping[str, Any]) -> str:
    return f"{guard['connection']}: {guard['container']}/{guard['blob']}"


def _finding(rule: str, message: str, function: Mapping[str, Any], place: Place) -> dict[str, Any]:
    return RULES[rule].broken(message, function["name"], place).to_json()
