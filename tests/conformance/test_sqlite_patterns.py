"""Outboxes and row states on SQLite pass the suites that they pass on PostgreSQL (tests/integration)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance import outbox_suite, rowstates_suite
from tests.support.patterns import sqlite_engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.mark.parametrize(
    "scenario", [*outbox_suite.SCENARIOS, *rowstates_suite.SCENARIOS], ids=lambda each: each.__name__
)
def test_patterns(scenario: Callable[[Engine], None], tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "app.db")
    try:
        scenario(engine)
    finally:
        engine.dispose()
