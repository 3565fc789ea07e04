"""Fencing tokens: each later holder of a lock has a greater one, whoever it is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simulator.checks.findings import Finding, count, label, violation

if TYPE_CHECKING:
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

    @property
    def increasing(self) -> bool:
        """Whether every token was greater than all earlier ones of its lock."""
        return not self.regressions


_Entry: TypeAlias = tuple[float, str, str, int | None, bool, bool]
"""When, which lock, which host, which token; whether the token is shared, and whether it may come late."""


def check_tokens(history: History) -> Tokens:
    """Compare tokens in the order in which locks were got, and in the order in which bodies began.

    Who stood still while it asked may say late that it got the lock. That is no fault, if it then is told that it lost
    it. Nor is it one of somebody whose lease an operator ended, and who has yet to learn of that.
    """
    got = [(a.t, a.lock, a.host, a.token, False, _late(history, a)) for a in history.acquisitions]
    begun = [(s.start, s.lock, s.host, s.token, s.mode == "listener", _excused(history, s)) for s in history.sections]
    issued = [entry for entry in got if entry[3] is not None]
    regressions = _regressions(got, history.start, "acquired")
    known = {(entry.lock, entry.token) for entry in regressions}
    for entry in _regressions(begun, history.start, "body"):
        if (entry.lock, entry.token) not in known:
            regressions.append(entry)
    return Tokens(
        issued=len(issued),
        locks=len({entry[1] for entry in issued}),
        regressions=tuple(sorted(regressions, key=lambda entry: entry.at)),
    )


def judge_tokens(tokens: Tokens) -> list[Finding]:
    """Say what the regressions amount to."""
    if not tokens.regressions:
        return []
    first = tokens.regressions[0]
    return [
        violation(
            f"{count(len(tokens.regressions), 'fencing token')} out of order; the first on {label(first.lock)}: "
            f"{first.host} got {first.token} after {first.before_host} had got {first.before}"
        )
    ]


def _late(history: History, got: Acquisition) -> bool:
    return history.stood_still_asking(got, got.t) or history.operated_before(got, got.t)


def _excused(history: History, section: Section) -> bool:
    woke = section.ending == "lost" and history.stood_still_asking(section, section.start)
    return woke or history.operated_before(section, section.start)


def _regressions(entries: list[_Entry], start: float, seen: str) -> list[Regression]:
    """Compare each token with the highest before it; where it is shared, its host may show it again."""
    highest: dict[str, tuple[int, str]] = defaultdict(lambda: (-1, ""))
    found = []
    for t, lock, host, token, shared, excused in sorted(entries, key=lambda entry: entry[0]):
        if token is None:
            continue
        before, before_host = highest[lock]
        again = shared and (token, host) == (before, before_host)
        if token <= before and (again or excused):
            continue
        if token <= before:
            found.append(
                Regression(
                    lock=lock,
                    at=t - start,
                    host=host,
                    token=token,
                    before=before,
                    before_host=before_host,
                    seen=seen,
                )
            )
        else:
            highest[lock] = (token, host)
    return found
