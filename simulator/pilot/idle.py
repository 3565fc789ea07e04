"""How long the way to the service keeps an idle connection: one that is silent for minutes, and is then used again."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from simulator.checks.findings import note, unproven
from simulator.checks.reports import CheckResult
from singleton.runtime.accounts.stores import way_to
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.http.connections import Connections
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.wire import proxy_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.checks.findings import Finding
    from singleton.settings.connection import StorageAccount

MINUTES: Final = (4.0, 5.0, 10.0)
MARGIN: Final = 15.0
"""Seconds that a measure takes beyond its minutes."""
_ANSWER: Final = 10.0


class _Patient(Connections):
    """Connections that keep the idle one, however long, and use it whatever is known of it."""

    def _kept(self) -> Any:
        return self._idle.pop()[1] if self._idle else None

    def _tidy(self, *_: object) -> None:
        """Close nothing."""


async def watch_idle(account: StorageAccount, container: str, minutes: Sequence[float]) -> CheckResult:
    """Keep a connection idle for each of these times, and use it again."""
    found = await asyncio.gather(*(_idle_for(account, container, each) for each in minutes))
    promise = "An idle connection costs no lock: none is used that was idle for 15 s."
    return CheckResult(
        name="idle connections", promise=promise, looked_at={"connections kept idle": len(found)}, findings=tuple(found)
    )


async def _idle_for(account: StorageAccount, container: str, minutes: float) -> Finding:
    parts = urlsplit(account.endpoint)
    wire = way_to(account)
    way = wire._way = _Patient(parts.scheme, parts.netloc, proxy_for(parts.scheme, parts.netloc))  # noqa: SLF001
    store, what = DirectBlobStore(wire, container), f"after {minutes:g} idle minutes"
    async with aclosing(store):
        try:
            await within(_ANSWER, store.create(f"idle/{minutes:g}"))
            await within(_ANSWER, store.read(f"idle/{minutes:g}"))
        except StoreFailure as failure:
            return unproven(f"{what}: not tried: {failure}")
        if not way._idle:  # noqa: SLF001
            return note(f"{what}: not tried, because the service closes each connection after its answer")
        kept, began = way._idle[-1][1], time.monotonic()  # noqa: SLF001
        if (await asyncio.wait({kept.lost}, timeout=minutes * 60))[0]:
            return note(f"{what}: the other side had closed the connection after {time.monotonic() - began:.0f} s")
        try:
            await within(_ANSWER, store.read(f"idle/{minutes:g}"))
        except StoreFailure as failure:
            return note(f"{what}: dropped without a word: a request got no answer ({failure})")
        same = bool(way._idle) and way._idle[-1][1] is kept  # noqa: SLF001
    return note(f"{what}: a request was answered on {'the same' if same else 'another'} connection")
