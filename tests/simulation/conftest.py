"""What the tests of virtual worlds share: a process that is prepared for them, and put back as it was."""

from __future__ import annotations

import pytest

import tests.worlds  # noqa: F401 - registers the workloads


@pytest.fixture(autouse=True)
def _prepared(prepared_for_worlds: None) -> None:
    """Prepare the process for each of these tests."""
