"""The two answers other than a key, and the errors that carry them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoKey:
    """The invocation fails before any lock is asked for, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class CantTell:
    """This reading does not cover the case: nothing follows for the lock."""

    reason: str


class Refused(Exception):
    """The specification lets the invocation fail."""


class Unclear(Exception):
    """This is not read here, or the specification does not say."""
