"""Token credentials on the lock thread: credentials from settings, and credentials of the caller that block.

azure-identity makes credentials from settings. It is an extra, and imported only when asked for.

A caller's credential may not be for asyncio, such as ``azure.identity.DefaultAzureCredential``, and block while it asks
for a token, so each call runs on a separate thread. A credential that hangs keeps no process alive.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.callables import returns_coroutine
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.tasks import decided, on_daemon_thread

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

    from singleton.settings.connection import CredentialSpec

_PATIENCE: Final = 55.0
"""Seconds after which a call counts as stuck, and the next request begins a new call. ``Token`` gives up at 60."""


def open_credential(spec: CredentialSpec) -> AsyncTokenCredential:
    """Make the credential of the settings (H-26 to H-28). ``ConfigurationError``: azure-identity is not installed."""
    try:
        with importing:
            from azure.identity import aio
    except ImportError:
        raise ConfigurationError(
            "this connection uses an identity, and azure-identity (the extra [identity]) is not installed: "
            "add azure-identity to requirements.txt, or give a connection string"
        ) from None
    arguments: dict[str, Any] = dict(spec.arguments)
    other_ids = {name: value for name in ("resource_id", "object_id") if (value := arguments.pop(name, None))}
    if other_ids:
        arguments["identity_config"] = other_ids
    return getattr(aio, spec.kind)(**arguments)  # type: ignore[no-any-return]


def blocks(credential: object) -> bool:
    """Say whether this is a token credential that is not for asyncio."""
    get_token = getattr(credential, "get_token", None)
    return get_token is not None and not returns_coroutine(get_token)


@dataclass(frozen=True, slots=True)
class _TokenCall:
    asked: tuple[str, tuple[str, ...], dict[str, Any]]
    since: float
    answer: asyncio.Future[Any]


class ThreadedCredential:
    """Makes a credential for asyncio of a credential that blocks, on one event loop.

    An equal request during a call gets the answer of the call, too. A request that gives up does not end the call. The
    credential stays the owner's: ``close`` refuses further calls only.
    """

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._call: _TokenCall | None = None
        self._closed = False
        if hasattr(credential, "get_token_info"):
            self.get_token_info = partial(self._ask, "get_token_info")

    async def get_token(self, *scopes: str, **keywords: Any) -> Any:
        """Return what the credential's ``get_token`` returns."""
        return await self._ask("get_token", *scopes, **keywords)

    async def close(self) -> None:
        """Refuse further calls; don't wait for the end of a call."""
        self._closed = True

    async def _ask(self, method: str, *scopes: str, **keywords: Any) -> Any:
        if self._closed:
            raise RuntimeError("the store that this credential was for is closed")
        asked = method, scopes, keywords
        loop, call = asyncio.get_running_loop(), self._call
        now = loop.time()
        if call is None or call.answer.done() or call.asked != asked or now - call.since >= _PATIENCE:
            ask = partial(getattr(self._credential, method), *scopes, **keywords)
            work = partial(copy_context().run, decided, "the credential", ask)
            answer = on_daemon_thread(loop, work, "credential")
            answer.add_done_callback(lambda answer: answer.exception())  # marks an error as seen
            call = self._call = _TokenCall(asked, now, answer)
        await asyncio.wait({call.answer})
        return call.answer.result()
