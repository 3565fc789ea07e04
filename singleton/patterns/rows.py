"""Rows that are worked on one claim at a time: ``Pending → Processing → Done`` (S-13). What every database shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from collections.abc import Mapping


class StaleClaim(SingletonError):
    """Somebody else has claimed this since, or a greater fencing token was seen: nothing was written (S-12, S-13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row in the hands of one claimer.

    Attributes:
        key: the row's primary key, column to value.
        row: the row as it was when it was claimed, column to value.
        version: number of this claim. Each later claim of the row has a greater one, and then writes with this one are
            refused.
        attempt: which attempt at the row this is, from 1.
        token: fencing token of the claimer's hold; None without a lock.
    """

    key: Mapping[str, Any]
    row: Mapping[str, Any] = field(repr=False)
    version: int
    attempt: int
    token: int | None = None
