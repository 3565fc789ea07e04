"""How locks are listed: in columns, or, where a terminal is too narrow for them, in a few lines each.

A name is never cut, so that it can be copied. Where the output is no terminal, nothing is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from singleton.cli.lines import terminal_width
from singleton.cli.words import YOUNG, function_of, plain, scope_of, span, state_of, who

if TYPE_CHECKING:
    from singleton.base.holder import Holder
    from singleton.operating.locks import LockInfo

HEADS: Final = ("STATE", "FUNCTION", "SCOPE", "FOR", "HOLDER", "NAME")
_WIDEST: Final = 76
"""Characters of a column: a long scope must not push the names out of sight."""
_GAP: Final = "  "
_INDENT: Final = 4
_SHORTEST: Final = 5
"""Characters of an instance's name that are shown in any case."""


def who_within(holder: Holder, room: int) -> str:
    """Say who has a lock, in so many characters if that can be: the middle of the instance's name is left out."""
    said = who(holder)
    if holder.host is None or len(said) <= room:
        return said
    left = max(_SHORTEST, len(holder.host) - (len(said) - room))
    return who(replace(holder, host=without_middle(holder.host, left)))


def without_middle(text: str, length: int) -> str:
    """Return a text in at most so many characters, with both its ends.

    >>> without_middle("0123456789abcdef", 7), without_middle("short", 7)
    ('012…def', 'short')
    """
    if len(text) <= length:
        return text
    end = (length - 1) // 2
    return f"{text[: length - 1 - end]}…{text[len(text) - end :]}"


class Table:
    """Locks as lines. The first say how wide the columns are, so that the others need not be known."""

    def __init__(self, first: list[tuple[LockInfo, float]]) -> None:
        """Write these, each with the service's clock; and the heads, where there are columns."""
        rows = [_cells(lock, now) for lock, now in first]
        columns = zip(*[HEADS, *rows], strict=True)
        self._widths = [min(_WIDEST, max(len(cell) for cell in column)) for column in columns]
        self._width = terminal_width()
        whole = max(sum(self._widths[:-1]) + len(_GAP) * (len(HEADS) - 1) + len(cells[-1]) for cells in [HEADS, *rows])
        self._narrow = self._width is not None and whole > self._width
        if not self._narrow:
            self._line(HEADS)
        for lock, now in first:
            self.write(lock, now)

    def write(self, lock: LockInfo, now: float) -> None:
        """Write one more."""
        cells = _cells(lock, now)
        if not self._narrow:
            self._line(cells)
            return
        *facts, _, name = cells
        state, function, scope, held_for = facts
        indent = " " * _INDENT
        click.echo(name)
        click.echo(indent + _GAP.join(fact for fact in (f"{state} {held_for}".strip(), function, scope) if fact))
        if lock.holder:
            click.echo(indent + who_within(lock.holder, (self._width or 0) - _INDENT))
        elif had := _who_had(lock):
            click.echo(indent + had)

    def _line(self, cells: tuple[str, ...]) -> None:
        *others, last = zip(cells, self._widths, strict=True)
        line = _GAP.join([cell.ljust(width) for cell, width in others] + [last[0]])
        click.echo(line.rstrip())


def _who_had(lock: LockInfo) -> str:
    """Say who let a lease run out, where that is recorded: as a rule it crashed."""
    return f"was {who(lock.last)}" if lock.state == "expired" and lock.last.host else ""


def _cells(lock: LockInfo, now: float) -> tuple[str, ...]:
    since = lock.holder.since if lock.holder else None
    held_for = "" if since is None else span(now - since.timestamp())
    if lock.holder and lock.holder.renewed is False:
        held_for = YOUNG
    return (
        state_of(lock),
        function_of(lock),
        scope_of(lock),
        held_for,
        who(lock.holder) if lock.holder else _who_had(lock),
        plain(lock.name),
    )
