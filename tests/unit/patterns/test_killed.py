"""Processes killed between any two statements on SQLite; on PostgreSQL it is tests/integration/test_postgres.py."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.process
def test_a_process_may_be_killed_before_any_statement_on_sqlite(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.killing", f"sqlite:///{tmp_path}/app.db", str(tmp_path)]
    points = subprocess.check_output(command, text=True).split()
    assert all(int(each) >= least for each, least in zip(points, (50, 3, 10), strict=True)), points
