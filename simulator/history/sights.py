"""Replace what the lock says of itself by what the hosts saw.

A body lasts as long as its host saw it run. The lock of a body is the lock of its expected key: declaration and message
say what must exclude each other, independent of the name that the product gave to the lock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from simulator.history.facts import Section
from simulator.history.functions import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Deed, History, Invocation, Sight


Whose: TypeAlias = tuple[str, str, Mode]
"""Host, invocation, and in which mode."""
_MODES: Final[tuple[Mode, ...]] = ("function", "listener")


def bear_witness(history: History) -> None:
    """Correct what the lock said by what the hosts saw, and note where the two differ."""
    calls = {(call.host, call.id): call for call in history.invocations}
    _rename(history, calls)
    _correct(history, calls)


def _rename(history: History, calls: dict[tuple[str, str], Invocation]) -> None:
    """Give one lock's name to all that is done under one expected key: the first name that was seen."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    keys: dict[str, dict[str, None]] = defaultdict(dict)
    of_listeners: dict[str, str] = {}
    for call in history.invocations:
        if key := call.keys.get("listener"):
            of_listeners[call.function] = key
    known: list[tuple[Deed, str]] = []
    for deed in _deeds(history):
        caller = calls.get((deed.host, deed.owner))
        key = caller.keys.get(deed.mode) if caller is not None else None
        if deed.mode == "listener":  # a process asks for it, not an invocation
            key = of_listeners.get(deed.function)
        if key:
            names[key][deed.lock] = None
            keys[deed.lock][key] = None
            known.append((deed, key))
    history.names = {key: tuple(several) for key, several in names.items() if len(several) > 1}
    history.merged = {lock: tuple(several) for lock, several in keys.items() if len(several) > 1}
    for deed, key in known:
        deed.lock = next(iter(names[key]))


def _deeds(history: History) -> Iterator[Deed]:
    yield from history.sections
    yield from history.waits
    yield from history.acquisitions
    yield from history.refusals
    for kill in history.kills:
        yield from kill.holds


def _correct(history: History, calls: dict[tuple[str, str], Invocation]) -> None:
    """Give each guarded body the time in which its host saw it. Add bodies of which no lock knew."""
    told: dict[Whose, list[Section]] = defaultdict(list)
    for section in history.sections:
        told[section.host, section.owner, section.mode].append(section)
    lock_of = {(deed.host, deed.owner, deed.mode): deed.lock for deed in _deeds(history)}
    around: dict[
        Whose, tuple[Section, float]
    ] = {}  # the body that a lock reported last, and when the lock says it ended
    for sight in history.sights:
        call = calls.get((sight.host, sight.invocation))
        function = history.function(sight.function)
        if call is None or call.function != sight.function or not function.guarded:
            continue
        for mode in _MODES:
            whose = (sight.host, sight.invocation, mode)
            if not (told[whose] or mode in call.keys or mode == function.mode):
                continue
            if whose in around and sight.start < around[whose][1]:  # again: decorators of the app may do so
                section = around[whose][0]
                section.end = max(section.end, sight.end)
            else:
                if told[whose]:
                    section = told[whose].pop(0)
                    if sight.sees and mode == function.mode:
                        history.mistold[sight.function] += section.held and section.token != sight.token
                        section.token = sight.token
                    around[whose] = (section, section.end)
                else:
                    section = _unheard(sight, mode, lock_of.get(whose))
                    history.sections.append(section)
                section.start, section.end, section.error = sight.start, sight.end, sight.error
            if section.ending != "lost":
                section.ending = sight.ending


def _unheard(sight: Sight, mode: Mode, lock: str | None) -> Section:
    """Return a body that no lock has reported."""
    return Section(
        lock=lock or sight.function,
        function=sight.function,
        host=sight.host,
        owner=sight.invocation,
        mode=mode,
        token=None,
        start=sight.start,
    )
