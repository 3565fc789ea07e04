"""Durations as arguments and options: seconds, checked against a range that messages can state."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, host_json_timespan
from singleton.base.words import quoted


class Limits(NamedTuple):
    """The range that a duration must be in, in seconds. ``above`` bounds it exclusively, ``note`` ends messages."""

    minimum: float = 0.0
    maximum: float = FOREVER
    above: float | None = None
    whole: bool = False
    note: str = ""

    def __str__(self) -> str:
        """Return the range in words: "whole seconds from 15 to 60 (00:00:15 to 00:01:00)"."""
        unit = "whole seconds" if self.whole else "seconds"
        if self.above is not None:
            return f"{unit}, more than {self.above:g}{self.note}"
        low, high = (host_json_timespan(bound) for bound in (self.minimum, self.maximum))
        if self.maximum < FOREVER:
            return f"{unit} from {self.minimum:g} to {self.maximum:g} ({low} to {high}){self.note}"
        return f"{unit}, at least {self.minimum:g} ({low}){self.note}"

    def check(self, value: object, name: str, shown: str | None = None) -> float:
        """Return the duration as a float, or raise a ConfigurationError with its name, its value and the range."""
        number = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ConfigurationError(f"{name} is {shown or quoted(value)}, not a number or timedelta: give {self}")
        if not self._holds(number):
            raise ConfigurationError(f"{name} is {shown or quoted(value)}: give {self}")
        return float(number)

    def _holds(self, number: float) -> bool:
        enough = number > self.above if self.above is not None else number >= self.minimum
        return enough and number <= self.maximum and (number == int(number) if self.whole else True)


def seconds(value: float | timedelta, name: str, *, above: float | None = None) -> float:
    """Return an argument's duration in seconds: at least 0, or more than ``above``.

    >>> seconds(timedelta(minutes=1), "timeout")
    60.0

    Raises:
        ConfigurationError: it is no number or timedelta, not finite, or out of range.
    """
    return Limits(above=above).check(value, name)
