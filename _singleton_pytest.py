"""Fixtures for pytest.

Every run of pytest loads this module. So it is outside the package, and imports the package only when a test asks for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def singleton_locks() -> Iterator[None]:
    """Keep all locks in memory; fail the test if it leaves one held. See ``singleton.testing.memory_locks``."""
    from singleton.testing import memory_locks

    with memory_locks():
        yield


@pytest.fixture
def singleton_always_busy() -> Iterator[None]:
    """Let somebody else hold every lock. See ``singleton.testing.always_busy``."""
    from singleton.testing import always_busy

    with always_busy():
        yield


@pytest.fixture
def singleton_disabled() -> Iterator[None]:
    """Switch locking off. See ``singleton.testing.disabled``."""
    from singleton.testing import disabled

    with disabled():
        yield
