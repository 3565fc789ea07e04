"""When a run is over: nothing left in the queues, and every victim's locks taken over; or no hope of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.checks.failover import Failover, measure_failovers
from simulator.history.historian import read_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.history.facts import History
    from simulator.history.journal import Record

MARGIN: Final = 10.0
HUNG: Final = 120.0
LONGEST: Final = 900.0


class Settling:
    """Watches a run whose work is all handed out."""

    def __init__(self, visibility: float) -> None:
        """Start; `visibility` is after how long a dead host's messages come back."""
        self._visibility = visibility

    def outstanding(self, records: Sequence[Record], queued: int) -> list[str]:
        """Return in words what the run still waits for; empty when it may end.

        Args:
            records: all that was written so far.
            queued: how many messages are in the queues, those in process included.
        """
        history = read_history(records)
        waits = [f"{queued} message{'s' * (queued != 1)}"] if queued else []
        waits += [f"the failover of {failover.host}" for failover in measure_failovers(history) if _open(failover)]
        return waits

    def hopeless(self, records: Sequence[Record], now: float, since: float) -> bool:
        """Tell whether nothing has come of it for so long that nothing will.

        Args:
            records: all that was written so far.
            now: the time.
            since: when the last work was handed out.
        """
        history = read_history(records)
        last = max([since, *(kill.t for kill in history.kills), *_progress(history, now)])
        return now - last > self._patience(history) or now - since > LONGEST

    def _patience(self, history: History) -> float:
        """The longest that anything may take by itself: a lease and a poll or tick, or a message's return."""
        functions = [history.function(""), *history.functions.values()]
        slowest = max(function.lease + max(function.poll, function.tick) for function in functions)
        led = [history.function(wait.function) for wait in history.waits if wait.mode == "listener"]
        elected = max((function.listener_lease + function.recovery for function in led), default=0.0)
        away = max(function.away for function in functions)
        return max(slowest, elected, self._visibility, away) + MARGIN


def _open(failover: Failover) -> bool:
    if failover.main is None:
        return False
    if failover.main.state in {"cut short", "unwanted"}:
        return True
    return any(over.state == "cut short" for over in failover.also)


def _progress(history: History, now: float) -> list[float]:
    """When something came of a message; a body that runs counts as well, if it has not hung."""
    done = [call.end for call in history.invocations if call.message and call.ending in {"ok", "error"}]
    running = any(section.ending == "open" and now - section.start < HUNG for section in history.sections)
    return [*done, now] if running and history.messages else done
