"""Fencing tokens: each later holder of a lock has a greater token."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.checks.excuses.causes import exposing
from simulator.checks.findings import Finding, count, label, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A token that is not greater than the one before it."""

    lock: str
    at: float
    host: str
    token: int
    before: int
    before_host: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How many tokens were issued, for how many locks, and which of them were out of order."""

    issued: int
    locks: int
    regressions: tuple[Regression, ...]
    increasing: bool


def check_tokens(history: History) -> Tokens:
    """Compare tokens in the order in which locks were acquired, and in the order in which bodies began.

    A host that stood still while it asked may report late that it acquired the lock. That is no fault, if it is then
    told that it lost the lock. It is no fault either if an operator ended the lease and the holder does not know it
    yet.
    """
    got = [_Shown(each.t, each, late=True) for each in history.acquisitions if each.token is not None]
    begun = [
        _Shown(each.start, each, late=each.ending == "lost", shared=each.mode == "listener")
        for each in history.sections
        if each.token is not None
    ]
    regressions = list(_regressions(history, got, "acquired"))
    known = {(entry.lock, entry.token) for entry in regressions}
    regressions += [each for each in _regressions(history, begun, "body") if (each.lock, each.token) not in known]
    return Tokens(
        issued=len(got),
        locks=len({each.by.lock for each in got}),
        regressions=tuple(sorted(regressions, key=lambda entry: entry.at)),
        increasing=not regressions,
    )


def judge_tokens(tokens: Tokens) -> Iterator[Finding]:
    """Sum up the regressions."""
    if tokens.regressions:
        first = tokens.regressions[0]
        yield violation(
            f"{count(len(tokens.regressions), 'fencing token')} out of order; the first on {label(first.lock)}: "
            f"{first.host} got {first.token} after {first.before_host} had got {first.before}"
        )


@dataclass(frozen=True, slots=True)
class _Shown:
    """A token is shown at a time: perhaps late if its host stood still, or again by the host that shares it."""

    t: float
    by: Acquisition | Section
    late: bool
    shared: bool = False


def _regressions(history: History, tokens: list[_Shown], seen: str) -> Iterator[Regression]:
    """Compare each token with the highest before it."""
    highest: dict[str, tuple[int, str]] = defaultdict(lambda: (-1, ""))
    for shown in sorted(tokens, key=lambda shown: shown.t):
        by, token = shown.by, shown.by.token or 0
        before, before_host = highest[by.lock]
        if token > before:
            highest[by.lock] = (token, by.host)
            continue
        again = shown.shared and (token, by.host) == (before, before_host)
        late = shown.late and history.stood_still_asking(by, shown.t)
        # With a nemesis it is known which hold an operator ended, and until when its host can't know that.
        broken = exposing(history, by, shown.t) if history.faults else history.operated_before(by, shown.t)
        if not (again or late or broken):
            yield Regression(
                lock=by.lock,
                at=shown.t - history.start,
                host=by.host,
                token=token,
                before=before,
                before_host=before_host,
                seen=seen,
            )
