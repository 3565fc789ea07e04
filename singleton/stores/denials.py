"""Refusals in words: what was denied, where, and what helps. No text has a key, a signature, or what was signed."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.stores.access import TOLERATED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.protocol import StoreFailure

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
    from html import unescape

    said = " ".join(_SECRET.sub("…", _SIGNED.sub("", unescape(detail))).split())[:_LONGEST].strip()
    return said if said.isprintable() else ""
