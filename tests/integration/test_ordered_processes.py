"""Inboxes on a real storage emulator: processes that are killed or stand still lose nothing and keep the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.ordered_storm import Storm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.process
@pytest.mark.slow
def test_killed_and_paused_processes_lose_nothing_and_keep_the_order(connection_string: str, tmp_path: Path) -> None:
    storm = Storm(connection_string, tmp_path / "journal", keys=3, count=15, workers=3, senders=2)
    storm.run()
    told = storm.judge()
    assert told["kills"] + told["pauses"]
