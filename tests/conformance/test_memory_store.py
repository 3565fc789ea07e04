"""The model of the service passes the suite that Azurite passes too (tests/integration/test_azurite_conformance.py)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from singleton.stores.memory import MemoryLeaseStore
from tests.conformance.scenarios import QUICK, SLOW, A, Place
from tests.conformance.states import TABLE, Row, bring_about, check
from tests.support.world import virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@pytest.mark.parametrize("scenario", QUICK + SLOW, ids=lambda scenario: scenario.__name__)
@virtual
async def test_the_model_keeps_what_a_lock_relies_on(
    scenario: Callable[[Place], Coroutine[object, object, None]],
) -> None:
    store = MemoryLeaseStore()
    await scenario(Place(store=store, other=store, name="locks/job"))


@pytest.mark.parametrize("row", TABLE, ids=str)
@virtual
async def test_the_model_answers_each_request_in_each_state_as_documented(row: Row) -> None:
    store = MemoryLeaseStore()
    await bring_about(store, "locks/job", row.start, A)
    if row.start == "expired":
        await asyncio.sleep(15.5)
    await check(store, row, "locks/job", A)
