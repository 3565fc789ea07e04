"""What the commands write: locks as lines, as blocks and as JSON; time spans as people say them."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.words import quoted
from singleton.cli.lines import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.holder import Holder
    from singleton.operating.locks import LockInfo

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhdw])\s*\Z")
_STATES: Final = {"leased": "held", "breaking": "ending", "available": "free", "expired": "expired", "broken": "free"}
_FACTS: Final = 15
"""Columns before what is said of a lock."""
YOUNG: Final = "new"
"""How long a hold has lasted whose lease was not renewed yet: less than half a lease period."""


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
    """Say a time span in its two greatest units.

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
    """Return a text that stands on one line of a terminal and does nothing to it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def state_of(lock: LockInfo) -> str:
    """Say in which state a lock is."""
    return "held for ever" if lock.held and lock.endless else _STATES[lock.state]


def function_of(lock: LockInfo) -> str:
    """Say a lock's function; with a question mark where it may be that of an earlier hold of that process."""
    function = plain(lock.function or "")
    return function if lock.function_sure or not function else f"{function}?"


def scope_of(lock: LockInfo) -> str:
    """Say a lock's scope."""
    said = ", ".join(plain(value) for value in lock.scope) + ("…" if lock.cut else "")
    if lock.listener:
        said = f"{said} (listener)".strip()
    return f"{said} slot {lock.slot}".strip() if lock.slot is not None else said


def who(holder: Holder) -> str:
    """Say who has a lock, or had it. Of a young hold it is known which process has it, and not always for whom."""
    parts = [f"instance {holder.host}" if holder.host else "", f"pid {holder.pid}" if holder.pid else ""]
    owner = f"invocation {holder.owner}" if holder.owner and holder.function else holder.owner
    if owner and holder.renewed is False:
        owner += ", or a later one of that process"
    told = [plain(part) for part in (*parts, owner or "") if part]
    return ", ".join(told) or "a holder that is not recorded"


def block(lock: LockInfo, now: float) -> None:
    """Write all that is known of a lock."""
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
        "app": lock.app and plain(lock.app),
        "function": function_of(lock),
        "scope": scope_of(lock),
        "holder" if lock.holder else "last holder": None if stamp.host is None and lock.holder is None else who(stamp),
        "token": stamp.token,
        "last stamp"
        if stamp.recorded or stamp.owner
        else "last written": f"{moment(lock.modified)} ({span(now - lock.modified.timestamp())} ago)",
    }
    for key, value in facts.items():
        if value:
            say(str(value), first=f"  {key:<12} ", indent=_FACTS)


def counted(many: int, what: str) -> str:
    """Say how many there are of something.

    >>> counted(1, "lock"), counted(1200, "lock")
    ('1 lock', '1,200 locks')
    """
    return f"{many:,} {what}{'' if many == 1 else 's'}"


def rate(many: int, seconds: float) -> str:
    """Say how fast it goes.

    >>> rate(1200, 2.0), rate(8, 19.5)
    ('600 a second', '25 a minute')
    """
    each = many / max(seconds, 1e-9)
    return f"{each:,.0f} a second" if each >= 1 or not many else f"{each * 60:,.0f} a minute"


def as_dict(lock: LockInfo) -> dict[str, Any]:
    """Return a lock as JSON has it."""
    return {
        "name": lock.name,
        "state": lock.state,
        "held": lock.held,
        "app": lock.app,
        "function": lock.function,
        "function_sure": lock.function_sure,
        "scope": list(lock.scope),
        "level": lock.level,
        "listener": lock.listener,
        "slot": lock.slot,
        "cut": lock.cut,
        "endless": lock.endless,
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


class Told:
    """Whether the command has begun to write its answer: what ends it after that is told on the error stream only."""

    answer = False


def write_json(value: object, end: str = "\n", *, streamed: bool = False) -> None:
    """Write a value as one line of JSON: the command's answer or a part of it; ``streamed``: a line of many."""
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.obj, Told) and not streamed:
        context.obj.answer = True
    click.echo(json.dumps(value) + end, nl=False)


class Progress:
    """A line on the error stream now and then, for what takes long: one that stays where it is, on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = False

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._start

    def show(self, count: int, more: str = "") -> None:
        """Say how far it is, if it is time."""
        if time.monotonic() - self._last < (0.5 if self._terminal else 5.0):
            return
        self._last = time.monotonic()
        what = self._what.replace("blobs", "blob", 1) if count == 1 else self._what
        line = f"{count:,} {what}, {rate(count, self.seconds)}{more}"
        click.echo(f"\r{line}\x1b[K" if self._terminal else line, err=True, nl=not self._terminal)
        self._shown = self._terminal

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False
