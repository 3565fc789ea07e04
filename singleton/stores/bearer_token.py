"""Requests authorised by a token, from a credential of azure-core's kind for asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from singleton.stores.access import Access, http_date
from singleton.stores.azure_blob import judged
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from singleton.stores.access import Request

SCOPE: Final = "https://storage.azure.com/.default"
"""The scope of a token: equal in every cloud."""
_EARLY: Final = 300.0
"""Seconds before the end of a token at which a new token is asked for."""
_AGAIN: Final = 30.0
"""Seconds between attempts to replace a token that is still valid."""
_PATIENCE: Final = 60.0
"""Seconds for a new token. Every request waits for one answer, so an answer that never comes must be asked for anew."""


class Token(Access):
    """Adds a token to each request, from a credential of azure-core's kind for asyncio.

    The token is replaced five minutes before its end, or when the credential says, while requests go on with the old
    token. Without a valid token all requests wait for one new token. A request that gives up does not end the wait of
    other requests.
    """

    def __init__(self, credential: Any, *, close: bool = False) -> None:
        """``close``: close the credential in ``aclose``."""
        self._credential = credential
        self._close = close
        self._bearer = ""
        self._ends = self._due = 0.0
        self._asking: asyncio.Task[StoreFailure | None] | None = None

    async def grant(self, request: Request) -> None:
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
        request.headers["x-ms-date"] = http_date(int(now))

    def refused(self) -> None:
        """See ``Access.refused``: the next request asks for a new token."""
        self._ends = 0.0

    async def aclose(self) -> None:
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
        """Ask for a token; return the failure, if any, without the frames in which the credential had its secrets."""
        try:
            found = await judged(self.get_token())
        except StoreFailure as failure:
            return failure
        try:
            bearer, ends = f"Bearer {found.token}", float(found.expires_on)
            due = float(getattr(found, "refresh_on", None) or ends)
        except BaseException:  # noqa: BLE001 - it is the credential's object, of whatever kind
            return StoreFailure(401, None, f"the credential gave a {type(found).__name__}, not a token")
        self._bearer, self._ends = bearer, ends
        self._due = max(min(due, ends - _EARLY), time.time() + _AGAIN)
        return None

    async def get_token(self) -> Any:
        """Ask the credential. An error that leaves a function of this name is judged as the credential's."""
        with_details = getattr(self._credential, "get_token_info", None)
        return await within(_PATIENCE, (with_details or self._credential.get_token)(SCOPE))
