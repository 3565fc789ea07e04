"""A small timeline for a terminal: a row a host, a column a piece of time.

A column shows the most important thing of its time: an overlap, a death, a take-over, a fault, a pause, a body, a wait.
Each has a character of its own, so colours are not needed.
"""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells
from rich.text import Text

from simulator.checks.findings import count
from simulator.report.timeline.timeline import FOLDED, ran_no_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.report.board import Board


AROUND: Final = 2
"""Lines beside the rows: the times above, and the meanings of the characters below."""
_CELLS: Final = {
    "gone": (" ", "", ""),
    "idle": ("·", "dim", ""),
    "wait": ("░", "dim", "waits"),
    "lasts": ("~", "yellow", "fault lasts"),
    "body": ("█", "cyan", "inside"),
    "pause": ("=", "yellow", "paused"),
    "fault": ("!", "yellow", "fault"),
    "drain": ("▼", "yellow", "drained"),
    "over": ("▲", "bold green", "took over"),
    "kill": ("✗", "bold red", "killed"),
    "overlap": ("◆", "bold red", "OVERLAP"),
}
"""Character, style and meaning of each thing, the least important first."""
_RANKS: Final = {name: rank for rank, name in enumerate(_CELLS)}
_DRAWN: Final = tuple(_CELLS.values())
_NAME: Final = 10
_BETWEEN: Final = 12  # columns from one time above the rows to the next, at least
_NICE: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)

Overlapped = tuple[float, float, str, str]
"""Begin and end of an overlap, and the two hosts."""


def strip(board: Board, width: int, rows: int, *, now: float, overlaps: Sequence[Overlapped]) -> list[Text]:
    """Draw the run up to ``now`` in at most so many rows, with two lines around them.

    If there are more hosts than rows, those to which something happened are shown. Hosts that ran no body share a row.
    """
    lane_of = {host: board.history.first(host) for host in board.hosts}
    name = min(max(map(len, lane_of.values()), default=0), _NAME)
    scale = _Scale(board.history.start, max(now, board.history.start + 1), max(width - name - 1, 1))
    cells = {lane: [0] * scale.width for lane in lane_of.values()}
    for host, start, end, rank in _spans(board, now, overlaps):
        if host in lane_of:
            row = cells[lane_of[host]]
            for column in range(scale.column(start), scale.column(end) + 1):
                row[column] = max(row[column], rank)
    quiet = [lane for lane, row in cells.items() if max(row) < _RANKS["body"]]
    if len(quiet) >= FOLDED:
        cells["quiet"] = [max(ranks) for ranks in zip(*map(cells.pop, quiet), strict=True)]
    shown = _most_telling(cells, rows)
    lines = [one_line((" " * (name + 1) + scale.times(), "dim"))]
    lines += [
        one_line((middle(lane, name).ljust(name + 1), "dim"), *(_DRAWN[rank][:2] for rank in cells[lane]))
        for lane in shown
    ]
    there = {rank for lane in shown for rank in cells[lane]}
    legend = [_DRAWN[rank] for rank in sorted(there, reverse=True) if _DRAWN[rank][2]]
    parts = [part for char, style, words in legend for part in ((char, style), (f" {words}  ", "dim"))]
    if len(cells) > len(shown):
        parts.append((count(len(cells) - len(shown), "more host") + "  ", "dim"))
    if len(quiet) >= FOLDED:
        parts.append((f"quiet: {ran_no_body(len(quiet))}", "dim"))
    return [*lines, one_line(*parts)]


class _Scale:
    def __init__(self, start: float, end: float, width: int) -> None:
        self._start = start
        self._span = end - start
        self.width = width

    def column(self, t: float) -> int:
        return min(max(int((t - self._start) / self._span * self.width), 0), self.width - 1)

    def times(self) -> str:
        """Write the times above the rows, at round numbers."""
        step = next((step for step in _NICE if step / self._span * self.width >= _BETWEEN), _NICE[-1])
        line = [" "] * self.width
        for number in range(int(self._span / step) + 1):
            at, words = self.column(self._start + number * step), f"{number * step:g} s"
            if at + len(words) <= self.width and not "".join(line[max(at - 1, 0) : at + len(words)]).strip():
                line[at : at + len(words)] = words
        return "".join(line)


def _spans(board: Board, now: float, overlaps: Sequence[Overlapped]) -> Iterator[tuple[str, float, float, int]]:
    """Yield what happened: on which host, from when until when, and its rank."""
    history = board.history
    for host in board.hosts:
        yield host, board.again.get(host, history.start), board.ended.get(host, now), _RANKS["idle"]
    spans: Iterable[tuple[str, Iterable[tuple[str, float, float]]]] = (
        ("wait", ((wait.host, wait.start, wait.end) for wait in history.waits)),
        ("body", ((body.host, body.start, body.end) for body in history.sections)),
        ("pause", ((pause.host, pause.start, pause.end) for pause in history.pauses)),
        ("lasts", ((host, fault.start, fault.end) for fault in history.faults for host in fault.hosts)),
        ("fault", ((host, fault.start, fault.start) for fault in history.faults for host in fault.hosts)),
        ("drain", ((drain.host, drain.t, drain.t) for drain in history.drains)),
        ("over", ((host, t, t) for t, host in board.taken)),
        ("kill", ((kill.host, kill.t, kill.t) for kill in history.kills)),
        ("overlap", ((host, start, end) for start, end, *two in overlaps for host in two)),
    )
    for name, things in spans:
        for host, start, end in things:
            yield host, start, now if end == math.inf else end, _RANKS[name]


def _most_telling(cells: dict[str, list[int]], rows: int) -> list[str]:
    def telling(lane: str) -> tuple[int, int]:
        marks = [rank for rank in cells[lane] if rank >= _RANKS["pause"]]
        return max(marks, default=0), len(marks)

    best = sorted(cells, key=telling, reverse=True)[: max(rows, 0)]
    return [lane for lane in cells if lane in best]


def one_line(*parts: str | tuple[str, str]) -> Text:
    """Build a line that ends in dots where its place is too narrow."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def middle(text: str, width: int) -> str:
    """Return text in at most so many columns; if it is longer, its middle is left out."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 2
    head = chop_cells(text, width - 1 - tail)[0]
    backwards = chop_cells(text[::-1], tail)[0] if tail else ""
    return f"{head}…{backwards[::-1]}"


_LOOKALIKES: Final = str.maketrans("…━─·░█▼▲✗✓◆", "~=-.:#v^x+@")
LOOKALIKE: Final = "simulator.lookalike"
"""The name of the way in which a stream writes characters that its encoding lacks, for `TextIOWrapper.reconfigure`."""


def _lookalike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    alike = error.object[error.start : error.end].translate(_LOOKALIKES)
    return alike.encode("ascii", "replace").decode(), error.end


codecs.register_error(LOOKALIKE, _lookalike)
