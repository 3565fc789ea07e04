"""The SDK's way to a service that is not there."""

from __future__ import annotations

from typing import Any, Self

from azure.core.pipeline.transport import AsyncHttpTransport


class NoTransport(AsyncHttpTransport[Any, Any]):
    """Needs no connection. What becomes of a request, ``send`` of a subclass says."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...
