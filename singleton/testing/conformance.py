"""The suite that a ``LeaseStore`` must pass for locks to be right on it: what the in-memory store and Azurite pass."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from singleton.testing.scenarios import QUICK, SLOW, A, Place
from singleton.testing.states import TABLE, Row, bring_about, check

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from singleton.stores.protocol import LeaseStore

_NAME = "locks/job"


class StoreConformance:
    """Tests of a ``LeaseStore``: inherit them, and say how to open yours.

    They are plain methods, for pytest or beside ``unittest.TestCase``. Those that wait for leases to end do so
    together, for about twenty seconds, unless ``run_scenario`` or ``wait`` has another clock.

    Attributes:
        divergences: names of known differences from the blob service that the table of states marks, such as
            Azurite's ``"A-1"``; a marked request must then answer otherwise than documented.

    Example::

        class TestMyStore(StoreConformance):
            def open_store(self) -> LeaseStore:
                return MyStore(self.folder)
    """

    divergences: ClassVar[Collection[str]] = ()

    def open_store(self) -> LeaseStore:
        """Make a client of the test's own blobs, of which there is none at first. Called twice, on the running loop."""
        raise NotImplementedError(f"{type(self).__name__} must define open_store()")

    def run_scenario(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run a scenario to its end: on asyncio's loop, unless overridden."""
        asyncio.run(scenario)

    async def wait(self, seconds: float) -> None:
        """Let so many seconds pass on the service's clock: really, unless overridden."""
        await asyncio.sleep(seconds)

    def test_leases_end_and_are_prolonged_as_documented(self) -> None:
        """All that takes the length of a lease, at once."""

        async def all_at_once(place: Place) -> None:
            expired = (self._after_expiry(place, row) for row in TABLE if row.start == "expired")
            prolonged = (scenario(_beside(place, scenario.__name__)) for scenario in SLOW)
            results = await asyncio.gather(*expired, *prolonged, return_exceptions=True)
            if failures := [result for result in results if isinstance(result, BaseException)]:
                raise BaseExceptionGroup("leases do not end or go on as documented", failures)

        self._run(all_at_once)

    async def _after_expiry(self, place: Place, row: Row) -> None:
        beside = _beside(place, str(row))
        await bring_about(beside.store, beside.name, row.start, A)
        await self.wait(15.5)
        await self._check(row, beside)

    async def _check(self, row: Row, place: Place) -> None:
        if not row.divergence or row.divergence not in self.divergences:
            await check(place.store, row, place.name, A)
            return
        try:
            await check(place.store, row, place.name, A)
        except AssertionError:
            return
        raise AssertionError(f"{row} is answered as documented: it is no divergence {row.divergence} any more")

    async def _on_state(self, row: Row, place: Place) -> None:
        await bring_about(place.store, place.name, row.start, A)
        await self._check(row, place)

    def _run(self, scenario: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
        async def on_fresh_stores() -> None:
            async with AsyncExitStack() as closing:
                stores = self.open_store(), self.open_store()
                for store in stores:
                    closing.push_async_callback(store.aclose)
                await scenario(Place(store=stores[0], other=stores[1], name=_NAME, wait=self.wait))

        self.run_scenario(on_fresh_stores())


def _beside(place: Place, name: str) -> Place:
    return Place(store=place.store, other=place.other, name=f"locks/{name}", wait=place.wait)


def _add_tests() -> None:
    """Make a test of each scenario and of each request on each state."""

    def scenario_test(scenario: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[StoreConformance], None]:
        return lambda self: self._run(scenario)

    def row_test(row: Row) -> Callable[[StoreConformance], None]:
        return lambda self: self._run(lambda place: self._on_state(row, place))

    tests = {scenario.__name__: scenario_test(scenario) for scenario in QUICK}
    tests |= {str(row).replace("-", "_"): row_test(row) for row in TABLE if row.start != "expired"}
    for name, test in tests.items():
        test.__name__ = test.__qualname__ = f"test_{name}"
        setattr(StoreConformance, test.__name__, test)


_add_tests()
