"""Who holds a lease for long renews it: by the requests that its host saw go over the network."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History

_LATE: Final = 2.0
"""Seconds by which a renewal may be late on a busy machine."""


def judge_renewals(history: History) -> Iterator[Finding]:
    """Find holds that outlived their renewal's time without one.

    A renewal that fails is one, too: that it did not help, others tell. In virtual worlds, where no lease comes over a
    network, the oracle knows what the service knows.
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
    # What is guarded but no function of the host's has no invocation's name: its holds can't be told apart.
    if got.function not in history.functions or not (got.owner or got.mode == "listener"):
        return False
    end = min(got.until, history.end)
    due = history.function(got.function).renewal_in(got.mode) + _LATE
    stood = history.stood(got.host, got.worker, got.t, end)  # a process that does nothing at all renews nothing
    return got.seen and not got.asked and end - got.t - stood > due and not history.paused(got.host, got.t, end)
