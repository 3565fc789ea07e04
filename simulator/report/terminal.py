"""Draw a run on a terminal: a live view on a screen of its own, then a timeline and the verdict, which stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from simulator.history.journal import clock
from simulator.report.live.strip import AROUND, Look, strip
from simulator.report.live.view import view
from simulator.report.reporter import Reporter
from simulator.report.words import Line, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.checks.verdict import Verdict
    from simulator.report.board import Board
    from simulator.report.reporter import Phase, Progress


STYLES: Final = {"good": "green", "bad": "bold red", "open": "yellow", "note": "dim"}
MARKS: Final = {"good": "✓", "bad": "✗", "open": "?", "note": "·"}
ASCII_MARKS: Final = {"good": "+", "bad": "x", "open": "?", "note": "-"}


def last_screen(verdict: Verdict, look: Look) -> Panel:
    """Build the box with the verdict."""
    marks = MARKS if look.unicode else ASCII_MARKS
    top = headline(verdict)
    lines = Table.grid(padding=(0, 1))
    for line in summary(verdict):
        lines.add_row(Text(marks[line.mark], style=STYLES[line.mark]), _worded(line, look))
    lines.add_row("", Text(look.safe(fine_print(verdict)), style="dim"))
    return Panel(
        lines,
        title=Text(f"{marks[top.mark]} {look.safe(top.text)}", style=STYLES[top.mark]),
        title_align="left",
        border_style=STYLES[top.mark],
        padding=(0, 1),
    )


def _worded(line: Line, look: Look) -> Text:
    style = STYLES[line.mark] if line.mark in {"bad", "note"} else ""
    return Text(look.safe(line.text), style=style, overflow="fold")  # a long name must not hide what follows


FRAME: Final = 0.125
SHARE: Final = 10
"""Drawing takes at most one part in so many of the run's time, however much there is to draw."""
ROWS: Final = 5
"""Rows that the timeline of the last screen has at least, however long the verdict is."""


def draws(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether a stream is a terminal on which a cursor can move."""
    return stream.isatty() and environment.get("TERM", "").lower() not in {"dumb", "unknown"}


class TerminalReporter(Reporter):
    """Draws the fleet while it runs, and the verdict when it is over."""

    stays: ClassVar[bool] = True

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        """Draw on `stream`, a terminal, through a console of its own or this one."""
        self._console = console or Console(file=stream, highlight=False)
        unicode = Look(encoding=self._console.encoding).unicode
        self._spinner = Spinner("dots" if unicode else "line")
        self._begin = Live(console=self._console, transient=True)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._steps: list[str] = []
        self._board: Board | None = None
        self._phase: Phase | None = None
        self._next = 0.0

    @property
    def _look(self) -> Look:
        size = self._console.size
        return Look(width=size.width, height=size.height, encoding=self._console.encoding)

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        first = text.partition(":")[0].partition(" (")[0]
        if self._steps and self._steps[-1].startswith(first):
            self._steps[-1] = text
        else:
            self._steps.append(text)
        look = self._look
        done = [Text(look.safe(f"  {step}"), style="dim") for step in self._steps[:-1]]
        self._spinner.update(text=Text(look.safe(text)))
        self._begin.update(Group(*done, self._spinner))
        self._begin.start()

    def show(self, board: Board, progress: Progress) -> None:
        """Draw the fleet as it is now, unless it was drawn a moment ago."""
        began = clock()
        self._board = board
        if began < self._next and progress.phase == self._phase:
            return
        self._begin.stop()
        self._live.start()
        self._live.update(Group(*view(board, progress, self._look)), refresh=True)
        ended = clock()
        self._phase, self._next = progress.phase, max(began + FRAME, ended + (ended - began) * SHARE)

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Leave the timeline, the verdict and the hints on the terminal."""
        self.close()
        look = self._look
        panel = last_screen(verdict, look)
        below = [Text(look.safe(hint), style="dim") for hint in hints]
        if self._board is not None and self._board.hosts:
            used = len(self._console.render_lines(panel)) + sum(-(-each.cell_len // look.width) for each in below)
            rows = max(look.height - used - AROUND - 1, ROWS)
            self._console.print(*self._drawn(verdict, self._board, look, rows), sep="\n")
        self._console.print(panel)
        for each in below:
            self._console.print(each, soft_wrap=True)  # so a path that is wrapped can be copied

    def redraw(self) -> None:
        """Draw at the next occasion, however short ago the last was."""
        self._next = 0.0

    def close(self) -> None:
        """Remove the live view."""
        self._begin.stop()
        self._live.stop()

    def _drawn(self, verdict: Verdict, board: Board, look: Look, rows: int) -> list[Text]:
        met = [
            (verdict.start + each.at, verdict.start + each.at + each.seconds, each.first.host, each.second.host)
            for each in verdict.overlaps
        ]
        return strip(board, look, rows, now=board.history.end, overlaps=met)
