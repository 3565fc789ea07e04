"""Output of the commands: lines as wide as the terminal, time spans, locks as blocks, as a table and as JSON.

A name or an id is never cut, so that a user can copy it. Where the output is no terminal, no line is broken.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.holder_record import Holder, what_ends
from singleton.base.words import quoted
from singleton.locking.seat import seat_name
from singleton.operating.locks import LockInfo, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

_INDENT: Final = 4


def terminal_width(*, err: bool = False) -> int | None:
    """Return the characters of a terminal line; None for an output that is no terminal."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def say(text: str, *, first: str = "", indent: int = _INDENT, err: bool = False) -> None:
    """Write a text, on a terminal in lines that fit.

    ``first``: beginning of the first line, written unchanged; ``indent``: number of spaces before each further line.
    """
    width = terminal_width(err=err)
    if width is not None and len(first) + len(text) > width:
        text = textwrap.fill(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        first = ""
    click.echo(first + text, err=err)


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhdw])\s*\Z")
_STATES: Final = {"leased": "held", "breaking": "ending", "available": "free", "expired": "expired", "broken": "free"}
_FACTS: Final = 15
"""Columns before the facts of a lock."""
YOUNG: Final = "new"
"""Age of a hold before the first renewal: less than half a lease period."""


def span_of(least: float = 0.0) -> Callable[[str], float]:
    """Make what reads an option with a time span such as ``7d``, ``12h`` or ``90s``, of ``least`` seconds at least."""

    def read(text: str) -> float:
        match = _SPAN.match(text)
        if match is None:
            raise click.BadParameter(
                f"{quoted(text)} is not a time span: give a number and a unit (s, m, h, d or w), such as 7d"
            )
        seconds = float(match[1]) * _UNITS[match[2]]
        if seconds < least:
            raise click.BadParameter(
                f"{quoted(text)} is too short: give at least {span(least) if least >= 1 else f'{least:g} s'}"
            )
        return seconds

    return read


def span(seconds: float) -> str:
    """Return a time span in words, in the two greatest units.

    >>> span(3), span(134), span(7 * 86_400), span(90_061)
    ('3 s', '2 min 14 s', '7 d', '1 d 1 h')
    """
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        many, left = divmod(left, size)
        if many:
            parts.append(f"{many:,} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def plain(text: str) -> str:
    """Return the text with escapes for control characters: one line, harmless for a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def state_of(lock: LockInfo) -> str:
    """Return the state of a lock in words."""
    if isinstance(lock, Waiting):
        return "seat held for ever" if lock.endless else "waits"
    return "held for ever" if lock.held and lock.endless else _STATES[lock.state]


def function_of(lock: LockInfo) -> str:
    """Return the function of a lock; with a question mark for the function of a possibly earlier hold."""
    function = plain(lock.function or "")
    return function if lock.function_sure or not function else f"{function}?"


def scope_of(lock: LockInfo) -> str:
    """Say a lock's scope."""
    said = ", ".join(plain(value) for value in lock.scope) + ("…" if lock.cut else "")
    if lock.listener:
        said = f"{said} (listener)".strip()
    return f"{said} slot {lock.slot}".strip() if lock.slot is not None else said


def who(holder: Holder) -> str:
    """Return a holder in words. The record of a young hold may name an earlier owner of the same process."""
    parts = [f"instance {holder.host}" if holder.host else "", f"pid {holder.pid}" if holder.pid else ""]
    owner = f"invocation {holder.owner}" if holder.owner and holder.function else holder.owner
    if owner and holder.renewed is False:
        owner += ", or a later one of that process"
    endless = "a lease without an end" if holder.endless else ""
    told = [plain(part) for part in (*parts, owner or "", endless) if part]
    return ", ".join(told) or "a holder that is not recorded"


def block(lock: LockInfo, waiting: LockInfo | None, now: float, break_command: Callable[[str], str]) -> None:
    """Write all facts of a lock, and who waits in its seat."""
    click.echo(plain(lock.name))
    said = state_of(lock)
    stamp = lock.holder or lock.last
    since = stamp.since
    if lock.holder and since:
        said += f" since {moment(since)} ({span(now - since.timestamp())})"
    elif lock.holder and lock.holder.renewed is False:
        said += ", for less than half of its lease period"
    facts = {
        "state": said,
        "lease": lock.holder and lock.endless and f"without an end: {what_ends(plain(break_command(lock.name)))}",
        "app": lock.app and plain(lock.app),
        "function": function_of(lock),
        "scope": scope_of(lock),
        "holder" if lock.holder else "last holder": None if stamp.host is None and lock.holder is None else who(stamp),
        "seat" if waiting and waiting.endless else "waits": waiting and _on_seat(waiting, break_command),
        "token": stamp.token,
        "last stamp"
        if stamp.recorded or stamp.owner
        else "last written": f"{moment(lock.modified)} ({span(now - lock.modified.timestamp())} ago)",
    }
    for key, value in facts.items():
        if value:
            say(str(value), first=f"  {key:<12} ", indent=_FACTS)


def _on_seat(waiting: LockInfo, break_command: Callable[[str], str]) -> str:
    """Say who waits in a seat, or what ends a lease without an end."""
    said = "" if waiting.holder is None else who(waiting.holder)
    return f"{said}: {what_ends(plain(break_command(seat_name(waiting.name))))}" if waiting.endless else said


def counted(many: int, what: str) -> str:
    """Return a number with a noun.

    >>> counted(1, "lock"), counted(1200, "lock")
    ('1 lock', '1,200 locks')
    """
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def rate(many: int, seconds: float) -> str:
    """Return a rate in words.

    >>> rate(1200, 2.0), rate(8, 19.5)
    ('600 a second', '25 a minute')
    """
    each = many / max(seconds, 1e-9)
    return f"{each:,.0f} a second" if each >= 1 or not many else f"{each * 60:,.0f} a minute"


_IN_JSON: Final = (
    *("name", "state", "held", "app", "function", "function_sure", "scope", "level", "listener", "slot", "cut"),
    "endless",
)


def as_dict(lock: LockInfo) -> dict[str, Any]:
    """Return a lock as JSON has it."""
    return {
        **{key: getattr(lock, key) for key in _IN_JSON},
        "waits": isinstance(lock, Waiting),
        "modified": lock.modified.isoformat(),
        "holder": lock.holder and holder_dict(lock.holder),
        "last": holder_dict(lock.last),
    }


def holder_dict(holder: Holder) -> dict[str, Any]:
    """Return a holder as JSON has it."""
    return {
        "instance": holder.host,
        "pid": holder.pid,
        "invocation": holder.owner,
        "function": holder.function,
        "since": holder.since and holder.since.isoformat(),
        "recorded": holder.recorded and holder.recorded.isoformat(),
        "renewed": holder.renewed,
        "token": holder.token,
    }


def moment(when: datetime) -> str:
    """Say a moment, in UTC."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(at: float) -> str:
    """Return a moment as JSON has it.

    >>> iso(1795384159.25)
    '2026-11-22T21:49:19.250000+00:00'
    """
    return datetime.fromtimestamp(at, UTC).isoformat()


class AnswerState:
    """Whether the command has begun to write the answer: later errors go to the error stream only."""

    answer = False


def write_json(value: object, end: str = "\n", *, streamed: bool = False) -> None:
    """Write a value as one line of JSON: the answer or a part of the answer; ``streamed``: one of many lines."""
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.obj, AnswerState) and not streamed:
        context.obj.answer = True
    click.echo(json.dumps(value) + end, nl=False)


class Progress:
    """A line of progress on the error stream, now and then; on a terminal always the same line."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = False

    @property
    def seconds(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self._start

    def show(self, count: int, more: str = "") -> None:
        """Write the progress, if the last line is old enough."""
        if time.monotonic() - self._last < (0.5 if self._terminal else 5.0):
            return
        self._last = time.monotonic()
        what = self._what.replace("blobs", "blob", 1) if count == 1 else self._what
        line = f"{count:,} {what}, {rate(count, self.seconds)}{more}"
        click.echo(f"\r{line}\x1b[K" if self._terminal else line, err=True, nl=not self._terminal)
        self._shown = self._terminal

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False


HEADS: Final = ("STATE", "FUNCTION", "SCOPE", "FOR", "HOLDER", "NAME")
_WIDEST: Final = 76
"""Characters of a column: a long scope must not push the names out of sight."""
_GAP: Final = "  "
_SHORTEST: Final = 5
"""Characters of an instance's name that are shown in any case."""


def who_within(holder: Holder, room: int) -> str:
    """Return a holder in words, in ``room`` characters if possible, without the middle of the instance's name."""
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
    """Locks as lines. The first lines decide the widths of the columns, so no line waits for the last."""

    def __init__(self, first: list[tuple[LockInfo, float]]) -> None:
        """Write the first locks, each with the service's clock in seconds; before, the heads of columns."""
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
        """Write a lock."""
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
    """Return the last holder of an expired lease in words, if recorded: as a rule a crashed process."""
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
