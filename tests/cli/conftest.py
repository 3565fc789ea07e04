"""What the tests of the command share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.azurite.server import Azurite
from tests.cli.running import Sim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def storage() -> Iterator[str]:
    """The connection string of an Azurite that a user might have running."""
    with Azurite() as azurite:
        yield azurite.connection_string


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Callable[..., Sim]]:
    """Start ``singleton-sim`` in an empty folder; it is ended with the test."""
    started: list[Sim] = []

    def start(*arguments: str, **environment: str) -> Sim:
        folder = tmp_path / f"run-{len(started)}"
        folder.mkdir()
        started.append(Sim(folder, *arguments, **environment))
        return started[-1]

    yield start
    for run in started:
        with run:
            pass
