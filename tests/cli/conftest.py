"""The command's tests share one machine: they keep to one worker, so that they don't starve one another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.azurite.server import Azurite
from tests.cli.running import Sim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests of one group run on one worker")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("cli"))


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
