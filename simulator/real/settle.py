"""The end of a run: the queues are empty and other hosts have every victim's locks; or neither will happen any more.

And Ctrl-C and other signals: a signal ends a run at once, but never in the middle of a step that must be completed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from simulator.checks.failover import measure_failovers, why_unseen
from simulator.checks.findings import count
from simulator.checks.message_copies import judge_copies
from simulator.checks.messages import hidden_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from simulator.history.facts import History


NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupt(KeyboardInterrupt):
    """The run must end now. It is raised in the main thread, wherever that is."""


class Signals:
    """A context in which a signal interrupts the run once. When the run is closing, signals only make it hurry."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._closed = 0
        self._pending = False
        self.received: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in NAMES:
                number = getattr(signal, name, None)
                if number is not None:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after such a signal."""
        return 128 + self.received[0] if self.received else 0

    def hurry(self) -> bool:
        """Tell whether somebody asked again."""
        return len(self.received) > 1

    def close(self) -> None:
        """From now on signals interrupt nothing any more."""
        self._closed += 1

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals back until the end of a step."""
        self._closed += 1
        try:
            yield
        finally:
            self._closed -= 1
        if self._pending and not self._closed:
            self._pending = False
            self.close()
            raise Interrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if self._closed:
            self._pending = True
        elif len(self.received) == 1:
            self.close()
            raise Interrupt


MARGIN: Final = 10.0
HUNG: Final = 300.0
PUT_BACK: Final = 300.0
"""Seconds for which put-backs alone count as progress."""
LONGEST: Final = 900.0


def outstanding(history: History, queued: int, requests: int = 0) -> list[str]:
    """Return in words what a run still waits for after all work is handed out; empty when it may end.

    ``queued`` counts the messages in the queues, also those that are being processed; ``requests`` counts the callers
    that wait for an answer. If all messages of the run are done, what is left in the queues are other messages.
    """
    waits = [count(number, what) for number, what in ((queued, "message"), (requests, "request")) if number]
    sent = [message for message in history.messages.values() if message.sent is not None]
    if queued and sent and all(message.completed or message.poisoned for message in sent):
        waits[0] += " that this run did not send"
    return waits + [f"the failover of {host}" for host in failing_over(history)]


def failing_over(history: History) -> list[str]:
    """Return the killed hosts whose locks a run still sees go to other hosts."""
    aimed = not history.setup.get("faults")  # a nemesis kills for other reasons than a failover, too
    return [
        each.host
        for each in measure_failovers(history)
        if any(over.state == "cut short" for over in each.overs)
        or (aimed and each.main is not None and each.main.state == "unwanted" and not why_unseen(history, each.main))
    ]


def hopeless(history: History, now: float, *, since: float, visibility: float) -> bool:
    """Tell whether nothing has happened for so long that nothing will.

    The last work was handed out at ``since``. After ``visibility`` seconds the messages of a dead host come back.
    """
    last = max([since, *(kill.t for kill in history.kills), *_progress(history, now)])
    return now - last > max(visibility, _patience(history)) + MARGIN or now - since > LONGEST


def multiplying(history: History) -> bool:
    """Tell whether unsent copies outnumber the sent messages: the verdict is clear then, and the run has no end."""
    unsent = sum(message.sent is None for message in history.messages.values())
    return unsent > len(history.messages) - unsent and any(judge_copies(history))


def _patience(history: History) -> float:
    """The longest time that anything of the app may take: a lease and a poll or tick, or the return of a message."""
    functions = [history.function(""), *history.functions.values(), *history.inner.values()]
    led = [history.function(wait.function) for wait in history.waits if wait.mode == "listener"]
    return max(
        *(max(function.lease + max(function.poll, function.tick), function.away) for function in functions),
        *(function.listener_lease + function.recovery for function in led),
    )


def _progress(history: History, now: float) -> list[float]:
    """When something last happened to a message, or to a request, or will happen: a hidden message comes back.

    A body that runs and does not hang counts too, and so does a put-back. What ran in a worker that was killed for
    another call's time ends at its own time.
    """
    works = [call for call in history.invocations if call.message or call.request]
    done = [call.end for call in works if call.ending in {"ok", "error"}]
    theirs = {(call.host, call.id) for call in works}
    inside = [body for body in history.sights if body.ending == "open" and (body.host, body.invocation) in theirs]
    done += [now for body in inside if now - body.start < HUNG]
    killed = {end.host for end in history.worker_ends if end.timeout}
    done += [now for call in works if call.ending == "open" and call.host in killed and now - call.start < HUNG]
    back = [call.end for call in history.invocations if call.message and call.ending == "deferred"]
    back = [t for t in back if t - max(done, default=history.start) < PUT_BACK]
    unfinished = (each for each in history.messages.values() if each.sent and not (each.completed or each.poisoned))
    return [*done, *back, *(hidden_until(history, message) for message in unfinished)]
