"""The storage account of a world: who may ask, by which key, signature or token, and how a signature is checked.

The check is written from the service's documentation, and knows nothing of the code that signs.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from singleton.stores.access import AccountKey, SharedAccessSignature
from singleton.stores.bearer_token import Token
from singleton.stores.protocol import StoreFailure
from singleton.stores.refusals import date

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from simulator.virtual.http.blob_api import HeardRequest
    from singleton.stores.access import Access

NAME: Final = "explored"
_SIGNED: Final = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"),
    *("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)
"""Headers whose values a signature covers, in this order, before those of the service's own."""
_TOLERATED: Final = 900.0
_LIFE: Final = (45.0, 80.0, 3600.0)
"""Seconds that a token is valid. A real one lasts hours; short ones are replaced while a world lasts."""
_ASKING: Final = 0.02
"""Seconds until a new token is there."""


class _AccessToken(NamedTuple):
    token: str
    expires_on: float


class VirtualAccount:
    """Keys, signatures and tokens: those of now. ``replace`` makes all void that were given out before."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = count(1)
        self._key = self._former = b""
        self._tokens: set[str] = set()
        self.replace()

    @property
    def key(self) -> str:
        """Return the account's key."""
        return base64.b64encode(self._key).decode()

    def replace(self) -> None:
        """Give the account another key, and make all tokens void. The former key, its second, is still good."""
        self._former = self._key
        self._key = self._rng.randbytes(32)
        self._tokens.clear()

    def access(self, kind: str, wall: Callable[[], float]) -> Access:
        """Return a way in for a host: by ``key``, ``sas`` or ``token``; ``wall`` is the host's clock."""
        if kind == "key":
            return AccountKey(lambda: (NAME, self.key))
        if kind == "sas":
            return SharedAccessSignature(lambda: f"?sv=2021-12-02&se=2099-01-01T00%3A00%3A00Z&sig={_sas(self._key)}")
        return Token(_Credential(self, wall, self._rng.choice(_LIFE)))

    def issue(self) -> str:
        """Give out a token."""
        self._tokens.add(token := f"token-{next(self._numbers)}")
        return token

    def refusal(self, request: HeardRequest) -> StoreFailure | None:
        """Return the refusal of a request that nobody may send who has no valid key, signature or token."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind == "Bearer":
            return None if given in self._tokens else StoreFailure(401, "InvalidAuthenticationInfo", "a void token")
        if not kind:
            right = dict(parse_qsl(request.query)).get("sig") in (_sas(self._key), _sas(self._former))
            return None if right else StoreFailure(403, "AuthenticationFailed", "another signature in the URL")
        text = signed_text(request)
        for key in (self._key, self._former):
            signature = base64.b64encode(hmac.digest(key, text.encode(), "sha256")).decode()
            if given == f"{NAME}:{signature}":
                return None
        return StoreFailure(403, "AuthenticationFailed", "another signature")


def _sas(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def untimely(request: HeardRequest, now: float) -> StoreFailure | None:
    """Return the refusal of a request whose date is too far from the service's clock."""
    dated = request.headers.get("x-ms-date")
    if dated is not None and abs(date(dated) - now) > _TOLERATED:
        return StoreFailure(403, "AuthenticationFailed", f"dated {dated}")
    return None


def signed_text(request: HeardRequest) -> str:
    """Return the text that the signature of a request covers."""
    headers = request.headers
    length = headers.get("content-length")
    values = [headers.get(name, "") for name in _SIGNED]
    values[_SIGNED.index("content-length")] = "" if length in (None, "0") else str(length)
    if "x-ms-date" in headers:
        values[_SIGNED.index("date")] = ""
    own = sorted((name for name in headers if name.startswith("x-ms-")), key=lambda name: name.replace("_", " "))
    asked = "".join(
        f"\n{name.lower()}:{unquote(value)}"
        for name, _, value in sorted(part.partition("=") for part in request.query.split("&") if part)
    )
    named = "".join(f"{name}:{headers[name]}\n" for name in own)
    return "\n".join([request.method, *values, f"{named}/{NAME}{request.path}{asked}"])


class _Credential:
    """A credential of azure-core's kind, on a host."""

    def __init__(self, account: VirtualAccount, wall: Callable[[], float], life: float) -> None:
        self._account = account
        self._wall = wall
        self._life = life

    async def get_token(self, *_: str) -> _AccessToken:
        """Give a token that is valid from now on."""
        await asyncio.sleep(_ASKING)
        return _AccessToken(self._account.issue(), self._wall() + self._life)
