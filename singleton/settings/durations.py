"""Durations as arguments and options: seconds, checked against a range that messages can state."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, host_json_timespan
from singleton.base.words import quoted


class Limits(NamedTuple):
    """The range of a duration, in seconds. It must be greater than ``above``, if given. ``note`` ends messages."""

    minimum: float = 0.0
    maximum: float = FOREVER
    above: float | None = None
    whole: bool = False
    note: str = ""

    def __str__(self) -> str:
        """Return the range in words: "from 15 to 60 seconds, in whole seconds"."""
        return f"{self._range()}{self.note}"

    @property
    def in_files(self) -> str:
        """The range in words, for a value in host.json or an app setting, which is written as a time span."""
        note = self.note.replace("None", "null in host.json")
        if self.above is not None:
            return f"{self._range()}{note}"
        low, high = (f'"{host_json_timespan(bound)}"' for bound in (self.minimum, self.maximum))
        return f"{self._range()} ({low} {f'to {high}' if self.maximum < FOREVER else 'or more'}){note}"

    def _range(self) -> str:
        whole = ", in whole seconds" if self.whole else ""
        if self.above is not None:
            return f"more than {in_words(self.above)}{whole}"
        if self.maximum == FOREVER:
            return f"at least {in_words(self.minimum)}{whole}"
        low, high = in_words(self.minimum), in_words(self.maximum)
        return f"from {low.split()[0] if high.endswith('seconds') else low} to {high}{whole}"

    def check(self, value: object, name: str, shown: str | None = None) -> float:
        """Return the duration as a float, or refuse it by name, value and range.

        Args:
            value: seconds, or a ``timedelta``.
            name: what errors call it.
            shown: the value as a file or an app setting has it; None: it is an argument.
        """
        number = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ConfigurationError(
                f"{name} is {shown or quoted(value)}: it must be a number of seconds, or a timedelta, {self}"
            )
        enough = number > self.above if self.above is not None else number >= self.minimum
        if not enough or number > self.maximum or (self.whole and number != int(number)):
            allowed = self if shown is None else self.in_files
            raise ConfigurationError(f"{name} is {shown or quoted(value)}: it must be {allowed}")
        return float(number)


def in_words(number: float) -> str:
    """Return a duration in words: in seconds, or from a day on in days, rounded down.

    >>> in_words(604_800), in_words(1), in_words(0.5), in_words(2147483.647)
    ('7 days', '1 second', '0.5 seconds', '24.8 days')
    """
    if number >= 86_400:
        return f"{int(number / 8640) / 10:g} day{'' if number == 86_400 else 's'}"
    return f"{round(number, 3):.15g} second{'' if number == 1 else 's'}"


def seconds(value: float | timedelta, name: str, *, above: float | None = None) -> float:
    """Return an argument's duration in seconds: at least 0, or more than ``above``.

    >>> seconds(timedelta(minutes=1), "timeout")
    60.0

    Raises:
        ConfigurationError: it is no number or timedelta, not finite, or out of range.
    """
    return Limits(above=above).check(value, name)


def span(at_least: float | timedelta, max_hold: float | timedelta | None) -> tuple[float, float | None]:
    """Return for how many seconds a lock is kept: at least, and at most. None: for as long as it takes.

    >>> span(50, timedelta(minutes=10))
    (50.0, 600.0)

    Raises:
        ConfigurationError: one of them is out of range, or the lock would be kept for longer than it may be held.
    """
    least = seconds(at_least, "at_least")
    most = None if max_hold is None else seconds(max_hold, "max_hold", above=0)
    if most is not None and least > most:
        raise ConfigurationError(
            f"at_least is {in_words(least)}, more than max_hold, {in_words(most)}: lower at_least, or raise max_hold"
        )
    return least, most
