"""What is logged and told of a waiter's hold belongs to the waiter, on whichever thread it comes up.

A line in another context goes out in the name of another invocation, or into another span.
"""

from __future__ import annotations

import contextvars
import gc
import logging
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from singleton import LockClient, subscribe
from singleton.base.invocation import Invocation
from tests.support.waiters import LOCK, eventually, in_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.hold import Hold
    from tests.support.lock_thread import LockThread

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


class Lines(logging.Handler):
    """Notes each line, with what ``look`` finds as it goes out."""

    def __init__(self, look: Callable[[], str | None]) -> None:
        super().__init__()
        self._look = look
        self._said: list[tuple[str, str | None]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append((record.getMessage(), self._look()))

    def about(self, words: str) -> list[str | None]:
        """Return what was found as the lines with these words went out."""
        return [found for line, found in self._said if words in line]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[logging.Logger]:
    caplog.set_level(logging.DEBUG, "singleton")
    logger = logging.getLogger("singleton")
    before = [*logger.handlers]
    yield logger
    logger.handlers[:] = before


@pytest.fixture
def lines(log: logging.Logger) -> Lines:
    """Lines, each with the caller in whose context it went out."""
    noted = Lines(caller.get)
    log.addHandler(noted)
    return noted


def acquired_by(who: str, got: list[Hold]) -> threading.Thread:
    """Have somebody acquire the lock on a thread and in a context of his own, in which he is the caller."""

    def acquire() -> None:
        caller.set(who)
        with Invocation(f"inv-{who}", None, who):
            got.append(LockClient().acquire(LOCK, owner=who))

    thread = threading.Thread(target=lambda: contextvars.Context().run(acquire))
    thread.start()
    return thread


def two_in_a_row(thread: LockThread) -> list[Hold]:
    """Return, alone in a list, the hold of ``late``, who waited while ``early`` had the lock."""
    got: list[Hold] = []
    acquired_by("early", got).join(10)
    waiting = acquired_by("late", got)
    eventually(lambda: in_line(thread) == 1)
    first = got.pop()
    LockClient().release(first)
    waiting.join(10)
    return got


def test_the_line_that_he_has_acquired_it_goes_out_in_his_context(thread: LockThread, lines: Lines) -> None:
    (hold,) = two_in_a_row(thread)
    LockClient().release(hold)
    assert lines.about("acquired") == ["early", "late"]


def test_the_release_of_who_hands_it_on_is_told_in_the_context_of_who_acquired_it(thread: LockThread) -> None:
    told: list[tuple[str, str]] = []
    unsubscribe = subscribe(
        lambda event: told.append((event.owner, caller.get())) if event.kind == "released" else None
    )
    (hold,) = two_in_a_row(thread)
    LockClient().release(hold)
    unsubscribe()
    assert told == [("early", "early"), ("late", "late")]


def test_the_line_that_his_hold_was_collected_goes_out_in_his_context(thread: LockThread, lines: Lines) -> None:
    two_in_a_row(thread).clear()
    gc.collect()
    eventually(lambda: not thread.leased())
    assert lines.about("garbage-collected") == ["late"]


def test_the_loss_of_his_hold_is_logged_as_his(thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "singleton")
    (hold,) = two_in_a_row(thread)
    thread.deleted(LOCK)
    assert hold.lost.wait(10)
    LockClient().release(hold)
    (lost,) = [record for record in caplog.records if "hold lost" in record.getMessage()]
    assert (vars(lost)["owner"], vars(lost)["function"]) == ("inv-late", "late")


def test_of_a_caller_whose_invocation_only_the_worker_knows_the_lines_bear_its_id(
    thread: LockThread, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is a function without a guard."""
    worker, storage = ModuleType("azure_functions_worker.dispatcher"), threading.local()
    vars(worker)["_invocation_id_local"] = storage
    monkeypatch.setitem(sys.modules, worker.__name__, worker)
    lines = Lines(lambda: getattr(storage, "invocation_id", None))
    log.addHandler(lines)
    locks, got = LockClient(), list[str]()

    def use() -> None:
        storage.invocation_id = "inv-1"
        with locks.lock(LOCK):
            got.append("it")

    with locks.lock(LOCK):
        waiting = threading.Thread(target=use)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
    waiting.join(10)
    assert got
    assert lines.about("acquired") == [None, "inv-1"]
