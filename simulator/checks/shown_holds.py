"""A hold tells its body, and who hears of its loss, what is so: of its owner, lease, wait and loss.

Only bodies under a single lock are judged: further locks change what a hold tells of a loss.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, count, violation
from simulator.checks.losses import ASKS, with_further_locks
from simulator.history.deeds import outside
from simulator.history.leases import DEADLINE
from simulator.history.pattern_uses import AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Sight, Wait

_SOON: Final = 1.0
_REASONS: Final = {
    "LeaseLost": "expired",
    "LeaseNotPresentWithLeaseOperation": "expired",
    "LeaseIsBrokenAndCannotBeRenewed": "broken",
    "LeaseIdMismatchWithLeaseOperation": "stolen",
    "BlobNotFound": "blob gone",
}
"""The reason of a loss by the error code with which a renewal is refused (docs/reference/arguments.md)."""


def judge_shown(history: History) -> Iterator[Finding]:
    """Find holds that tell what is not so, in a run with locks whose hosts saw it."""
    if history.rough:
        return
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for function, what, told in (*_to_bodies(history), *_of_losses(history), *_reasons(history)):
        wrong[function, what].append(told)
    for (function, what), (first, *more) in sorted(wrong.items()):
        yield violation(f"holds of {function!r} {what}, {count(1 + len(more), 'time')}: the first {first}")


def _to_bodies(history: History) -> Iterator[tuple[str, str, str]]:
    mine: dict[tuple[str, str], list[Acquisition]] = defaultdict(list)
    for got in history.acquisitions:
        mine[got.host, outside(got.owner)].append(got)
    waits: dict[tuple[str, str, str], list[Wait]] = defaultdict(list)
    for wait in history.waits:
        waits[wait.host, wait.owner, wait.lock].append(wait)
    lost = {(body.host, outside(body.owner)) for body in history.sections if body.ending == "lost" or body.told}
    further = with_further_locks(history)
    for sight in history.sights:
        whose, name = (sight.host, outside(sight.invocation)), sight.function
        holds = [each for each in mine[whose] if each.t <= sight.start <= each.until]
        if not sight.shown or sight.error == "GeneratorExit" or len(holds) != 1 or holds[0].mode != "function":
            continue
        got, where = holds[0], f"on {sight.host} at {sight.end - history.start:.1f} s"
        if got.owner != sight.invocation or got.blob != sight.hold[0]:
            continue  # of a lock client's decorator, perhaps
        told_lost = whose in lost or any(each.ending != "ok" for each in mine[whose])
        if sight.shown["lost"] and not told_lost and whose not in further:
            yield name, "said that they were lost, and were not", where
        if not sight.shown.get("listed", True) and not sight.shown["lost"]:
            yield name, "were missing in holds() as their bodies ended", where
        reason = sight.shown["reason"]
        if got.why and reason not in {None, "expired", got.why} and got.ending == "lost" and whose not in further:
            yield (
                name,
                "told another reason of their loss to their bodies",
                f"{reason!r} in place of {got.why!r} {where}",
            )
        if sight.shown["owner"] not in {"", outside(got.owner)}:
            yield name, "had another owner than their invocations", f"{sight.shown['owner']!r} {where}"
        if got.lease and sight.shown["lease"] != got.lease:
            yield name, "had another lease_id than the lease that was granted", where
        asked = _wait_in_line(history, got, sight, waits[got.host, got.owner, got.lock])
        if asked is not None and not asked - ASKS <= sight.shown["waited"] <= asked + _SOON:
            yield (
                name,
                "told another time in waited",
                f"{sight.shown['waited']:.1f} s in place of {asked:.1f} s {where}",
            )


def _wait_in_line(history: History, got: Acquisition, sight: Sight, waits: list[Wait]) -> float | None:
    """Return for how long the caller of a hold waited; None: nobody can tell, or the machine was slow."""
    function = history.function(got.function)
    plain = function.on_contention == "wait" and function.max_waiting is None and not function.merges
    if len(waits) != 1 or not plain or got.lock in history.twofold:
        return None
    worked = history.worked(got.host, sight.worker, waits[0].start, waits[0].end)
    asked = waits[0].end - waits[0].start
    return asked if waits[0].end == got.t and asked - worked < _SOON else None


def _of_losses(history: History) -> Iterator[tuple[str, str, str]]:
    further = with_further_locks(history)
    for use in history.uses:
        where, got = f"on {use.host} at {use.start - history.start:.1f} s", use.hold
        if use.of == "other state":
            yield use.caller, "gave the state of another lock", f"{use.what} in place of {use.name} {where}"
        if use.of == "hold.lost" and use.what == AGAIN:
            yield use.caller, "called a callback on their loss twice", where
        elif (
            use.of == "hold.lost"
            and got is not None
            and got.function in history.functions
            and use.ok
            and (use.host, use.invocation) not in further
        ):
            at_least = history.function(got.function).at_least  # a lock that is kept may be lost, too
            if use.digest and got.ending == "ok" and outside(got.owner) == use.invocation and not at_least:
                yield use.caller, "told of a loss that did not happen", f"by {use.what} {where}"
            if got.why and use.digest not in {"", "True", "expired", got.why} and got.ending == "lost":
                told = f"{use.digest!r} in place of {got.why!r}, by {use.what} {where}"
                yield use.caller, "told another reason of their loss", told


def _reasons(history: History) -> Iterator[tuple[str, str, str]]:
    """The storage's answer to a renewal decides on the reason of a loss, unless the deadline has passed.

    With failover, or state, a write may be refused first, for another reason.
    """
    wrote = {id(use.hold) for use in history.uses if use.of == "hold.state"}
    for got in history.acquisitions:
        writes = id(got) in wrote or history.function(got.function).failover is not None
        if got.ending != "lost" or not got.granted or writes or got.function not in history.functions:
            continue
        over = got.granted[-1] + history.lease_of(got) * DEADLINE - _SOON
        allowed = {"closed", "too long"} | ({"expired"} if got.until >= over else set())
        asked = (each for each in history.requests if (each.host, each.lease) == (got.host, got.lease))
        told = [each.code for each in asked if each.action == "renew" and abs(each.t - got.until) <= _SOON]
        reasons = {_REASONS[code] for code in told if code in _REASONS}
        if reasons and got.why not in reasons | allowed:
            where = f"{got.why!r} for {told[-1]} on {got.host} at {got.until - history.start:.1f} s"
            yield got.function, "told another reason of their loss than the storage", where
