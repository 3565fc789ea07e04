"""The live view on a terminal, and the last screen, which says what happened in words that need no explanation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from simulator.checks.findings import count, fleet_of, label
from simulator.report.reporter import Reporter
from simulator.report.words import Line, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Section
    from simulator.report.board import Board, Event
    from simulator.report.reporter import Progress

FRAMES: Final = 8
STYLES: Final = {"good": "green", "bad": "bold red", "open": "yellow", "note": "dim"}
MARKS: Final = {"good": "✓", "bad": "✗", "open": "?", "note": "·"}
ASCII_MARKS: Final = {"good": "+", "bad": "x", "open": "?", "note": "-"}
TONES: Final = {"plain": "", "good": "green", "bad": "red", "faint": "dim"}
STATES: Final = {
    "starting": "dim",
    "ready": "green",
    "stopping": "dim",
    "stopped": "dim",
    "killed": "bold red",
    "failed": "bold red",
}
LOCKS_SHOWN: Final = 8
EVENTS_SHOWN: Final = 6
HOSTS_SHOWN: Final = 12


class TerminalReporter(Reporter):
    """Draws the fleet while it runs, and the verdict when it is over."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on `stream`, a terminal."""
        self._console = Console(file=stream, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=FRAMES, transient=True)
        self._steps: list[str] = []
        self._spinner = Spinner("dots" if self._unicode else "line")

    @property
    def _unicode(self) -> bool:
        return self._console.encoding.lower().startswith("utf")

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        first = text.partition(":")[0].partition(" (")[0]
        if self._steps and self._steps[-1].startswith(first):
            self._steps[-1] = text
        else:
            self._steps.append(text)
        done = [Text(f"  {step}", style="dim") for step in self._steps[:-1]]
        self._spinner.update(text=Text(text))
        self._draw(Group(*done, self._spinner))

    def show(self, board: Board, progress: Progress) -> None:
        """Draw the fleet as it is now."""
        self._draw(view(board, progress, height=self._console.height))

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Draw the last screen."""
        self.close()
        self._console.print(last_screen(verdict, hints, MARKS if self._unicode else ASCII_MARKS))

    def close(self) -> None:
        """Remove the live view."""
        self._live.stop()

    def _draw(self, what: Group) -> None:
        self._live.update(what)
        self._live.start()


def view(board: Board, progress: Progress, *, height: int) -> Group:
    """Build the live view: the run, its hosts, its locks, and what happened lately."""
    room = max(height - 9 - min(len(board.hosts), HOSTS_SHOWN), 6)
    locks = min(LOCKS_SHOWN, max(room // 2 - 2, 2))
    return Group(
        _title(board, progress),
        _hosts(board, progress.now),
        _locks(board, progress.now, locks),
        _events(board, min(EVENTS_SHOWN, max(room - locks - 4, 2))),
    )


def last_screen(verdict: Verdict, hints: list[str], marks: dict[str, str]) -> Group:
    """Build the last screen."""
    top = headline(verdict)
    lines = Table.grid(padding=(0, 1))
    for line in summary(verdict):
        lines.add_row(Text(marks[line.mark], style=STYLES[line.mark]), _worded(line))
    lines.add_row("", Text(fine_print(verdict), style="dim"))
    panel = Panel(
        lines,
        title=Text(f"{marks[top.mark]} {top.text}", style=STYLES[top.mark]),
        title_align="left",
        border_style=STYLES[top.mark],
        padding=(1, 1),
    )
    return Group(panel, *(Text(hint, style="dim", overflow="fold") for hint in hints))


def _worded(line: Line) -> Text:
    return Text(line.text, style=STYLES[line.mark] if line.mark in {"bad", "note"} else "")


def _title(board: Board, progress: Progress) -> Group:
    words = {
        "starting": "the hosts start",
        "working": "work comes in",
        "settling": f"waiting for {' and '.join(progress.waits) or 'the rest'}",
        "stopping": "the hosts stop",
    }
    grid = Table.grid(expand=True)
    grid.add_column()
    grid.add_column(justify="right")
    hosts = fleet_of(len(board.hosts), same_app=bool(board.history.setup.get("same_app")))
    left = Text.assemble(("singleton-sim", "bold"), f"  {hosts}")
    overlaps = Text(f"{board.overlaps} overlaps", style="bold red" if board.overlaps else "green")
    right = Text.assemble(
        f"{count(len(board.history.sections), 'body', 'bodies')}, ",
        overlaps,
        f"  {max(progress.now - board.history.start, 0):4.0f} s",
    )
    grid.add_row(left, right)
    bar = Table.grid(expand=True, padding=(0, 1))
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True)
    done = ProgressBar(total=progress.duration, completed=min(progress.elapsed, progress.duration))
    bar.add_row(done, Text(words[progress.phase], style="dim"))
    return Group(grid, bar)


def _hosts(board: Board, now: float) -> Table:
    history = board.history
    waiting = Counter(wait.host for wait in board.waiting())
    done = Counter(body.host for body in history.sections if body.ending in {"ok", "error", "lost"})
    skipped = Counter(refusal.host for refusal in history.refusals)
    rows = [
        (
            host,
            Text(str(history.hosts.get(host) or ""), style="dim"),
            Text(state, style=STATES[state]),
            _inside([body for body in board.inside() if body.host == host], now),
            str(waiting[host] or ""),
            str(done[host]),
            str(skipped[host] or ""),
        )
        for host, state in board.hosts.items()
    ]
    return _table(rows, HOSTS_SHOWN, "host", "pid", "state", "inside", "waiting", "done", "skipped")


def _inside(bodies: list[Section], now: float) -> Text:
    text = Text()
    for body in bodies:
        text.append("  " if text else "")
        text.append(label(body.lock), style="cyan")
        text.append(f" {max(now - body.start, 0):.1f} s", style="dim")
    return text


def _locks(board: Board, now: float, shown: int) -> Table:
    rows = []
    for row in board.locks():
        holder = Text(row.holder)
        if row.orphaned is not None:
            holder = Text(f"{row.holder}, dead for {max(now - row.orphaned, 0):.1f} s", style="red")
        token = "" if row.token is None else str(row.token)
        rows.append((Text(label(row.lock), style="cyan"), holder, token, str(row.waiting or ""), str(row.sections)))
    return _table(rows, shown, "lock", "holder", "token", "waiting", "bodies")


def _table(rows: Sequence[tuple[str | Text, ...]], shown: int, *columns: str) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    for name in columns:
        wide = 1 if name in {"inside", "lock"} else None
        words = name in {"host", "state", "inside", "lock", "holder"}
        table.add_column(name, justify="left" if words else "right", ratio=wide, no_wrap=words)
    for row in rows[:shown]:
        table.add_row(*row)
    if len(rows) > shown:
        table.add_row(f"… {len(rows) - shown} more")
    return table


def _events(board: Board, shown: int) -> Group:
    lines: list[Any] = [Rule(style="dim")]
    recent: list[Event] = list(board.events)[-shown:]
    for event in recent:
        at = Text(f"{max(event.t - board.history.start, 0):6.1f} s  ", style="dim")
        lines.append(Text.assemble(at, (event.text, TONES[event.tone]), overflow="ellipsis", no_wrap=True))
    lines += [Text()] * (shown - len(recent))
    return Group(*lines)
