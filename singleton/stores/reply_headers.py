"""What a refusal says: the error code, the service's clock, how long to wait, whether our clock is wrong.

Every refusal of the service has an error code in a header. Where the service or an emulator sends none,
``x-ms-request-id`` with ``x-ms-version`` shows that the service answered, and a code in the body counts. Any other
refusal comes from something in between, such as a proxy or an ingress, and says nothing about a lease, a blob or a
queue.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from singleton.stores.denials import NOWHERE, clock_trouble
from singleton.stores.protocol import Source, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.denials import Destination

_MARKS: Final = ("x-ms-request-id", "x-ms-version")
"""Headers that every answer of the service has."""


def refusal(
    status: int, code: str | None, headers: Mapping[str, str], to: Destination = NOWHERE, *reasons: str
) -> StoreFailure:
    """Return what an answer with another status than the expected one means. ``reasons``: more words, or empty."""
    at = clock(headers)
    name = to.name if status in (400, 401, 403) else ""
    doubt = to.doubt if status == 400 or (status == 404 and not code) else ""
    asides = (f"({aside})" for aside in (*reasons, doubt) if aside)
    said = name, trouble(status, at), *asides
    of_service = headers.get("x-ms-error-code") or all(map(headers.get, _MARKS))
    source: Source = "service" if of_service else "between"
    code = code if of_service else None
    return StoreFailure(status, code, " ".join(filter(None, said)), seconds(headers.get("Retry-After")), at, source)


def check_success(headers: Mapping[str, str]) -> None:
    """Raise ``StoreFailure`` for a success that only something in between may have answered: it has no mark."""
    if not any(map(headers.get, _MARKS)):
        raise StoreFailure(detail=f"an answer without {' or '.join(_MARKS)}: it is not from the storage service")


def clock(headers: Mapping[str, str]) -> float | None:
    """Read the service's clock in the headers of a reply; a date that is none is no clock."""
    try:
        return date(headers.get("Date") or "")
    except ValueError:
        return None


@lru_cache(256)
def date(text: str) -> float:
    """Return seconds since 1970; ``ValueError``: no date. Cached: a blob's Last-Modified seldom changes."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp()
    except OverflowError:
        raise ValueError("a date beyond all calendars") from None


def seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After in seconds; the form with a date is not used by storage."""
    try:
        read = float(retry_after or "")
    except ValueError:
        return None
    return read if math.isfinite(read) and read >= 0 else None


def trouble(status: int, at: float | None) -> str:
    """Return what the status of an error does not tell; as a rule nothing.

    A redirect is not followed; and a request is refused if this machine's clock is too wrong.
    """
    if 300 <= status < 400:
        return "a redirect, which is not followed"
    return clock_trouble(at) if status == 403 else ""
