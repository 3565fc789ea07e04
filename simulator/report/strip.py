"""The characters of a terminal, text that is cut to fit, and a small timeline: a row a host, a column a piece of time.

A column shows the most important thing of its time: an overlap, a death, a take-over, a fault, a pause, a body, a wait.
Each has a character of its own, so colours are not needed.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells
from rich.text import Text

from simulator.checks.findings import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.report.board import Board


AROUND: Final = 2
"""Lines beside the rows: the times above, and the meanings of the characters below."""
_RANKS: Final = (
    "gone",
    "idle",
    "wait",
    "lasts",
    "body",
    "pause",
    "fault",
    "drain",
    "over",
    "kill",
    "overlap",
)
"""Ranks, the least important first."""
_LEGEND: Final = ("overlap", "kill", "over", "drain", "pause", "body", "wait", "fault", "lasts")
_WORDS: Final = {
    "wait": "waits",
    "lasts": "fault lasts",
    "body": "inside",
    "pause": "paused",
    "fault": "fault",
    "drain": "drained",
    "over": "took over",
    "kill": "killed",
    "overlap": "OVERLAP",
}
_STYLES: Final = {
    "idle": "dim",
    "wait": "dim",
    "lasts": "yellow",
    "body": "cyan",
    "pause": "yellow",
    "fault": "yellow",
    "drain": "yellow",
    "over": "bold green",
    "kill": "bold red",
    "overlap": "bold red",
}
_NAME: Final = 10
_BETWEEN: Final = 12  # columns from one time above the rows to the next, at least
_NICE: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
_WORTH: Final = _RANKS.index("pause")

Overlapped = tuple[float, float, str, str]
"""Begin and end of an overlap, and the two hosts."""


def strip(board: Board, look: Look, rows: int, *, now: float, overlaps: Sequence[Overlapped]) -> list[Text]:
    """Draw the run up to ``now`` in at most so many rows, with two lines around them.

    If there are more hosts than rows, those to which something happened are shown.
    """
    lane_of = lanes(board)
    name = min(max(map(len, lane_of.values()), default=0), _NAME)
    width = max(look.width - name - 1, 1)
    scale = _Scale(board.history.start, max(now, board.history.start + 1), width)
    drawn = {lane: _Lane(scale) for lane in dict.fromkeys(lane_of.values())}
    for host, start, end, rank in _spans(board, now, overlaps):
        if host in lane_of:
            drawn[lane_of[host]].put(start, end, rank)
    shown = _most_telling(drawn, rows)
    lines = [scale.above(name + 1, look)]
    lines += [
        Text.assemble((look.middle(lane, name).ljust(name + 1), "dim"), drawn[lane].text(look), no_wrap=True)
        for lane in shown
    ]
    return [*lines, _legend(look, {rank for lane in shown for rank in drawn[lane].cells}, len(drawn) - len(shown))]


class _Scale:
    def __init__(self, start: float, end: float, width: int) -> None:
        self.start = start
        self.end = end
        self.width = width

    def column(self, t: float) -> int:
        share = (t - self.start) / (self.end - self.start)
        return min(max(int(share * self.width), 0), self.width - 1)

    def above(self, indent: int, look: Look) -> Text:
        """Write the times above the rows, at round numbers."""
        span = self.end - self.start
        step = next((step for step in _NICE if step / span * self.width >= _BETWEEN), _NICE[-1])
        line = [" "] * self.width
        for number in range(int(span / step) + 1):
            at, words = self.column(self.start + number * step), f"{number * step:g} s"
            if at + len(words) <= self.width and not "".join(line[max(at - 1, 0) : at + len(words)]).strip():
                line[at : at + len(words)] = words
        return look.cut(Text(" " * indent + "".join(line), style="dim"), look.width)


class _Lane:
    def __init__(self, scale: _Scale) -> None:
        self._scale = scale
        self.cells = [0] * scale.width

    def put(self, start: float, end: float, rank: int) -> None:
        last = self._scale.column(min(end, self._scale.end))
        for column in range(self._scale.column(start), last + 1):
            self.cells[column] = max(self.cells[column], rank)

    def text(self, look: Look) -> Text:
        text = Text()
        for rank in self.cells:
            name = _RANKS[rank]
            text.append(look.glyphs[name], _STYLES.get(name, ""))
        return text


def lanes(board: Board) -> dict[str, str]:
    """Return for each host the name of its row: the name of the first host in the same place."""
    found: dict[str, str] = {}
    for host in board.hosts:
        _, before = board.restarted.get(host, (0.0, ""))
        found[host] = found.get(before, before) or host
    return found


def _spans(board: Board, now: float, overlaps: Sequence[Overlapped]) -> Iterator[tuple[str, float, float, int]]:
    """Yield what happened: on which host, from when until when, and its rank."""
    history = board.history
    for host in board.hosts:
        since, _ = board.restarted.get(host, (history.start, ""))
        yield host, since, board.ended.get(host, now), _RANKS.index("idle")
    spans: Iterable[tuple[str, Iterable[tuple[str, float, float]]]] = (
        ("wait", ((wait.host, wait.start, wait.end) for wait in history.waits)),
        ("body", ((body.host, body.start, body.end) for body in history.sections)),
        ("pause", ((pause.host, pause.start, pause.end) for pause in history.pauses)),
        ("lasts", ((host, fault.t, fault.until) for fault in board.struck for host in fault.hosts)),
        ("fault", ((host, fault.t, fault.t) for fault in board.struck for host in fault.hosts)),
        ("drain", ((host, t, t) for t, host in board.drained)),
        ("over", ((host, t, t) for t, host in board.taken)),
        ("kill", ((kill.host, kill.t, kill.t) for kill in history.kills)),
        ("overlap", ((host, start, end) for start, end, *two in overlaps for host in two)),
    )
    for name, things in spans:
        rank = _RANKS.index(name)
        for host, start, end in things:
            yield host, start, now if end == math.inf else end, rank


def _most_telling(lanes: dict[str, _Lane], rows: int) -> list[str]:
    if len(lanes) <= rows:
        return list(lanes)

    def telling(lane: str) -> tuple[int, int]:
        marks = [rank for rank in lanes[lane].cells if rank >= _WORTH]
        return max(marks, default=0), len(marks)

    best = set(sorted(lanes, key=telling, reverse=True)[: max(rows, 0)])
    return [lane for lane in lanes if lane in best]


def _legend(look: Look, ranks: set[int], missing: int) -> Text:
    there = {_RANKS[rank] for rank in ranks}
    parts: list[str | tuple[str, str]] = []
    for name in _LEGEND:
        if name in there:
            parts += [(look.glyphs[name], _STYLES[name]), (f" {_WORDS[name]}  ", "dim")]
    if missing > 0:
        parts.append((f"{count(missing, 'more host')}", "dim"))
    return look.line(*parts)


TONES: Final = {"plain": "", "good": "green", "bad": "red", "faint": "dim"}
_UNICODE: Final = {
    "dots": "…",
    "done": "━",
    "left": "─",
    "gone": " ",
    "idle": "·",
    "wait": "░",
    "lasts": "~",
    "body": "█",
    "pause": "=",
    "fault": "!",
    "drain": "▼",
    "over": "▲",
    "kill": "✗",
    "overlap": "◆",
}
_ASCII: Final = _UNICODE | {
    "dots": "~",
    "done": "=",
    "left": "-",
    "idle": ".",
    "wait": ":",
    "body": "#",
    "drain": "v",
    "over": "^",
    "kill": "x",
    "overlap": "@",
}
_GAP: Final = 2
_LEAST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The size of a terminal, and the characters that the terminal can show."""

    width: int = 80
    height: int = 24
    encoding: str = "utf-8"

    @property
    def unicode(self) -> bool:
        """Whether the terminal shows more than ASCII."""
        return self.encoding.lower().startswith("utf")

    @property
    def glyphs(self) -> Mapping[str, str]:
        """The characters with a meaning, by their meaning."""
        return _UNICODE if self.unicode else _ASCII

    def safe(self, text: str) -> str:
        """Return text without characters that the terminal can't show."""
        if self.unicode:
            return text
        return text.replace("…", self.glyphs["dots"]).encode(self.encoding, "replace").decode(self.encoding)

    def middle(self, text: str, width: int) -> str:
        """Return text in at most so many columns; if it is longer, its middle is left out."""
        text = self.safe(text)
        if cell_len(text) <= width:
            return text
        if width <= 1:
            return self.glyphs["dots"][:width]
        tail = (width - 1) // 2
        head = chop_cells(text, width - 1 - tail)[0]
        backwards = chop_cells(text[::-1], tail)[0] if tail else ""
        return head + self.glyphs["dots"] + backwards[::-1]

    def line(self, *parts: str | tuple[str, str]) -> Text:
        """Build one line, cut at the edge of the terminal."""
        return self.cut(Text.assemble(*parts), self.width)

    def cut(self, text: Text, width: int) -> Text:
        """Cut a text to a width, and end it in dots if something is missing."""
        text.no_wrap = True
        if text.cell_len <= width:
            return text
        kept = chop_cells(text.plain, max(width - 1, 1))[0]
        return Text.assemble(text[: len(kept)], self.glyphs["dots"]) if width > 0 else Text()

    def sides(self, left: Text, right: Text) -> Text:
        """Build one line with a part at each edge; the right one stays whole if there is room for one only."""
        room = self.width - right.cell_len - _GAP
        left = self.cut(left, max(room, 0))
        space = max(self.width - left.cell_len - right.cell_len, 0)
        return self.cut(Text.assemble(left, " " * space, right), self.width)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. A wide column takes the rest of the width."""

    title: str
    _: KW_ONLY
    right: bool = False
    wide: bool = False
    most: int = 1000


def table(look: Look, width: int, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> list[Text]:
    """Lay out a table: a line for the titles, and one for each row. No line is wider than ``width``."""
    titles = [Text(column.title, style="dim") for column in columns]
    sizes = [
        min(max(cell.cell_len for cell in cells), column.most)
        for column, *cells in zip(columns, titles, *rows, strict=True)
    ]
    others = sum(size for size, column in zip(sizes, columns, strict=True) if not column.wide)
    left = width - others - _GAP * (len(columns) - 1)
    sizes = [max(left, _LEAST) if column.wide else size for size, column in zip(sizes, columns, strict=True)]
    return [look.cut(_row(look, columns, sizes, row), width) for row in (titles, *rows)]


def _row(look: Look, columns: Sequence[Column], sizes: Sequence[int], cells: Sequence[Text]) -> Text:
    line = Text()
    for number, (column, size, cell) in enumerate(zip(columns, sizes, cells, strict=True)):
        shown = cell if cell.cell_len <= size else Text(look.middle(cell.plain, size), style=cell.style)
        space = " " * (size - shown.cell_len)
        line.append(" " * (_GAP if number else 0))
        line.append_text(Text.assemble(space, shown) if column.right else Text.assemble(shown, space))
    return line


def beside(look: Look, left: Sequence[Text], right: Sequence[Text], width: int) -> list[Text]:
    """Put two blocks of lines beside each other; ``width`` is that of the left one."""
    lines = []
    for number in range(max(len(left), len(right))):
        first = left[number] if number < len(left) else Text()
        second = right[number] if number < len(right) else Text()
        space = " " * (width + _GAP - first.cell_len)
        lines.append(look.cut(Text.assemble(first, space, second), look.width))
    return lines
