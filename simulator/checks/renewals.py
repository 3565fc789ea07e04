"""A long hold is renewed: its host saw the requests on the network."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.hindrance import hindered
from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History

_LATE: Final = 2.0
"""Seconds by which a renewal may be late on a busy machine."""


def judge_renewals(history: History) -> Iterator[Finding]:
    """Find holds that lasted past the time of their renewal without one.

    A failed renewal counts as one: other checks say that it did not help. Virtual worlds have no real network: there
    the oracle knows what the service knows.
    """
    if not history.setup.get("singleton", True):
        return
    bare = Counter(got.function for got in history.acquisitions if _is_overdue(history, got))
    for name, number in sorted(bare.items()):
        were = "was" if number == 1 else "were"
        yield violation(
            f"{count(number, 'hold')} of {name!r} {were} not renewed in time: no request for it left the host"
        )


def _is_overdue(history: History, got: Acquisition) -> bool:
    # Something that is guarded, but is no function of the host, has no invocation id: its holds can't be told apart.
    if got.function not in history.functions or not (got.owner or got.mode == "listener"):
        return False
    end = min(got.until, history.end)
    due = history.function(got.function).renewal_in(got.mode) + _LATE
    stood = history.stood(got.host, got.worker, got.t, end)  # a process that stands still renews nothing
    stood += hindered(history, got.host, got.t, end)  # a request without an answer is written down when it is given up
    return got.seen and not got.asked and end - got.t - stood > due and not history.paused(got.host, got.t, end)
