"""Draw a run on a terminal: a live view on a screen of its own, then a timeline and the verdict, which stay.

The live view: the run, its faults, its hosts, its locks, a timeline if there is room, and what happened lately.
It never has more lines than the terminal, and no line is wider.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from simulator.checks.findings import count, fleet_of, label
from simulator.history.journal import clock
from simulator.report.strip import AROUND, TONES, Column, Look, beside, lanes, strip, table
from simulator.report.words import Line, Reporter, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Section
    from simulator.report.board import Board
    from simulator.report.words import Phase, Progress


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
_FEWEST_LOCKS: Final = 3
"""The fewest lines for locks: the titles, one lock, and the number of more locks."""
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


@dataclass(frozen=True, slots=True)
class _Heights:
    """The lines of each part; hosts and locks include the titles."""

    hosts: int
    locks: int
    strip: int
    events: int


def view(board: Board, progress: Progress, look: Look) -> list[Text]:
    """Build the lines of the live view."""
    top = [*_title(board, progress, look), *_faults(board, progress.now, look)]
    hosts, locks = len(board.here()), len(board.locks())
    together = look.width >= _TOGETHER
    strips = progress.phase != "starting"
    heights = _share(look.height - len(top), hosts + 1, locks + 1, together=together, strips=strips)
    if together:
        half = look.width * 9 // 20
        left = _hosts(board, progress.now, look, half, heights.hosts)
        right = _locks(board, progress.now, look, look.width - half - 2, heights.locks)
        middle = beside(look, left, right, half)
    else:
        middle = _hosts(board, progress.now, look, look.width, heights.hosts)
        middle += _locks(board, progress.now, look, look.width, heights.locks)
    lines = [*top, *middle]
    if heights.strip:
        met = [(at, at, first, second) for at, first, second in board.overlapped]
        lines += [Text(), *strip(board, look, heights.strip - AROUND - 1, now=progress.now, overlaps=met)]
    lines += _events(board, look, min(heights.events, look.height - len(lines)))
    return lines[: max(look.height, 1)]


def _share(room: int, hosts: int, locks: int, *, together: bool, strips: bool) -> _Heights:
    """Share the lines among the parts: hosts come first, and a timeline is drawn if there is room for all of it."""
    events = _EVENTS if room >= _TALL else _EVENTS_BELOW
    left = room - events
    drawn = min(hosts - 1, _STRIP_ROWS) + AROUND + 1
    tall = min(hosts, left // 2) if together else hosts + min(locks, _LOCKS)
    above = drawn if strips and room >= _ROOMY and left >= drawn + tall else 0
    left -= above
    if together:
        first, second = min(hosts, left), min(locks, left)
        used = max(first, second)
    else:
        second = 0 if left < _SHORT else min(locks, max(left // 3 - 1, _FEWEST_LOCKS, left - hosts))
        first = min(hosts, left - second)
        used = first + second
    return _Heights(max(first, 0), second, above, max(room - above - used, 0))


def _title(board: Board, progress: Progress, look: Look) -> list[Text]:
    ready, here = len(board.alive()), len(board.here())
    words = {
        "starting": f"{ready} of {count(here, 'host')} ready",
        "working": "work comes in",
        "settling": f"waiting for {' and '.join(progress.waits) or 'the rest'}",
        "stopping": "the hosts stop",
    }
    hosts = fleet_of(here, same_app=bool(board.history.setup.get("same_app")))
    left = Text.assemble(("singleton-sim", "bold"), f"  {hosts}")
    overlaps = (count(board.overlaps, "overlap"), "bold red" if board.overlaps else "green")
    bodies = count(len(board.history.sections), "body", "bodies")
    now = f"{max(progress.now - board.history.start, 0):4.0f} s"
    phase = look.middle(words[progress.phase], max(look.width // 2, 1))
    wide = max(look.width - cell_len(phase) - 2, 0)
    share = progress.elapsed / progress.duration if progress.duration else 1.0
    if progress.phase == "starting":
        share = ready / max(here, 1)
    done = int(wide * min(share, 1.0))
    bar = (look.glyphs["done"] * done, "cyan"), (look.glyphs["left"] * (wide - done), "dim")
    return [
        look.sides(left, Text.assemble(f"{bodies}, ", overlaps, f"  {now}")),
        look.line(*bar, (f"  {phase}", "dim")),
    ]


def _faults(board: Board, now: float, look: Look) -> list[Text]:
    under_way = sorted(board.faults.values(), key=lambda fault: fault.t, reverse=True)
    lines = []
    for number, fault in enumerate(under_way[:_FAULTS], 1):
        left = "" if fault.planned is None else f"{max(fault.planned - now, 0):.0f} s left"
        if number == _FAULTS and len(under_way) > _FAULTS:
            left += f"; {len(under_way) - _FAULTS} more"
        what = Text.assemble((look.glyphs["fault"], "bold yellow"), (f" {look.safe(fault.what)}", "yellow"))
        lines.append(look.sides(what, Text(left.lstrip("; "), style="dim")))
    return lines


def _hosts(board: Board, now: float, look: Look, width: int, height: int) -> list[Text]:
    history, paused = board.history, board.paused()
    places = {lane: place for place, lane in enumerate(board.hosts)}
    in_place_of = lanes(board)
    here = sorted(board.here(), key=lambda host: places[in_place_of[host]])
    waiting = Counter(wait.host for wait in board.waiting())
    done = Counter(body.host for body in history.sections if body.ending in {"ok", "error", "lost"})
    skipped = Counter(refusal.host for refusal in history.refusals)
    inside: dict[str, list[Section]] = defaultdict(list)
    for body in board.inside():
        inside[body.host].append(body)
    columns = [
        Column("host", most=_HOST),
        Column("state"),
        Column("inside", wide=True),
        Column("waiting", right=True),
        Column("done", right=True),
        Column("skipped", right=True),
    ]
    states = {host: "paused" if host in paused else board.state(host) for host in here}
    taken = min(max(map(len, here), default=0), _HOST) + max(map(len, states.values()), default=0)
    taken += sum(len(column.title) for column in columns if column.right)
    room = max(width - max(taken, len("hoststate")) - 2 * (len(columns) - 1), 8)

    def quiet(host: str) -> int:
        if states[host] == "starting" and host not in history.hosts:
            return 3  # it has not been started yet
        if states[host] != "ready" or inside[host]:
            return 0
        return 1 if waiting[host] else 2

    shown, more = _chosen(here, height - 1, quiet)
    rows = []
    for host in shown:
        numbered = (str(waiting[host] or ""), str(done[host]), str(skipped[host] or ""))
        cells = [Text(host), Text(states[host], style=STATES[states[host]]), _inside(inside[host], now, look, room)]
        rows.append([*cells, *map(Text, numbered)])
    return _with_more(table(look, width, columns, rows), more, "host", look, height)


def _inside(bodies: list[Section], now: float, look: Look, room: int) -> Text:
    text = Text()
    for number, body in enumerate(bodies):
        since = f" {max(now - body.start, 0):.1f} s"
        rest = len(bodies) - number - 1
        more = len(f" +{rest}") if rest else 0
        name = look.middle(label(body.lock), min(max(room - len(since) - more, 4), _NAME if len(bodies) > 1 else room))
        needed = text.cell_len + 2 + cell_len(name + since) + more
        if text and needed > room:
            text.append(f" +{rest + 1}", "dim")
            break
        text.append("  " if text else "")
        text.append(name, "cyan")
        text.append(since, "dim")
    return text


def _locks(board: Board, now: float, look: Look, width: int, height: int) -> list[Text]:
    columns = [
        Column("lock", wide=True),
        Column("holder", most=max(width // 3, 8)),
        *([Column("token", right=True)] if width >= _WITH_TOKENS else []),
        Column("waiting", right=True),
        Column("bodies", right=True),
    ]
    shown, more = _chosen(board.locks(), height - 1, lambda row: not row.holder and not row.waiting)
    rows = []
    for row in shown:
        holder = Text(row.holder)
        if row.orphaned is not None:
            holder = Text(f"{row.holder}, dead for {max(now - row.orphaned, 0):.1f} s", style="red")
        token = [] if width < _WITH_TOKENS else ["" if row.token is None else str(row.token)]
        name = Text(look.safe(label(row.lock)), style="cyan")
        rows.append([name, holder, *map(Text, (*token, str(row.waiting or ""), str(row.sections)))])
    return _with_more(table(look, width, columns, rows), more, "lock", look, height)


def _chosen(things: Sequence[T], room: int, quiet: Callable[[T], int]) -> tuple[list[T], int]:
    """Choose what there is room for, in its order, the quietest last; return also how many are left out."""
    if len(things) <= room:
        return list(things), 0
    kept = max(room - 1, 0)
    ranked = sorted(range(len(things)), key=lambda number: quiet(things[number]))
    return [things[number] for number in sorted(ranked[:kept])], len(things) - kept


def _with_more(lines: list[Text], more: int, what: str, look: Look, height: int) -> list[Text]:
    if more:
        lines.append(Text(f"{look.glyphs['dots']} {count(more, f'more {what}')}", style="dim"))
    return lines[: max(height, 0)]


def _events(board: Board, look: Look, height: int) -> list[Text]:
    if height < 1:
        return []
    lines = [Text(look.glyphs["left"] * look.width, style="dim")]
    for event in list(board.events)[-height + 1 :] if height > 1 else ():
        at = (f"{max(event.t - board.history.start, 0):6.1f} s  ", "dim")
        lines.append(look.line(at, (look.safe(event.text), TONES[event.tone])))
    return lines
