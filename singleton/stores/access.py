"""How requests are authorised: by an account key or a shared access signature; by a token in ``bearer_token.py``.

A ``Request`` is completed right before the sending, so a new key, signature or token is used at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote

from singleton.base.errors import ConfigurationError
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERATED: Final = 900.0
"""Seconds by which this machine's clock may be off: the service refuses a signed request with 403 beyond.

A SAS outside of its time by less is sent: the service decides.
"""
_NO_KEY: Final = "the account's key is not base64: copy the whole key again"


@dataclass(slots=True)
class Request:
    """An HTTP request before the sending. ``path`` and ``query`` are encoded already. ``length``: bytes of the body."""

    method: str
    path: str
    query: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    length: int = field(default=0, repr=False)


class Access(ABC):
    """How requests are authorised."""

    @abstractmethod
    async def grant(self, request: Request) -> None:
        """Add a signature or a token to the request. May raise ``StoreFailure``."""

    def untimely(self, tolerated: float = 0.0) -> str:  # noqa: ARG002
        """Return why the way in is of another time, with the times; empty: it is valid now, or nobody can tell."""
        return ""

    def refused(self) -> None:  # noqa: B027 - only tokens have something to do
        """Note that the service did not accept the signature or token (401)."""

    async def aclose(self) -> None:  # noqa: B027 - only tokens have something to close
        """Cancel requests for tokens, and close a credential of ours."""


class AccountKey(Access):
    """Signs each request with the account's key."""

    def __init__(self, named_key: Callable[[], tuple[str, str]]) -> None:
        """``named_key`` returns the account's present name and key. ``ConfigurationError``: the key is not base64."""
        self._named_key = named_key
        if _keyed(named_key()[1]) is None:
            raise ConfigurationError(_NO_KEY)

    async def grant(self, request: Request) -> None:
        name, key = self._named_key()
        keyed = _keyed(key)
        if keyed is None:
            raise StoreFailure(401, None, _NO_KEY)
        request.headers["x-ms-date"] = http_date(int(time.time()))
        signature = keyed.copy()
        signature.update(text_to_sign(request, name).encode())
        request.headers["Authorization"] = f"SharedKey {name}:{base64.b64encode(signature.digest()).decode()}"


def text_to_sign(request: Request, account: str) -> str:
    """Return the text of a request that the signature covers."""
    headers = request.headers
    conditions = f"{headers.get('If-Match', '')}\n{headers.get('If-None-Match', '')}\n"
    named = ""
    for begin, name in _in_order(tuple(headers)):
        named += f"{begin}{headers[name]}\n"
    resource = f"/{account}{request.path}{_canonical(request.query)}"
    return f"{request.method}\n\n\n{request.length or ''}\n\n\n\n\n{conditions}\n\n{named}{resource}"


@lru_cache(64)
def _in_order(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the beginnings of the lines of ``x-ms-`` headers, with the headers' names, in the order of signing.

    The service sorts an underscore, which only metadata has, before digits.
    """
    own = sorted((name.lower().replace("_", " "), name) for name in names if name[:5].lower() == "x-ms-")
    return [(f"{name.lower()}:", name) for _, name in own]


@lru_cache(64)
def _canonical(query: str) -> str:
    pairs = sorted(part.partition("=") for part in query.split("&") if part)
    return "".join(f"\n{name.lower()}:{unquote(value)}" for name, _, value in pairs)


@lru_cache(8)
def _keyed(key: str) -> hmac.HMAC | None:
    """Return an HMAC without data: a copy is quicker than a new HMAC from the key. None: the key is not base64."""
    try:
        return hmac.new(base64.b64decode(key, validate=True), digestmod="sha256")
    except (binascii.Error, ValueError):
        return None


@lru_cache(1)
def http_date(second: int) -> str:
    """Return seconds since 1970 as a date of HTTP."""
    return formatdate(second, usegmt=True)


class SharedAccessSignature(Access):
    """Adds a shared access signature to each request."""

    def __init__(self, signature: Callable[[], str]) -> None:
        """``signature`` returns the present query of the signature."""
        self._signature = signature

    def untimely(self, tolerated: float = 0.0) -> str:
        now = time.time()
        start, expiry = _times(self._signature())
        if start - tolerated > now:
            return f"the SAS is not valid before {_told(start)} (st), and it is {_told(now)} by this machine's clock"
        if expiry + tolerated <= now:
            return f"the SAS has expired at {_told(expiry)} (se), and it is {_told(now)} by this machine's clock"
        return ""

    async def grant(self, request: Request) -> None:
        if late := self.untimely(TOLERATED):
            raise StoreFailure(401, None, late)
        signature = self._signature().strip().lstrip("?")
        request.query = f"{request.query}&{signature}" if request.query else signature


@lru_cache(8)
def _times(signature: str) -> tuple[float, float]:
    """Return start and expiry of a SAS, in seconds since 1970; infinite where the SAS has none that can be read."""
    fields = parse_qs(signature.strip().lstrip("?"))
    return _seconds(fields.get("st"), -math.inf), _seconds(fields.get("se"), math.inf)


def _seconds(given: list[str] | None, otherwise: float) -> float:
    try:
        read = datetime.fromisoformat((given or [""])[0])
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # in UTC the time may be before year 1 or after year 9999
        return otherwise


def _told(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
