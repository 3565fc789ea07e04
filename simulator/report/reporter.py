"""A reporter shows a run while it runs, and its result. The plain one writes lines for files, pipes and build logs.

Each event is written at once. After a silence, a line tells the state of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TextIO

from simulator.checks.findings import count, label
from simulator.history.journal import clock
from simulator.report.words import fine_print, headline, summary

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict
    from simulator.report.board import Board


Phase = Literal["starting", "working", "settling", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes:
        phase: the phase of the run.
        now: the time by the journals' clock.
        elapsed: seconds since the hosts were ready.
        duration: seconds for which work is offered.
        waits: the outstanding work that the end of the run waits for, in words.
    """

    phase: Phase
    now: float
    elapsed: float
    duration: float
    waits: tuple[str, ...] = ()


class Reporter:
    """Shows a run while it runs, and its result.

    `stays`: somebody looks at the result on a terminal, and wants to know more than fits there.
    """

    stays: ClassVar[bool] = False

    def step(self, text: str) -> None:
        """Say what is being prepared."""

    def show(self, board: Board, progress: Progress) -> None:
        """Show the fleet as it is now; called many times a second."""

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Show the result, and what might be tried next."""

    def close(self) -> None:
        """Restore the terminal; called also after a failure, and perhaps twice."""


PULSE: Final = 2.0
SHOWN: Final = 3
MARKS: Final = {"good": "[ok] ", "bad": "[!!] ", "open": "[??] ", "note": "     "}


class ReaderGone(BrokenPipeError):
    """Whoever read the lines has gone, such as `head`: nobody is left to tell."""


class PlainReporter(Reporter):
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._told = 0
        self._spoke = 0.0

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        self._say(text)

    def show(self, board: Board, progress: Progress) -> None:
        """Write what is new, or, after a silence, how things are."""
        new = board.told - self._told
        self._told = board.told
        for event in islice(board.events, max(len(board.events) - new, 0), None):
            self._say(f"{max(event.t - board.history.start, 0):6.1f} s  {event.text}")
        if clock() - self._spoke >= PULSE:
            self._say(pulse(board, progress))

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Write the result."""
        self._say("")
        for line in (headline(verdict), *summary(verdict)):
            self._say(MARKS[line.mark] + line.text)
        self._say(MARKS["note"] + fine_print(verdict))
        for hint in hints:
            self._say(hint)

    def _say(self, text: str) -> None:
        self._spoke = clock()
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
            self._stream.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error


def pulse(board: Board, progress: Progress) -> str:
    """Say in one line how things are."""
    at = f"{max(progress.now - board.history.start, 0):6.1f} s  "
    if progress.phase == "starting":
        return f"{at}{len(board.alive())} of {count(len(board.hosts), 'host')} ready"
    inside = [f"{body.host} in {label(body.lock)}" for body in board.inside()]
    more = f" and {len(inside) - SHOWN} more" if len(inside) > SHOWN else ""
    who = ", ".join(inside[:SHOWN]) + more if inside else "nobody inside"
    sent = board.sent()
    done = sum(bool(message.completed) for message in sent)
    messages = f"; {done:,} of {count(len(sent), 'message')} done" if sent else ""
    asked = board.history.traffic.requests.values()
    ended = sum(not request.open for request in asked)
    messages += f"; {ended:,} of {count(len(asked), 'request')} answered" if asked else ""
    text = f"{at}{who}; {len(board.waiting())} waiting{messages}"
    if progress.phase == "stopping":
        return f"{at}stopping the hosts"
    return text + (f"; waiting for {', '.join(progress.waits)}" if progress.waits else "")
