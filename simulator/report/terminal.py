"""Draw a run on a terminal: a live view on a separate screen, then a timeline and the verdict, which stay.

The live view: the run, faults, hosts, locks, a timeline if the screen has room, and the latest events.
The view never has more lines than the terminal, and no line is wider.
"""

from __future__ import annotations

import io
import math
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from simulator.checks.findings import count, fleet_of, label, printable
from simulator.history.journal import clock
from simulator.report.strip import AROUND, LOOKALIKE, middle, one_line, strip
from simulator.report.words import Line, Reporter, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Section
    from simulator.report.board import Board
    from simulator.report.words import Phase, Progress


STYLES: Final = {"good": "green", "bad": "bold red", "open": "yellow", "note": "dim"}
MARKS: Final = {"good": "✓", "bad": "✗", "open": "?", "note": "·"}


def last_screen(verdict: Verdict) -> Panel:
    """Build the box with the verdict."""
    top = headline(verdict)
    lines = Table.grid(padding=(0, 1))
    for line in summary(verdict):
        lines.add_row(Text(MARKS[line.mark], style=STYLES[line.mark]), _worded(line))
    lines.add_row("", Text(fine_print(verdict), style="dim"))
    return Panel(
        lines,
        title=Text(f"{MARKS[top.mark]} {top.text}", style=STYLES[top.mark]),
        title_align="left",
        border_style=STYLES[top.mark],
        padding=(0, 1),
    )


def _worded(line: Line) -> Text:
    style = STYLES[line.mark] if line.mark in {"bad", "note"} else ""
    return Text(line.text, style=style, overflow="fold")  # a long name must not hide what follows


FRAME: Final = 0.125
SHARE: Final = 10
"""Drawing takes at most one part in `SHARE` of the run's time, however much the view has to show."""
ROWS: Final = 5
"""The fewest rows of the last screen's timeline, however long the verdict is."""


def draws(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether a stream is a terminal on which a cursor can move."""
    return stream.isatty() and environment.get("TERM", "").lower() not in {"dumb", "unknown"}


class TerminalReporter(Reporter):
    """Draws the fleet during the run, and the verdict at the end."""

    stays: ClassVar[bool] = True

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        """Draw on `stream`, a terminal, through `console`, or a new console."""
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=LOOKALIKE)
        self._console = console or Console(file=stream, highlight=False)
        self._spinner = Spinner("dots" if self._console.encoding.startswith("utf") else "line")
        self._begin = Live(console=self._console, transient=True)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._steps: list[str] = []
        self._board: Board | None = None
        self._phase: Phase | None = None
        self._next = 0.0

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        first = text.partition(":")[0].partition(" (")[0]
        if self._steps and self._steps[-1].startswith(first):
            self._steps[-1] = text
        else:
            self._steps.append(text)
        done = [Text(f"  {step}", style="dim") for step in self._steps[:-1]]
        self._spinner.update(text=Text(text))
        self._begin.update(Group(*done, self._spinner))
        self._begin.start()

    def show(self, board: Board, progress: Progress) -> None:
        """Draw the fleet, unless drawn a moment ago."""
        began = clock()
        self._board = board
        if began < self._next and progress.phase == self._phase:
            return
        self._begin.stop()
        self._live.start()
        self._live.update(view(board, progress, *self._console.size), refresh=True)
        ended = clock()
        self._phase, self._next = progress.phase, max(began + FRAME, ended + (ended - began) * SHARE)

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Leave the timeline, the verdict and the hints on the terminal."""
        self.close()
        width, height = self._console.size
        panel = last_screen(verdict)
        below = [Text(hint, style="dim") for hint in hints]
        if self._board is not None and self._board.hosts:
            used = len(self._console.render_lines(panel)) + sum(-(-each.cell_len // width) for each in below)
            rows = max(height - used - AROUND - 1, ROWS)
            met = [
                (verdict.start + each.at, verdict.start + each.at + each.seconds, each.first.host, each.second.host)
                for each in verdict.overlaps
            ]
            self._console.print(*strip(self._board, width, rows, now=self._board.history.end, overlaps=met), sep="\n")
        self._console.print(panel)
        for each in below:
            self._console.print(each, soft_wrap=True)  # a wrapped path can then be copied

    def close(self) -> None:
        """Remove the live view."""
        self._begin.stop()
        self._live.stop()


T = TypeVar("T")

STATES: Final = {
    "starting": "dim",
    "ready": "green",
    "paused": "yellow",
    "stopping": "dim",
    "stopped": "dim",
    "killed": "bold red",
    "failed": "bold red",
}
TONES: Final = {"plain": "", "good": "green", "bad": "red", "faint": "dim"}
_FEWEST_LOCKS: Final = 3
"""The fewest lines for locks: the titles, one lock, and the number of more locks."""
_WITH_NUMBERS: Final = 54
"""From this width on, every number of a host is shown."""
_WITH_TOKENS: Final = 62
"""From this width on, the fencing tokens are shown."""
_TOGETHER: Final = 120
"""From this width on, the locks are beside the hosts."""
_EVENTS: Final = 5
_EVENTS_BELOW: Final = 3
_STRIP_ROWS: Final = 12
_LOCKS: Final = 6
_TALL: Final = 36
_ROOMY: Final = 26
_SHORT: Final = 9
_FAULTS: Final = 2
_NAME: Final = 24
_HOST: Final = 12
_GAP: Final = (0, 2, 0, 0)  # two columns at the right of each cell


def view(board: Board, progress: Progress, width: int, height: int) -> Group:
    """Build the live view.

    Hosts come first; a timeline is drawn if the whole timeline has room. Hosts and locks include their titles.
    """
    lines = [*_title(board, progress, width), *_faults(board, progress.now)]
    room = height - len(lines)
    left = room - (_EVENTS if room >= _TALL else _EVENTS_BELOW)
    hosts, locks, together = len(board.here()) + 1, len(board.locks()) + 1, width >= _TOGETHER
    drawn = min(hosts - 1, _STRIP_ROWS) + AROUND + 1
    tall = min(hosts, left // 2) if together else hosts + min(locks, _LOCKS)
    striped = progress.phase != "starting" and room >= _ROOMY and left >= drawn + tall
    left -= drawn * striped
    if together:
        hosts, locks, half = min(hosts, left), min(locks, left), width * 9 // 20
        both = Table.grid(Column(width=half), Column(ratio=1), padding=_GAP, expand=True)
        both.add_row(_hosts(board, progress.now, half, hosts), _locks(board, progress.now, width - half - 2, locks))
        lines.append(both)
        used = max(hosts, locks)
    else:
        locks = 0 if left < _SHORT else min(locks, max(left // 3 - 1, _FEWEST_LOCKS, left - hosts))
        hosts = min(hosts, left - locks)
        lines += [_hosts(board, progress.now, width, hosts), _locks(board, progress.now, width, locks)]
        used = max(hosts, 0) + locks
    if striped:
        met = [(at, at, first, second) for at, first, second in board.overlapped]
        lines += [Text(), *strip(board, width, drawn - AROUND - 1, now=progress.now, overlaps=met)]
    return Group(*lines, *_events(board, room - used - drawn * striped))


def _title(board: Board, progress: Progress, width: int) -> list[RenderableType]:
    ready, here = len(board.alive()), len(board.here())
    words = {
        "starting": f"{ready} of {count(here, 'host')} ready",
        "working": "work comes in",
        "settling": f"waiting for {' and '.join(progress.waits) or 'the rest'}",
        "stopping": "the hosts stop",
    }
    setup = board.history.setup
    hosts = fleet_of(here, same_app=bool(setup.get("same_app")), apps=len(setup.get("sites") or ()))
    overlaps = (count(len(board.overlapped), "overlap"), "bold red" if board.overlapped else "green")
    bodies = count(len(board.history.sections), "body", "bodies")
    now = f"{max(progress.now - board.history.start, 0):4.0f} s"
    phase = middle(words[progress.phase], max(width // 2, 1))
    wide = max(width - cell_len(phase) - 2, 0)
    share = progress.elapsed / progress.duration if progress.duration else 1.0
    if progress.phase == "starting":
        share = ready / max(here, 1)
    done = int(wide * min(share, 1.0))
    return [
        _sides(
            Text.assemble(("singleton-sim", "bold"), f"  {hosts}"), Text.assemble(f"{bodies}, ", overlaps, f"  {now}")
        ),
        one_line(("━" * done, "cyan"), ("─" * (wide - done), "dim"), (f"  {phase}", "dim")),
    ]


def _faults(board: Board, now: float) -> list[RenderableType]:
    under_way = [fault for fault in reversed(board.history.faults) if fault.end == math.inf]
    lines: list[RenderableType] = []
    for number, fault in enumerate(under_way[:_FAULTS], 1):
        left = "" if fault.seconds is None else f"{max(fault.start + fault.seconds - now, 0):.0f} s left"
        if number == _FAULTS and len(under_way) > _FAULTS:
            left += f"; {len(under_way) - _FAULTS} more"
        what = Text.assemble(("!", "bold yellow"), (f" {printable(fault.what)}", "yellow"))
        lines.append(_sides(what, Text(left.lstrip("; "), style="dim")))
    return lines


def _hosts(board: Board, now: float, width: int, height: int) -> RenderableType:
    history, paused = board.history, board.paused()
    places = {host: place for place, host in enumerate(board.hosts)}
    here = sorted(board.here(), key=lambda host: places[history.first(host)])
    waiting = Counter(wait.host for wait in board.waiting())
    done = Counter(body.host for body in history.sections if body.ending in {"ok", "error", "lost"})
    skipped = Counter(refusal.host for refusal in history.refusals)
    inside: dict[str, list[Section]] = defaultdict(list)
    for body in board.inside():
        inside[body.host].append(body)
    states = {host: "paused" if host in paused else board.state(host) for host in here}

    def quiet(host: str) -> int:
        if states[host] == "starting" and host not in history.hosts:
            return 3  # it has not been started yet
        if states[host] != "ready" or inside[host]:
            return 0
        return 1 if waiting[host] else 2

    titles = "waiting done skipped" if width >= _WITH_NUMBERS else "waiting"
    table = _table(_column("host"), _column("state"), _column("inside", wide=True), *_numbers(titles))
    shown, more = _chosen(here, height - 1, quiet)
    for host in shown:
        numbers = [str(waiting[host] or ""), str(done[host]), str(skipped[host] or "")][: len(titles.split())]
        state = Text(states[host], style=STATES[states[host]])
        table.add_row(Text(middle(host, _HOST)), state, _Fitted(partial(_inside, inside[host], now)), *numbers)
    return _with_more(table, more, "host", height)


class _Fitted:
    """A text that is made for its width."""

    def __init__(self, make: Callable[[int], Text]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._make(options.max_width)


def _inside(bodies: list[Section], now: float, room: int) -> Text:
    text = one_line()
    for number, body in enumerate(bodies):
        since = f" {max(now - body.start, 0):.1f} s"
        rest = len(bodies) - number - 1
        more = len(f" +{rest}") if rest else 0
        name = middle(label(body.lock), min(max(room - len(since) - more, 4), _NAME if len(bodies) > 1 else room))
        needed = text.cell_len + 2 + cell_len(name + since) + more
        if text and needed > room:
            text.append(f" +{rest + 1}", "dim")
            break
        text.append("  " if text else "")
        text.append(name, "cyan")
        text.append(since, "dim")
    return text


def _locks(board: Board, now: float, width: int, height: int) -> RenderableType:
    tokens = width >= _WITH_TOKENS
    names = "token waiting bodies" if tokens else "waiting bodies"
    table = _table(_column("lock", wide=True), _column("holder"), *_numbers(names))
    shown, more = _chosen(board.locks(), height - 1, lambda row: not row.holder and not row.waiting)
    for row in shown:
        dead = "" if row.orphaned is None else f", dead for {max(now - row.orphaned, 0):.1f} s"
        holder = Text(middle(row.holder + dead, max(width // 3, 8)), style="red" if dead else "")
        token = ["" if row.token is None else str(row.token)] if tokens else []
        name = _Fitted(partial(_name, label(row.lock)))
        table.add_row(name, holder, *token, str(row.waiting or ""), str(row.sections))
    return _with_more(table, more, "lock", height)


def _name(lock: str, room: int) -> Text:
    return Text(middle(lock, room), style="cyan")


def _sides(left: Text, right: Text) -> Table:
    """Build a line with a part at each edge; the right part stays whole if only a single part has room."""
    line = Table.grid(_column(wide=True), _column(), padding=_GAP, expand=True)
    line.add_row(left, right)
    return line


def _table(*columns: Column) -> Table:
    return Table(*columns, box=None, padding=_GAP, pad_edge=False, expand=True, header_style="dim")


def _column(title: str = "", *, wide: bool = False) -> Column:
    """Build a column; a wide one takes the rest of the width."""
    return Column(title, no_wrap=True, overflow="ellipsis", ratio=1 if wide else None)


def _numbers(titles: str) -> list[Column]:
    return [Column(title, justify="right", no_wrap=True, overflow="ellipsis") for title in titles.split()]


def _chosen(things: Sequence[T], room: int, quiet: Callable[[T], int]) -> tuple[list[T], int]:
    """Choose what there is room for, in its order, the quietest last; return also how many are left out."""
    if len(things) <= room:
        return list(things), 0
    kept = max(room - 1, 0)
    ranked = sorted(range(len(things)), key=lambda number: quiet(things[number]))
    return [things[number] for number in sorted(ranked[:kept])], len(things) - kept


def _with_more(table: Table, more: int, what: str, height: int) -> RenderableType:
    rest = Text(f"… {count(more, f'more {what}')}", style="dim")
    shown: list[RenderableType] = [table, rest] if more and height > 1 else [table] if height > 0 else []
    return Group(*shown)


def _events(board: Board, height: int) -> list[RenderableType]:
    if height < 1:
        return []
    lines: list[RenderableType] = [Rule(style="dim")]
    for event in list(board.events)[-height + 1 :] if height > 1 else ():
        at = (f"{max(event.t - board.history.start, 0):6.1f} s  ", "dim")
        lines.append(one_line(at, (event.text, TONES[event.tone])))
    return lines
