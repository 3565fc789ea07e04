"""A way to wait other than in line. A worker loads an app without it, unless a layout of the app waits so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """A way to wait other than in line: some attempts, with delays between them (D-29 to D-31).

    Attributes:
        retries: attempts after the first.
        shortest: seconds of the first delay between two attempts.
        longest: the most seconds of a delay.
    """

    retries: int
    shortest: int
    longest: int
