"""What every reporter does: a live view on a terminal, plain lines elsewhere. This one writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict
    from simulator.report.board import Board

Phase = Literal["starting", "working", "settling", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes:
        phase: what goes on.
        now: the time by the journals' clock.
        elapsed: seconds since the hosts were ready.
        duration: seconds for which work is offered.
        waits: what the end of the run waits for, in words.
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
