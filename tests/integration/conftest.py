"""A real storage emulator for the tests that need one: one for each pytest process, a container for each test."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from simulator.azurite.server import Azurite

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azurite that runs for all the tests of this process: share it, don't stop it."""
    with Azurite() as running:
        yield running


@pytest.fixture
def connection_string(azurite: Azurite) -> str:
    """The connection string of that Azurite."""
    return azurite.connection_string


@pytest.fixture
def container_name() -> str:
    """A name of a container, or queue, that no other test uses; it does not exist yet."""
    return f"test-{uuid.uuid4().hex}"
