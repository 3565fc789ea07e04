"""Engines of SQLite files, closed in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.patterns import sqlite_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = sqlite_engine(tmp_path / "app.db")
    yield engine
    engine.dispose()
