"""The suite that each ``BlobStore`` must pass: the stores for Azure, on Azurite, and the model in memory."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from simulator.pilot.assumed.lease_table import TABLE, LeaseRow, OtherLeaseError
from simulator.pilot.assumed.scenarios import QUICK, SLOW, Fixture, on_state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from simulator.pilot.assumed.scenarios import StoreScenario
    from singleton.stores.lock_keeping import BlobStore


class StoreConformance:
    """Tests of a ``BlobStore``: inherit the class, and override ``open_store``.

    The tests are plain methods, for pytest or together with ``unittest.TestCase``. The tests that wait for the end of
    a lease run together, for about 20 seconds, unless ``run_scenario`` or ``wait`` has another clock.

    Attributes:
        divergences: names of known differences from the blob service, such as Azurite's ``"A-1"``. The table of states
            marks the requests that differ. The answer to a marked request must then differ from the documentation.
    """

    divergences: ClassVar[Collection[str]] = ()

    def open_store(self) -> BlobStore:
        """Make a client of blobs that only this test uses; at first there are none.

        Called twice, on the running loop.
        """
        # Not abstract: pytest would then complain about each test instead of this.
        raise NotImplementedError(f"{type(self).__name__} must define open_store()")

    def run_scenario(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run a scenario to its end: on asyncio's loop, unless overridden."""
        asyncio.run(scenario)

    async def wait(self, seconds: float) -> None:
        """Let so many seconds pass on the service's clock: in real time, unless overridden."""
        await asyncio.sleep(seconds)

    def test_leases_end_and_are_prolonged_as_documented(self) -> None:
        """Run all scenarios that take the length of a lease, at once."""

        async def all_at_once(fixture: Fixture) -> None:
            expired = (self._on_state(row, fixture.beside(str(row))) for row in TABLE if row.start == "expired")
            prolonged = (scenario(fixture.beside(scenario.__name__)) for scenario in SLOW)
            results = await asyncio.gather(*expired, *prolonged, return_exceptions=True)
            if failures := [result for result in results if isinstance(result, BaseException)]:
                raise BaseExceptionGroup("leases do not end or go on as documented", failures)

        self._run(all_at_once)

    async def _on_state(self, row: LeaseRow, fixture: Fixture) -> None:
        try:
            await on_state(row, fixture)
        except OtherLeaseError:
            if row.divergence not in self.divergences:
                raise
        else:
            if row.divergence in self.divergences:
                raise AssertionError(f"{row} is answered as documented: it is no divergence {row.divergence} any more")

    def _run(self, scenario: StoreScenario) -> None:
        async def on_fresh_stores() -> None:
            store, other = self.open_store(), self.open_store()
            async with aclosing(store), aclosing(other):
                await scenario(Fixture(store=store, other=other, name="locks/job", wait=self.wait))

        self.run_scenario(on_fresh_stores())


def _add_tests() -> None:
    """Make a test of each scenario and of each request on each state."""

    def scenario_test(scenario: StoreScenario) -> Callable[[StoreConformance], None]:
        return lambda self: self._run(scenario)

    def row_test(row: LeaseRow) -> Callable[[StoreConformance], None]:
        return lambda self: self._run(lambda fixture: self._on_state(row, fixture))

    tests = {scenario.__name__: scenario_test(scenario) for scenario in QUICK}
    tests |= {str(row).replace("-", "_"): row_test(row) for row in TABLE if row.start != "expired"}
    for name, test in tests.items():
        test.__name__ = test.__qualname__ = f"test_{name}"
        setattr(StoreConformance, test.__name__, test)


_add_tests()
