"""Metrics of all locks of a process: each is declared once, says what happened, and has few time series."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from singleton import AsyncLockClient, LockNotAcquired, current_hold, observe
from singleton.base.events import LockEvent, emit
from singleton.observing import metrics
from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.stores.request_count import counted
from singleton.testing import lose, virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import Context, a_job, an_app
from tests.support.network import LOST_REQUEST, Network
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.metrics.export import DataPointT


class Metrics:
    """What was recorded."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def all(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else [scope for each in data.resource_metrics for scope in each.scope_metrics]
        return {metric.name: metric for scope in found for metric in scope.metrics}

    def points(self, name: str) -> list[DataPointT]:
        metric = self.all().get(name)
        return [] if metric is None else list(metric.data.data_points)

    def counts(self, name: str, *labels: str) -> dict[Any, int]:
        """Return how often, by the values of these attributes."""
        found: dict[Any, int] = {}
        for point in self.points(name):
            key = tuple((point.attributes or {}).get(f"singleton.{label}") for label in labels)
            how_often = point.value if hasattr(point, "value") else point.count
            key_of_one = key if len(key) != 1 else key[0]
            found[key_of_one] = found.get(key_of_one, 0) + int(how_often)
        return found


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture
def recorded() -> Iterator[Metrics]:
    known = Metrics()
    end = observe(meter_provider=known.provider)
    yield known
    end()


def test_every_metric_has_a_name_a_unit_and_a_sentence(recorded: Metrics) -> None:
    assert len({metric.name for metric in metrics.METRICS}) == len(metrics.METRICS)
    for metric in metrics.METRICS:
        assert metric.name.startswith("singleton.")
        assert metric.unit == "s" if metric.kind != "counter" else metric.unit.startswith("{")
        assert metric.description.endswith(".")


@virtual_time
async def test_guarded_functions_are_counted_and_timed(recorded: Metrics) -> None:
    ship = a_job("async", lambda: asyncio.sleep(2.0))
    await asyncio.gather(*(ship(context=Context(f"inv-{number}", "ship")) for number in range(3)))
    assert recorded.counts("singleton.lock.acquired", "function", "mode") == {("ship", "function"): 3}
    assert recorded.counts("singleton.processing.count", "function", "outcome") == {("ship", "ok"): 3}
    (wait,) = recorded.points("singleton.lock.wait")
    (hold,) = recorded.points("singleton.lock.hold")
    (ran,) = recorded.points("singleton.processing.duration")
    assert [wait.count, hold.count, ran.count] == [3, 3, 3]  # type: ignore[union-attr]
    assert wait.sum == pytest.approx(0 + 2 + 4, abs=0.1)  # type: ignore[union-attr]
    assert hold.sum == pytest.approx(6, abs=0.1)  # type: ignore[union-attr]
    assert ran.sum == pytest.approx(6, abs=0.1)  # type: ignore[union-attr]
    assert recorded.all()["singleton.lock.wait"].unit == "s"


@virtual_time
async def test_a_contended_lock_is_counted_by_policy(recorded: Metrics) -> None:
    jobs = {policy: a_job("async", on_contention=policy) for policy in ("skip", "raise")}
    jobs["wait"] = a_job("async", timeout=3)
    holding = asyncio.create_task(a_job("async", lambda: asyncio.sleep(10.0))(context=Context("inv-0", "job")))
    await asyncio.sleep(1.0)
    for job in jobs.values():
        try:
            await job(context=Context("inv-1", "job"))
        except LockNotAcquired:
            continue
    await holding
    assert recorded.counts("singleton.lock.contended", "policy") == {"skip": 1, "raise": 1, "wait": 1}
    assert recorded.counts("singleton.lock.wait", "outcome") == {"acquired": 1, "contended": 3}


@virtual_time
async def test_a_lost_hold_is_counted_by_reason_and_timed_until_then(recorded: Metrics) -> None:
    async def lost() -> None:
        await asyncio.sleep(4.0)
        await asyncio.to_thread(lose, current_hold(), "stolen")
        await asyncio.sleep(100.0)

    with pytest.raises(Exception, match="stolen"):
        await a_job("async", lost)(context=Context())
    assert recorded.counts("singleton.lock.lost", "reason") == {"stolen": 1}
    assert recorded.counts("singleton.lock.hold", "outcome") == {"lost": 1}
    (hold,) = recorded.points("singleton.lock.hold")
    assert hold.sum == pytest.approx(4.0, abs=0.1)  # type: ignore[union-attr]


@virtual_time
async def test_locks_of_clients_are_told_by_what_they_are_for(recorded: Metrics) -> None:
    locks = AsyncLockClient()
    async with locks.lock("a"), locks.semaphore("s", 2):
        pass
    assert recorded.counts("singleton.lock.acquired", "mode", "function") == {
        ("lock", None): 1,
        ("semaphore", None): 1,
    }


def test_ten_thousand_scopes_are_one_time_series(recorded: Metrics) -> None:
    for number in range(10_000):
        for kind in ("acquired", "released"):
            emit(LockEvent(kind=kind, lock=f"locks/app/ship.{number}", function="ship", held=1.0, waited=0.1))
    assert len(recorded.points("singleton.lock.acquired")) == 1
    assert len(recorded.points("singleton.lock.hold")) == 1
    assert recorded.counts("singleton.lock.acquired", "function", "lock") == {("ship", None): 10_000}


def test_scopes_are_an_attribute_if_asked_for() -> None:
    known = Metrics()
    end = observe(scopes=True, meter_provider=known.provider)
    emit(LockEvent(kind="acquired", lock="locks/app/ship.7", function="ship"))
    end()
    assert known.counts("singleton.lock.acquired", "lock") == {"locks/app/ship.7": 1}


def test_aliases_are_recorded_beside_if_asked_for() -> None:
    known = Metrics()
    end = observe(aliases=True, meter_provider=known.provider)
    emit(LockEvent(kind="acquired", lock="a"))
    emit(LockEvent(kind="contended", lock="a", reason="skip"))
    emit(LockEvent(kind="contended", lock="a", reason="timeout"))
    emit(LockEvent(kind="body_ended", lock="a", reason="ok", ran=2.0))
    end()
    assert known.counts("lock_acquired") == {(): 1}
    assert known.counts("lock_skipped") == {(): 1}
    assert known.counts("processing_count") == {(): 1}
    assert known.points("processing_duration_seconds")[0].sum == 2.0  # type: ignore[union-attr]
    assert set(metrics.ALIASES.values()) <= set(known.all())
    assert known.counts("singleton.lock.contended", "policy") == {"skip": 1, "wait": 1}


def test_without_being_asked_for_they_are_not(recorded: Metrics) -> None:
    emit(LockEvent(kind="acquired", lock="a"))
    assert set(recorded.all()) == {"singleton.lock.acquired", "singleton.lock.held"}


def test_requests_are_counted_by_operation_and_status(recorded: Metrics) -> None:
    async def requests() -> None:
        store = counted(MemoryLeaseStore(), "blob")
        lease = "00000000-0000-4000-8000-000000000001"
        with pytest.raises(StoreFailure):
            await store.acquire("a", lease, 15)
        await store.create("a")
        await store.acquire("a", lease, 15)
        with pytest.raises(StoreFailure):
            await store.acquire("a", lease.replace("1", "2"), 15)
        await store.break_("a")

    run_virtual(requests())
    assert recorded.counts("singleton.storage.requests", "operation", "status") == {
        ("blob.acquire", "404"): 1,
        ("blob.create", "ok"): 1,
        ("blob.acquire", "ok"): 1,
        ("blob.acquire", "409"): 1,
        ("blob.break", "ok"): 1,
    }


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_what_an_operator_asks_for_is_counted_too(recorded: Metrics, http: Literal["direct", "sdk"]) -> None:
    nowhere = StorageAccount(
        "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://[::1]:1/a"
    )
    async with aclosing(counted(open_container(nowhere, "locks", http), "blob")) as store:
        with pytest.raises(StoreFailure):
            await store.break_("a", None, None)
    assert recorded.counts("singleton.storage.requests", "operation", "status") == {("blob.break", "none"): 1}


def test_a_request_without_an_answer_is_counted_as_such(recorded: Metrics) -> None:
    async def given_up() -> None:
        network = Network()
        network.always("release", LOST_REQUEST)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(counted(network, "blob").release("a", ""), 5.0)

    run_virtual(given_up())
    assert recorded.counts("singleton.storage.requests", "operation", "status") == {("blob.release", "none"): 1}


def test_a_store_is_left_as_it_is_where_nobody_counts() -> None:
    store = MemoryLeaseStore()
    assert counted(store, "blob") is store
    assert "acquire" not in vars(store)


# --- who observes -----------------------------------------------------------------------------------------------------


def test_a_second_call_takes_the_place_of_the_first(recorded: Metrics) -> None:
    other = Metrics()
    end = observe(meter_provider=other.provider)
    emit(LockEvent(kind="acquired", lock="a"))
    end()
    emit(LockEvent(kind="acquired", lock="a"))
    assert not recorded.all()
    assert other.counts("singleton.lock.acquired") == {(): 1}


def test_the_end_of_a_call_whose_place_was_taken_ends_nothing() -> None:
    first, second = Metrics(), Metrics()
    end_of_the_first = observe(meter_provider=first.provider)
    end = observe(meter_provider=second.provider)
    end_of_the_first()
    emit(LockEvent(kind="acquired", lock="a"))
    end()
    assert second.counts("singleton.lock.acquired") == {(): 1}


@pytest.mark.parametrize("mode", ["OpenTelemetry", "opentelemetry", "ApplicationInsights", None])
def test_host_json_may_ask_for_it(
    mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: list[dict[str, Any]]
) -> None:
    an_app(tmp_path, monkeypatch, '{"version": "2.0"%s}' % (f', "telemetryMode": "{mode}"' if mode else ""))
    invoke()
    assert len(called) == (mode in ("OpenTelemetry", "opentelemetry"))


def test_an_app_setting_stands_over_host_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: list[dict[str, Any]]
) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureFunctionsJobHost__telemetryMode", "OpenTelemetry")
    invoke()
    assert len(called) == 1


def test_without_the_package_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(Exception, match="add opentelemetry-api to requirements"):
        observe()
    an_app(tmp_path, monkeypatch, '{"version": "2.0", "telemetryMode": "OpenTelemetry"}')
    caplog.set_level(logging.WARNING, "singleton")
    invoke()
    assert "add opentelemetry-api to requirements.txt" in caplog.text


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr("singleton.observing.observe.observe", lambda **how: calls.append(how))
    return calls


@virtual_time
async def invoke() -> None:
    await a_job("async")(context=Context())
