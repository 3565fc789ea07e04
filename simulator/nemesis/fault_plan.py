"""Plans: which faults are due when. They are drawn from a seed, or written by the user in a file."""

from __future__ import annotations

import json
import random
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any, Final

from simulator.faults.fault_record import JSON_TYPES
from simulator.faults.real import ACTIONS, AIMS, ALL, KINDS, RealFault
from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


NOT_ON_WINDOWS: Final = {
    "drain": "on Windows no process can be asked to end",
    "pause": "on Windows no process can be stopped by a signal",
}
JITTER: Final = 0.25
LAST: Final = 2.0
"""Seconds before the end of the work in which nothing new strikes."""
_FORM: Final = '[{"at": 10, "kind": "partition", "host": "host-2", "seconds": 20}, …]'
_WORDS: Final = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "a text"}
_VALUES: Final[dict[str, Sequence[Any]]] = {"aim": AIMS, "status": (503, 429), "action": tuple(ACTIONS)}


class PlanError(ValueError):
    """The kinds or the plan can't be used; the message says what is wrong, and what is allowed."""


def chosen(text: str) -> tuple[str, ...]:
    """Return the kinds in a list with commas, each once; "all" means every kind.

    >>> chosen("pause, kill")
    ('kill', 'pause')

    Raises:
        PlanError: a kind is unknown, or no kind is named.
    """
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in {*ALL, "all"}:
            raise PlanError(
                f"{quoted(word)} is no kind of faults; the kinds are {', '.join(ALL)}, and all"
                f"{did_you_mean(word, [*ALL, 'all'])}"
            )
    if not words:
        raise PlanError(f"no kind is named; the kinds are {', '.join(ALL)}, and all")
    return ALL if "all" in words else tuple(kind for kind in ALL if kind in words)


def draw_plan(kinds: Sequence[str], *, every: float, duration: float, seed: int) -> list[RealFault]:
    """Draw a fault about every so many seconds, and each kind equally often: like cards of a shuffled deck.

    The second one breaks the lease of a lock that is about to be renewed, if leases may be broken. So a short run, too,
    has a body whose lock is lost.
    """
    rng = random.Random(f"nemesis {seed}")
    deck: list[str] = []
    plan: list[RealFault] = []
    at = every * rng.uniform(1 - JITTER, 1)
    while at <= duration - min(LAST, duration / 4):
        if not deck:
            deck = rng.sample(list(kinds), len(kinds))
            if not plan and "break" in deck:
                deck.remove("break")
                deck.insert(-1, "break")
        fault = KINDS[deck.pop()].draw(rng, round(at, 2))
        plan.append(replace(fault, aim="renewal") if len(plan) == 1 and fault.kind == "break" else fault)
        at = every * (len(plan) + 1 + rng.uniform(-JITTER, JITTER))
    return plan


def read_plan(path: Path) -> list[RealFault]:
    """Read a plan: a JSON list of faults, each with ``at``, ``kind``, and what else its kind has.

    Raises:
        PlanError: the file can't be read, or a fault of it makes no sense; the message says which.
    """
    try:
        raw = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise PlanError(f"{error.strerror or error}") from error
    except ValueError as error:
        raise PlanError(f"it is no JSON ({error}); write a list of faults: {_FORM}") from error
    if isinstance(raw, dict):
        raw = raw.get("faults")
    if not isinstance(raw, list) or not raw:
        raise PlanError(f"it has no list of faults; write one: {_FORM}")
    return sorted((_fault(entry, f"fault {number}") for number, entry in enumerate(raw, 1)), key=lambda each: each.at)


def _fault(entry: object, where: str) -> RealFault:
    if not isinstance(entry, dict):
        raise PlanError(f"{where}: it must be an object: {_FORM}")
    values = dict(entry)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise PlanError(
            f'{where}: "kind" is {quoted(kind)}: it must be one of {", ".join(ALL)}{did_you_mean(str(kind), ALL)}'
        )
    cls = KINDS[kind]
    known = {each.name: each for each in fields(cls)}
    for name, value in values.items():
        if name not in known:
            raise PlanError(
                f"{where}: {quoted(name)} is unknown to {kind}{did_you_mean(str(name), known)}; "
                f"it knows {', '.join(known)}"
            )
        _check(cls, name, value, str(known[name].type), where)
    missing = [name for name, each in known.items() if each.default is MISSING and name not in values]
    if missing:
        raise PlanError(f'{where}: "{missing[0]}" is missing: the seconds after the start at which it is due')
    fault = cls(**values)
    if fault.seconds is not None and fault.leases:
        raise PlanError(f'{where}: it has "seconds" and "leases": give one of them')
    if cls.lasts and fault.seconds is None and not fault.leases:
        raise PlanError(f'{where}: "seconds" is missing: for how long it lasts; or "leases", as a number of leases')
    if fault.lock and fault.aim == "anybody":
        raise PlanError(f'{where}: "lock" needs an "aim": who has it ("holder"), or a request about it ("renewal", …)')
    if cls.ways and not fault.way:
        raise PlanError(f'{where}: "way" is missing: it must be one of {", ".join(dict.fromkeys(cls.ways))}')
    return fault


def _check(cls: type[RealFault], name: str, value: object, kind: str, where: str) -> None:
    """Check one value of a plan's fault."""
    base = kind.removesuffix(" | None")
    allowed: Iterable[Any] = _VALUES.get(name, ())
    if name == "aim":
        allowed = tuple(aim for aim in AIMS if aim in cls.aims or (aim == "anybody" and cls.kind != "break"))
    elif name == "way":
        allowed = dict.fromkeys(cls.ways)
        if not cls.ways:
            raise PlanError(f"{where}: {cls.kind} has no way: leave it out")
    elif name in {"seconds", "leases"} and not cls.lasts:
        raise PlanError(f"{where}: {cls.kind} has no length: leave {name} out")
    elif name in {"number", "everybody"} and not cls.many:
        raise PlanError(f"{where}: {cls.kind} strikes one host at a time: leave {name} out")
    if allowed and value not in allowed:
        raise PlanError(f'{where}: "{name}" is {quoted(value)}: it must be one of {", ".join(map(str, allowed))}')
    types = JSON_TYPES.get(base)
    if types is not None and (not isinstance(value, types) or isinstance(value, bool) != (base == "bool")):
        raise PlanError(f'{where}: "{name}" is {quoted(value)}: it must be {_WORDS[base]}')
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = (1, 100) if name in {"percent", "number"} else (0, 3600)
        if name in {"seconds", "leases"} and not 0 < value <= most:
            raise PlanError(f'{where}: "{name}" is {quoted(value)}: it must be a number above 0, and {most} at most')
        if not least <= value <= most:
            raise PlanError(f'{where}: "{name}" is {quoted(value)}: it must be a number from {least} to {most}')
