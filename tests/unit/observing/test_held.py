"""The gauge of holds that go on: what tells of a body that hangs, while it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from singleton import AsyncLockClient, observe
from singleton.base.events import LockEvent, emit
from singleton.observing.metrics import HoldTimes
from singleton.testing import lose, virtual_time
from tests.support.lock_thread import Context, a_job, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Gauge:
    """What the gauge says when it is asked."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def points(self) -> dict[Any, float]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else [scope for each in data.resource_metrics for scope in each.scope_metrics]
        metrics = [metric for scope in found for metric in scope.metrics if metric.name == "singleton.lock.held"]
        assert all(metric.unit == "s" for metric in metrics)
        return {
            tuple(value for _, value in sorted((point.attributes or {}).items())): point.value  # type: ignore[union-attr]
            for metric in metrics
            for point in metric.data.data_points
        }


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture
def gauge() -> Iterator[Gauge]:
    known = Gauge()
    end = observe(meter_provider=known.provider)
    yield known
    end()


@contextlib.asynccontextmanager
async def inside(*bodies: Any) -> Any:
    """Have these invocations under way."""
    tasks = [asyncio.ensure_future(body) for body in bodies]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@virtual_time
async def test_a_body_that_hangs_is_told_while_it_does(gauge: Gauge) -> None:
    nightly = a_job("async", lambda: asyncio.sleep(10_000), on_contention="skip")
    async with inside(nightly(context=Context("inv-1", "nightly"))):
        await asyncio.sleep(700)
        assert gauge.points() == {("nightly", "function"): pytest.approx(700, abs=1)}
        await asyncio.sleep(700)
        assert gauge.points() == {("nightly", "function"): pytest.approx(1400, abs=1)}
    assert gauge.points() == {}


@virtual_time
async def test_of_the_holds_of_a_function_the_longest_is_told(gauge: Gauge) -> None:
    for number in range(3):
        emit(LockEvent(kind="acquired", lock=f"locks/app/ship.{number}", function="ship", use=-number))
        await asyncio.sleep(20)
    async with AsyncLockClient().lock("a"), AsyncLockClient().semaphore("s", 2):
        await asyncio.sleep(30)
        assert gauge.points() == {
            ("ship", "function"): pytest.approx(90, abs=1),
            ("lock",): pytest.approx(30, abs=1),
            ("semaphore",): pytest.approx(30, abs=1),
        }
        emit(LockEvent(kind="released", lock="locks/app/ship.0", function="ship", use=0))
        assert gauge.points()["ship", "function"] == pytest.approx(70, abs=1)


@virtual_time
async def test_a_hold_that_was_lost_goes_on_no_more(gauge: Gauge) -> None:
    async with AsyncLockClient().lock("a", on_loss="tell") as hold:
        await asyncio.sleep(4.0)
        assert gauge.points() == {("lock",): pytest.approx(4, abs=0.1)}
        await asyncio.to_thread(lose, hold, "stolen")
        assert gauge.points() == {}


@virtual_time
async def test_what_a_process_keeps_for_life_is_left_out(gauge: Gauge) -> None:
    await a_job("async", mode="listener")(context=Context())
    async with AsyncLockClient().leadership("poller") as leadership:
        await leadership
        await asyncio.sleep(1000)
        assert gauge.points() == {}


def test_ten_thousand_scopes_are_one_point(gauge: Gauge) -> None:
    for number in range(10_000):
        emit(LockEvent(kind="acquired", lock=f"locks/app/ship.{number}", function="ship", use=number + 1))
    assert list(gauge.points()) == [("ship", "function")]
    for number in range(10_000):
        emit(LockEvent(kind="released", lock=f"locks/app/ship.{number}", function="ship", use=number + 1))
    assert gauge.points() == {}


def test_scopes_are_told_apart_if_asked_for() -> None:
    known = Gauge()
    end = observe(scopes=True, meter_provider=known.provider)
    for number in (1, 2):
        emit(LockEvent(kind="acquired", lock=f"locks/app/ship.{number}", function="ship", use=number))
    assert sorted(known.points()) == [
        ("ship", "locks/app/ship.1", "function"),
        ("ship", "locks/app/ship.2", "function"),
    ]
    end()


def test_nothing_is_told_when_nobody_observes_any_more(gauge: Gauge) -> None:
    other = Gauge()
    end = observe(meter_provider=other.provider)
    emit(LockEvent(kind="acquired", lock="a", use=1))
    assert gauge.points() == {}
    assert list(other.points()) == [("function",)]
    end()
    assert other.points() == {}


def test_who_observes_again_with_the_same_provider_is_told_by_the_gauge_that_is_there(gauge: Gauge) -> None:
    end = observe(meter_provider=gauge.provider)
    emit(LockEvent(kind="acquired", lock="a", use=1))
    assert list(gauge.points()) == [("function",)]
    end()
    assert gauge.points() == {}


def test_a_fork_has_none_of_the_holds_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HoldTimes(scopes=False)

    def told() -> int:
        return len(list(held.longest()))

    held.take(LockEvent(kind="acquired", lock="a", use=1))
    assert told() == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert told() == 0
    held.take(LockEvent(kind="acquired", lock="b", use=2))
    assert told() == 1
