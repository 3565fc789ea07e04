"""An app whose listeners are quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.listeners import QUICK
from tests.support.lock_thread import an_app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch, QUICK)
    return tmp_path
