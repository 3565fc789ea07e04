"""How requests are authorised: an account key signs each one; a shared access signature or a token is sent with it.

A ``Request`` is completed when it is sent, so a key, a signature or a token that was replaced is used at once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote

from singleton.base.errors import ConfigurationError
from singleton.stores.azure_blob import judged
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import Callable

SCOPE: Final = "https://storage.azure.com/.default"
"""What a token is asked for: the same in all clouds."""
_EARLY: Final = 300.0
"""Seconds before its end from which a token is replaced."""
_AGAIN: Final = 30.0
"""Seconds after which a token that could not be replaced, but is still good, is tried to be replaced again."""
_NO_KEY: Final = "the account's key is not base64: copy the whole key again"
_PATIENCE: Final = 60.0
"""Seconds for a new token. All requests wait for the same one, so one that never comes must be asked for anew."""


@dataclass(slots=True)
class Request:
    """An HTTP request as it is about to be sent. ``path`` and ``query`` are as they go on the wire.

    ``length``: bytes of its body.
    """

    method: str
    path: str
    query: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    length: int = field(default=0, repr=False)


class Access(Protocol):
    """A way in."""

    async def grant(self, request: Request) -> None:
        """Complete the request, so that the service lets it in. May raise ``StoreFailure``."""

    def refused(self) -> None:
        """Hear that the service did not know who asked (401)."""

    async def aclose(self) -> None:
        """End what is under way."""


class AccountKey:
    """Signs each request with the account's key."""

    def __init__(self, named_key: Callable[[], tuple[str, str]]) -> None:
        """``named_key`` returns the account's name and its key, as they are now.

        Raises:
            ConfigurationError: the key is none.
        """
        self._named_key = named_key
        if _keyed(named_key()[1]) is None:
            raise ConfigurationError(_NO_KEY)

    async def grant(self, request: Request) -> None:
        """See ``Access.grant``."""
        name, key = self._named_key()
        keyed = _keyed(key)
        if keyed is None:
            raise StoreFailure(401, None, _NO_KEY)
        request.headers["x-ms-date"] = _now(int(time.time()))
        signature = keyed.copy()
        signature.update(text_to_sign(request, name).encode())
        request.headers["Authorization"] = f"SharedKey {name}:{base64.b64encode(signature.digest()).decode()}"

    def refused(self) -> None:
        """See ``Access.refused``."""

    async def aclose(self) -> None:
        """See ``Access.aclose``."""


def text_to_sign(request: Request, account: str) -> str:
    """Return what of a request its signature covers."""
    headers = request.headers
    conditions = f"{headers.get('If-Match', '')}\n{headers.get('If-None-Match', '')}\n"
    named = "".join([f"{begin}{headers[name]}\n" for begin, name in _in_order(tuple(headers))])
    resource = f"/{account}{request.path}{_canonical(request.query)}"
    return f"{request.method}\n\n\n{request.length or ''}\n\n\n\n\n{conditions}\n\n{named}{resource}"


@lru_cache(64)
def _in_order(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return how the lines of the service's own headers begin, and their names, in the order that is signed.

    The service has an underscore, which only metadata has, before digits.
    """
    own = sorted((name.lower().replace("_", " "), name) for name in names if name[:5].lower() == "x-ms-")
    return [(f"{name.lower()}:", name) for _, name in own]


@lru_cache(64)
def _canonical(query: str) -> str:
    pairs = sorted(part.partition("=") for part in query.split("&") if part)
    return "".join(f"\n{name.lower()}:{unquote(value)}" for name, _, value in pairs)


@lru_cache(8)
def _keyed(key: str) -> hmac.HMAC | None:
    """Return a signature of nothing yet: to copy it is quicker than to begin with the key. None: it is no key."""
    try:
        return hmac.new(base64.b64decode(key, validate=True), digestmod="sha256")
    except (binascii.Error, ValueError):
        return None


@lru_cache(1)
def _now(second: int) -> str:
    return formatdate(second, usegmt=True)


class Signature:
    """Sends a shared access signature along."""

    def __init__(self, signature: Callable[[], str]) -> None:
        """``signature`` returns the signature's query, as it is now."""
        self._signature = signature

    async def grant(self, request: Request) -> None:
        """See ``Access.grant``."""
        signature = self._signature().lstrip("?")
        request.query = f"{request.query}&{signature}" if request.query else signature

    def refused(self) -> None:
        """See ``Access.refused``."""

    async def aclose(self) -> None:
        """See ``Access.aclose``."""


class Token:
    """Sends a token along, from a credential of azure-core's kind for asyncio.

    It is replaced five minutes before its end, or when the credential says, while requests go on with the old one.
    If none is valid any more, all requests wait for the same new one. One that gives up leaves it to the others.
    """

    def __init__(self, credential: Any, *, close: bool = False) -> None:
        """``close``: the credential is ours, and closed with this."""
        self._credential = credential
        self._close = close
        self._bearer = ""
        self._ends = self._due = 0.0
        self._asking: asyncio.Task[StoreFailure | None] | None = None

    async def grant(self, request: Request) -> None:
        """See ``Access.grant``."""
        now = time.time()
        if now >= self._due or now >= self._ends:
            asking = self._ask()
            if now >= self._ends:
                await asyncio.wait({asking})
                if asking.cancelled():
                    raise StoreFailure(detail="closed while a token was waited for")
                if (failure := asking.result()) is not None:
                    raise StoreFailure(failure.status, None, failure.detail) from failure.__cause__
        request.headers["Authorization"] = self._bearer
        request.headers["x-ms-date"] = _now(int(now))

    def refused(self) -> None:
        """See ``Access.refused``: the next request asks for another."""
        self._ends = 0.0

    async def aclose(self) -> None:
        """See ``Access.aclose``."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})
        if self._close:
            await self._credential.close()

    def _ask(self) -> asyncio.Task[StoreFailure | None]:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._renew())
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, task: asyncio.Task[StoreFailure | None]) -> None:
        self._asking = None
        if not task.cancelled() and task.exception() is None and task.result() is not None:
            self._due = time.time() + _AGAIN

    async def _renew(self) -> StoreFailure | None:
        """Ask for a token; return what kept it from us, without the frames in which the credential had its secrets."""
        try:
            found = await within(_PATIENCE, judged(self._given()))
        except StoreFailure as failure:
            return _without_frames(failure)
        try:
            bearer, ends = f"Bearer {found.token}", float(found.expires_on)
            due = float(getattr(found, "refresh_on", None) or ends)
        except Exception:  # noqa: BLE001 - it is the credential's object, of whatever kind
            return StoreFailure(401, None, f"the credential gave a {type(found).__name__}, not a token")
        self._bearer, self._ends = bearer, ends
        self._due = max(min(due, ends - _EARLY), time.time() + _AGAIN)
        return None

    async def _given(self) -> Any:
        with_details = getattr(self._credential, "get_token_info", None)
        return await (with_details or self._credential.get_token)(SCOPE)


def _without_frames(failure: StoreFailure) -> StoreFailure:
    """Return the failure anew, with the words of its cause."""
    bare = StoreFailure(failure.status, None, f"the credential gave no token: {failure.detail}")
    bare.__cause__ = failure.__cause__
    return bare
