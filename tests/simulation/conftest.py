"""What the tests of virtual worlds share: a process that is prepared for them, and put back as it was."""

from __future__ import annotations

import pytest

from simulator.virtual.worlds.runtime import prepare_process


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("AzureFunctionsWebHost__hostid", "taken back after the test")
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "-1")
    prepare_process()
