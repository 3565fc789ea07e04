"""How a scenario of a store begins, and the lists. A scenario shows a promise, and has the promise as its name."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from simulator.pilot.assumed.lease_table import (
    CONTENT,
    bring_about,
    check,
)
from singleton.stores.protocol import ContentStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simulator.pilot.assumed.lease_table import LeaseRow, Start
    from singleton.stores.lock_keeping import BlobStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A store, a second client of the same blobs, the name of a blob that nobody else uses, and a way to wait."""

    store: BlobStore
    other: BlobStore
    name: str
    wait: Callable[[float], Coroutine[Any, Any, None]]

    def beside(self, name: str) -> Fixture:
        """Return this fixture for another blob."""
        return replace(self, name=f"locks/{name}")


StoreScenario: TypeAlias = "Callable[[Fixture], Coroutine[Any, Any, None]]"

QUICK: list[StoreScenario] = []
SLOW: list[StoreScenario] = []
"""Scenarios that wait for leases to end. On a real service all of them run at once."""


async def on_state(row: LeaseRow, fixture: Fixture) -> None:
    """Make a row's request on a blob in its state. A store without content has no such rows."""
    if row.call in CONTENT and not isinstance(fixture.store, ContentStore):
        return
    await bring_about(fixture.store, fixture.name, row.start)
    if row.start == "expired":
        await fixture.wait(15.5)
    await check(fixture.store, row, fixture.name)


def begins(start: Start | None, scenarios: list[StoreScenario]) -> Callable[[StoreScenario], StoreScenario]:
    """List a scenario that begins with a blob in this state, leased under ``A``; None: with an empty container."""

    def enlist(scenario: StoreScenario) -> StoreScenario:
        @functools.wraps(scenario)
        async def begun(fixture: Fixture) -> None:
            if start is not None:
                await bring_about(fixture.store, fixture.name, start)
            await scenario(fixture)

        scenarios.append(begun)
        return begun

    return enlist


def where(ability: type[Any], start: Start | None) -> Callable[[StoreScenario], StoreScenario]:
    """List a scenario that begins as ``begins`` has it. It is left out if the store has not this ability."""

    def enlist(scenario: StoreScenario) -> StoreScenario:
        @functools.wraps(scenario)
        async def if_it_can(fixture: Fixture) -> None:
            if isinstance(fixture.store, ability):
                await scenario(fixture)

        return begins(start, QUICK)(if_it_can)

    return enlist
