"""Where to look: the moments at which promises were broken, by the check that found it."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from simulator.checks.exclusion import past_their_guard
from simulator.checks.findings import label
from simulator.checks.witnessed import outside_their_hold
from simulator.report.timeline.model import Trouble

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import History, Invocation, Section

MOST: Final = 100
"""How many moments of one check are listed."""
_QUOTED: Final = re.compile(r"'([^']+)'")


def read_troubles(history: History, verdict: Verdict) -> tuple[Trouble, ...]:
    """Return the moments of all broken promises; for sentences about no moment, the sentences."""
    located = [
        *islice(_overlaps(verdict), MOST),  # the longest
        *islice(_tokens(verdict), MOST),
        *_failovers(verdict),
        *islice(_messages(history, verdict), MOST),
        *islice(_bare(history, verdict), MOST),
        *islice(_past(history, verdict), MOST),
        *islice(_outside(history, verdict), MOST),
    ]
    known = {trouble.check for trouble in located} | {(trouble.check, trouble.function) for trouble in located}
    order = [check.name for check in verdict.checks]
    rest = [
        Trouble(check=check.name, text=finding.text, function=_function(history, finding.text))
        for check in verdict.checks
        for finding in check.findings
        if finding.kind == "violation" and _is_news(check.name, _function(history, finding.text), known)
    ]
    return tuple(sorted(rest + located, key=lambda trouble: (order.index(trouble.check), trouble.at or 0.0)))


def _overlaps(verdict: Verdict) -> Iterator[Trouble]:
    for each in verdict.overlaps:
        pair = f"{each.first.host} and {each.second.host}"
        text = f"{pair} are both inside {label(each.lock)} for {each.seconds:.2f} s"
        yield Trouble(check="overlaps", text=text, at=each.at, end=each.at + each.seconds, lock=each.lock)


def _tokens(verdict: Verdict) -> Iterator[Trouble]:
    for each in verdict.tokens.regressions:
        text = f"{each.host} gets token {each.token} of {label(each.lock)} after {each.before_host} had {each.before}"
        yield Trouble(check="tokens", text=text, at=each.at, lock=each.lock, host=each.host)


def _failovers(verdict: Verdict) -> Iterator[Trouble]:
    for failover in verdict.failovers:
        for over in failover.overs:
            if over.state in {"late", "never"} and over.bound is not None:
                took = f"after {over.seconds:.1f} s" if over.seconds is not None else "never"
                text = f"{label(over.lock)} of {failover.host} is taken over {took}; {over.bound:.1f} s were allowed"
                end = failover.at + max(over.bound, over.seconds or 0.0)
                yield Trouble(check="failovers", text=text, at=failover.at, end=end, lock=over.lock, host=failover.host)


def _messages(history: History, verdict: Verdict) -> Iterator[Trouble]:
    if not _complains(verdict, "messages"):
        return
    for each in verdict.messages.troubles:
        message = history.messages[each.id]
        times = [t for t, _ in message.receipts] or [message.sent or history.start]
        text = f"message {each.id[:8]} of {each.queue}: {each.what}"
        yield Trouble(check="messages", text=text, at=times[0] - history.start, end=times[-1] - history.start)


def _bare(history: History, verdict: Verdict) -> Iterator[Trouble]:
    """Yield the bodies that ran without the lock, if a check complains of such."""
    for each in history.sections if _complains(verdict, "guards") else ():
        if not each.held:
            yield _during(history, each, "guards", f"runs {each.function} without holding {label(each.lock)}")


def _past(history: History, verdict: Verdict) -> Iterator[Trouble]:
    """Yield the invocations that met no guard."""
    past, unnamed = past_their_guard(history) if _complains(verdict, "guards") else ([], {})
    for each in past:
        if each.function not in unnamed:
            yield _during(history, each, "guards", f"runs {each.function}, which does not pass through its guard")


def _outside(history: History, verdict: Verdict) -> Iterator[Trouble]:
    """Yield the bodies that began before their lock was held, or went on after it."""
    for each, began in outside_their_hold(history) if _complains(verdict, "witnessed") else ():
        when = "after it gave it back" if began else "before it has got it"
        yield _during(history, each, "witnessed", f"runs {each.function} under {label(each.lock)} {when}")


def _during(history: History, deed: Section | Invocation, check: str, what: str) -> Trouble:
    at, end = deed.start - history.start, min(deed.end, history.end) - history.start
    lock = getattr(deed, "lock", "")
    text = f"{deed.host} {what}"
    return Trouble(check=check, text=text, at=at, end=end, lock=lock, host=deed.host, function=deed.function)


def _complains(verdict: Verdict, name: str) -> bool:
    """Tell whether a check found a broken promise."""
    return any(check.violated for check in verdict.checks if check.name == name)


def _is_news(check: str, function: str, known: Container[str | tuple[str, str]]) -> bool:
    """Tell whether a sentence says more than the moments of its check: it names a function that has none of them."""
    return check not in known or (bool(function) and (check, function) not in known)


def _function(history: History, text: str) -> str:
    """Return the function that a sentence names, if it names one."""
    return next((name for name in _QUOTED.findall(text) if name in history.functions), "")
