"""The two answers beside a key, and the errors that carry them out of the reading."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoKey:
    """The invocation fails before any lock is asked for, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class CantTell:
    """This reading does not reach so far: nothing follows for the lock."""

    reason: str


class Refused(Exception):
    """The specification lets the invocation fail."""


class Unclear(Exception):
    """What is asked for is not read here, or the specification is silent."""
