"""What tests of the fake host share."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def unchanged_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Importing an app changes the process: undo that."""
    environment, path, folder = dict(os.environ), list(sys.path), os.getcwd()  # noqa: PTH109
    monkeypatch.setattr("singleton.decorator._declared", [])
    modules, level = dict(sys.modules), logging.getLogger("azure").level
    yield
    os.chdir(folder)
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for name in set(sys.modules) - set(modules):
        if name == "function_app" or name.startswith(("helper_of_", "azurefunctions.")):
            del sys.modules[name]
    sys.modules.update(modules)
    for noisy in ("azure", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(level)
