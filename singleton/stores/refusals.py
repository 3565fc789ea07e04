"""Refusals: what an answer means by its code and headers, and in words what was denied, where, and what helps.

Every refusal of the service has an error code in a header. Where the service or an emulator sends none,
``x-ms-request-id`` with ``x-ms-version`` shows that the service answered, and a code in the body counts. Any other
refusal comes from something in between, such as a proxy or an ingress, and says nothing about a lease, a blob or a
queue.

No text has a key, a signature, or what was signed.
"""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.forks import importing
from singleton.stores.access import TOLERATED
from singleton.stores.protocol import Source, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

_CREDENTIALS: Final = "check the connection's key, SAS or role assignments"
_SAS: Final = "make a SAS with the permissions read, add, create, write, delete and list on containers and objects"
REMEDIES: Final[Mapping[str | None, str]] = {
    "AuthenticationFailed": f"{_CREDENTIALS}: are they of this account, and still valid? And is the clock right?",
    "AuthorizationFailure": (
        "the account's network rules may keep this app out: allow its network, or reach the account by a private "
        f"endpoint in the app's virtual network; if they don't, {_CREDENTIALS}"
    ),
    "AuthorizationSourceIPMismatch": "the SAS or the account's firewall does not allow this app's address: allow it",
    "KeyBasedAuthenticationNotPermitted": (
        "the account permits no access by key, nor by a SAS made with a key: use an identity (set __accountName in "
        "place of the connection string), or allow storage account key access"
    ),
    "AuthorizationPermissionMismatch": (
        f"{_CREDENTIALS}: a permission is missing. Assign the identity the role Storage Blob Data Contributor (for "
        f"queues Storage Queue Data Contributor), which takes minutes to count; or {_SAS}"
    ),
    "AuthorizationResourceTypeMismatch": _SAS,
    "AccountIsDisabled": "the account is disabled: look at the subscription's state and bill, then enable the account",
}
"""What helps, by the service's error code."""
_DETAIL: Final = re.compile(rb"<AuthenticationErrorDetail>([^<]{1,4000})", re.IGNORECASE)
_SIGNED: Final = re.compile(r"\b(server[\s-]*used|string[\s-]*to[\s-]*sign|canonical).*", re.IGNORECASE | re.DOTALL)
_SECRET: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[\w+/=%.-]{24,}|\bsig\s*(?:=|%3D)\s*\S*", re.IGNORECASE)
_LONGEST: Final = 300
_BARE: Final = re.compile(r"http://(?!.*\.(?:blob|queue)\.)(?:[\d.]+(?::\d+)?|[^./]+|[^/]+:1000[0-2])/*", re.IGNORECASE)
"""An emulator's address without an account: a host's number or name without a dot, or an emulator's port."""


class Destination(NamedTuple):
    """The container or queue that requests go to, with the account's setting, for messages. No field has a secret.

    ``doubt``: what may be wrong with the URL; empty: nothing.
    """

    name: str = ""
    doubt: str = ""

    @classmethod
    def of(cls, what: str, url: str, setting: str) -> Destination:
        """Return the destination ``what`` of an account: its URL, and the name of its app setting, if known."""
        endpoint = url.partition("?")[0]
        doubt = f"the address {endpoint} has no account in its path: an emulator's is like {endpoint}/devstoreaccount1"
        name = f"for {what} at {endpoint}" + (f", setting {setting}" if setting else "")
        return cls(name, doubt if _BARE.fullmatch(endpoint) else "")


NOWHERE: Final = Destination()


def denial(failure: StoreFailure, service: str = "storage") -> str:
    """Return who denies access, and what helps."""
    if failure.source == "unsent":
        return "no request was sent, because the connection's key, SAS or identity can't be used"
    if failure.source == "between":
        return f"access is denied between this process and the {service}, by a proxy, an ingress or a firewall"
    first = "correct this machine's clock first; then " if failure.status == 403 and clock_trouble(failure.at) else ""
    return f"the {service} denies access: {first}{REMEDIES.get(failure.code, _CREDENTIALS)}"


def clock_trouble(at: float | None) -> str:
    """Return how far this machine's clock is from the service's, ``at``, if the service refuses requests for that."""
    off = 0.0 if at is None else time.time() - at
    if abs(off) <= TOLERATED:
        return ""
    way = "ahead of" if off > 0 else "behind"
    return f"(this machine's clock is {abs(off) / 60:.0f} minutes {way} the service's: correct it)"


def reason_in(body: bytes) -> str:
    """Return the service's reason in the body of a refusal; empty: none."""
    found = _DETAIL.search(body)
    return "" if found is None else reason(found[1].decode("utf-8", "replace"))


def reason(detail: str) -> str:
    """Return the service's reason without signatures and what was signed."""
    with importing:
        from html import unescape

    said = " ".join(_SECRET.sub("…", _SIGNED.sub("", unescape(detail))).split())[:_LONGEST].strip()
    return said if said.isprintable() else ""


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
    with importing:
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
