"""Claims of rows, ``Pending → Processing → Done`` (S-13): the part without a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from collections.abc import Mapping


class StaleClaim(SingletonError):
    """A later claim or a greater fencing token exists: nothing was written (S-12, S-13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed row.

    Attributes:
        key: the row's primary key, column to value.
        row: the row at the time of the claim, column to value.
        version: number of the claim. A later claim of the row has a greater number, and writes with this number are
            then refused.
        attempt: number of the attempt, from 1.
        token: fencing token of the claimer's hold; None without a lock.
    """

    key: Mapping[str, Any]
    row: Mapping[str, Any] = field(repr=False)
    version: int
    attempt: int
    token: int | None = None
