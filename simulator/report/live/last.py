"""The last screen: the verdict in words that need no explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from simulator.report.words import Line, fine_print, headline, summary

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict
    from simulator.report.live.look import Look

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
