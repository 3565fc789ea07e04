"""Locks and semaphores on the model pass the suites that they pass on Azurite (tests/integration)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance import mutex_suite, semaphore_suite
from tests.support.inline import InlineHost
from tests.support.world import virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@pytest.mark.parametrize("kind", mutex_suite.KINDS, ids=str)
@pytest.mark.parametrize("scenario", mutex_suite.SCENARIOS, ids=lambda each: each.__name__)
@virtual
async def test_mutexes(scenario: Callable[..., Coroutine[Any, Any, None]], kind: mutex_suite.Kind) -> None:
    service = MemoryLeaseStore()
    case = mutex_suite.Case(InlineHost(service, 1), InlineHost(service, 2), kind, "suite/job")
    await mutex_suite.run(scenario, case)
    assert service.leased() == {}


@pytest.mark.parametrize("scenario", semaphore_suite.SCENARIOS, ids=lambda each: each.__name__)
@virtual
async def test_semaphores(scenario: Callable[..., Coroutine[Any, Any, None]]) -> None:
    service = MemoryLeaseStore()
    await scenario(InlineHost(service, 1), InlineHost(service, 2), "suite/reports")
    assert service.leased() == {}
