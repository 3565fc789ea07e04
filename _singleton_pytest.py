"""Fixtures for pytest.

Every run of pytest loads this module. So it is outside the package, and imports the package only when a test asks for
it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from _singleton_found import hidden

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pluggy


_TITLE: Final = "another module singleton"


def _refuse_another() -> None:
    """Fail the test if a module of the app's own hides the package."""
    if (said := hidden()) is not None:
        pytest.fail(said, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests() -> Generator[None, pluggy.Result[None], None]:
    """Say, where a conftest.py can't be imported, whether a module of the app's own hides the package."""
    outcome = yield
    if outcome.exception is not None and (said := _hidden_here()) is not None:
        sys.stderr.write(f"{said}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, pluggy.Result[pytest.CollectReport], None]:
    """Say of an import that failed whether a module of the app's own hides the package."""
    _tell((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Say, for a test that failed, whether a module of the app's own hides the package."""
    _tell((yield).get_result())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, also where all tests passed, whether a module of the app's own hides the package."""
    if (said := _hidden_here()) is not None:
        terminalreporter.section(_TITLE)
        terminalreporter.line(said)


def _tell(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.failed and "singleton" in report.longreprtext and (said := _hidden_here()) is not None:
        report.sections.append((_TITLE, said))


def _hidden_here() -> str | None:
    """Return what to say if the tests have imported another module; the package itself is not imported for it."""
    return hidden() if "singleton" in sys.modules else None


@pytest.fixture
def singleton_locks() -> Iterator[None]:
    """Keep all locks in memory; fail the test if it leaves one held. See ``singleton.testing.memory_locks``."""
    _refuse_another()
    from singleton.testing import memory_locks

    with memory_locks():
        yield


@pytest.fixture
def singleton_always_busy() -> Iterator[None]:
    """Let somebody else hold every lock. See ``singleton.testing.always_busy``."""
    _refuse_another()
    from singleton.testing import always_busy

    with always_busy():
        yield


@pytest.fixture
def singleton_disabled() -> Iterator[None]:
    """Switch locking off. See ``singleton.testing.disabled``."""
    _refuse_another()
    from singleton.testing import disabled

    with disabled():
        yield
