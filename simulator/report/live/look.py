"""The size and the characters of a terminal, and text that is cut to fit it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """How large a terminal is, and which characters it can show."""

    width: int = 80
    height: int = 24
    encoding: str = "utf-8"

    @property
    def unicode(self) -> bool:
        """Whether it shows more than ASCII."""
        return self.encoding.lower().startswith("utf")

    @property
    def glyphs(self) -> Mapping[str, str]:
        """The characters with a meaning, by their meaning."""
        return _UNICODE if self.unicode else _ASCII

    def safe(self, text: str) -> str:
        """Return text with nothing that the terminal can't show."""
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
    """A column of a table. A wide one takes what the others leave."""

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
