"""A receiver's side of the broker: what a host asks of it."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import aiohttp

PATIENCE: Final = 15.0


class BusTrouble(Exception):
    """The broker did not answer."""


class Bus:
    """A connection to the broker at a URL. Use it on one event loop, and close it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def receive(self, entity: str, wait: float) -> dict[str, Any] | None:
        """Wait so many seconds for a message of an entity; it is locked from now on."""
        return cast("dict[str, Any] | None", await self._ask("receive", entity=entity, wait=wait))

    async def renew(self, token: str) -> bool:
        """Renew a message's lock; False: it has expired."""
        return bool(await self._ask("renew", token=token))

    async def complete(self, token: str) -> bool:
        """Remove a message that was processed; False: its lock has expired."""
        return bool(await self._ask("complete", token=token))

    async def abandon(self, token: str) -> Literal["back", "dead", "gone"]:
        """Give a message back: it comes again, is dead-lettered, or its lock has expired already."""
        return cast("Literal['back', 'dead', 'gone']", await self._ask("abandon", token=token))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, what: str, **fields: object) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=PATIENCE), connector=aiohttp.TCPConnector(limit=0)
            )
        try:
            async with self._session.post(f"{self._url}/{what}", json=fields) as answer:
                answer.raise_for_status()
                return await answer.json()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise BusTrouble(f"the message broker did not answer: {type(error).__name__}: {error}") from error
