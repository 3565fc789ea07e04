"""A wait ends before the host's ``functionTimeout`` strikes, which would end the worker with every body in it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockNotAcquired, singleton
from singleton.settings import hostjson
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, an_app
from tests.support.world import now, until, virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from singleton.functions.contention import Contention
    from singleton.testing.storage.memory_store import MemoryLeaseStore

MINUTES = 60.0


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


def host_json(app: Path, function_timeout: str | None, **options: str) -> None:
    settings = {"version": "2.0", "functionTimeout": function_timeout, "singleton": options}
    (app / "host.json").write_text(json.dumps(settings))


def a_job(**arguments: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def job(timer: object) -> str:
        return "done"

    return singleton(**arguments)(job)


async def tick(host: InlineHost, job: Callable[..., Any]) -> Any:
    with host.here():
        return await job(timer=object(), context=Context())


async def taken_for_ever(service: MemoryLeaseStore, lock: str = "locks/app/job") -> None:
    await service.create(lock)
    await service.acquire(lock, "99999999-9999-4999-8999-999999999999", -1)


async def refused(host: InlineHost, job: Callable[..., Any]) -> LockNotAcquired:
    with pytest.raises(LockNotAcquired) as caught:
        await tick(host, job)
    return caught.value


@pytest.mark.parametrize(
    ("limit", "ends"),
    [("00:05:00", 270), ("00:00:40", 35), ("00:00:04", 2), (None, 27 * MINUTES)],
    ids=["a tenth", "five seconds", "half", "the plan's"],
)
@pytest.mark.parametrize(("timeout", "policy"), [(None, "wait"), (60 * MINUTES, "wait"), (None, "coalesce")])
def test_it_ends_with_an_error_that_says_why_and_what_to_do(
    app: Path, limit: str | None, ends: float, timeout: float | None, policy: Any
) -> None:
    host_json(app, limit)

    @virtual
    async def story() -> None:
        await taken_for_ever((host := InlineHost(service())).network.service)
        error = await refused(host, a_job(timeout=timeout, on_contention=policy))
        assert now() == pytest.approx(ends, abs=0.1)
        assert (error.reason, error.lock, error.owner) == ("functionTimeout", "locks/app/job", "inv-1")
        where = f"{limit}, host.json" if limit else "00:30:00, the default of its plan"
        assert f"functionTimeout ({where}) includes the wait" in str(error)
        assert "within" in str(error)
        assert "Raise functionTimeout" in str(error)
        assert ("'skip'" in str(error)) == (policy == "wait")  # which loses the last change that a coalesced one keeps

    story()


def service() -> MemoryLeaseStore:
    from singleton.testing.storage.memory_store import MemoryLeaseStore

    return MemoryLeaseStore()


def test_a_shorter_time_out_is_what_it_was_and_without_a_limit_a_wait_has_none(app: Path) -> None:
    @virtual
    async def story() -> None:
        host_json(app, "00:05:00")
        await taken_for_ever((host := InlineHost(service())).network.service)
        error = await refused(host, a_job(timeout=20))
        assert (round(now(), 1), error.reason) == (20, None)
        assert "functionTimeout" not in str(error)
        host_json(app, "00:05:00", listenerLockRecoveryPollingInterval="00:01:00")
        await taken_for_ever(host.network.service, "locks/app/job~listener")
        error = await refused(host, a_job(mode="listener", on_contention="raise"))
        assert str(error) == "job did not run here: another process is its listener (lock 'locks/app/job~listener')"
        await host.registry.aclose()
        host = InlineHost(host.network.service)

        host_json(app, "-1")
        waiting = asyncio.ensure_future(tick(host, a_job()))
        await until(100 * MINUTES)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait({waiting})

    story()


def test_the_wait_for_the_listener_counts_towards_that_for_the_lock(app: Path) -> None:
    host_json(app, "00:05:00", listenerLockRecoveryPollingInterval="10675199.02:48:05.4775807")

    @virtual
    async def story() -> None:
        host = InlineHost(service())
        await host.network.service.create(listens := "locks/app/job~listener")
        await host.network.service.acquire(listens, "99999999-9999-4999-8999-999999999999", 60)
        await taken_for_ever(host.network.service)
        error = await refused(host, singleton(mode="listener", timeout=100)(a_job()))
        assert (error.lock, error.reason) == ("locks/app/job", "functionTimeout")
        assert now() == pytest.approx(270, abs=0.1)
        await host.registry.aclose()

    story()


def test_an_invocation_does_not_wait_for_long_for_its_process_to_listen_but_the_process_goes_on(app: Path) -> None:
    host_json(app, "00:05:00", listenerLockRecoveryPollingInterval="10675199.02:48:05.4775807")

    @virtual
    async def story() -> None:
        host = InlineHost(service())
        await taken_for_ever(host.network.service, "locks/app/job~listener")
        job = a_job(mode="listener", on_contention="raise")
        error = await refused(host, job)
        assert (round(now(), 1), error.reason) == (10, None)
        assert "is not its listener yet" in str(error)
        await host.network.service.release("locks/app/job~listener", "99999999-9999-4999-8999-999999999999")
        await until(280)
        assert await tick(host, job) == "done"
        await host.registry.aclose()

    story()


def test_what_is_waited_for_after_a_policy_was_asked_counts_too(app: Path) -> None:
    host_json(app, "00:00:40")

    def slow_to_decide(_: Contention) -> Any:
        return "wait"

    @virtual
    async def story() -> None:
        await taken_for_ever((host := InlineHost(service())).network.service)
        error = await refused(host, a_job(on_contention=slow_to_decide))
        assert now() == pytest.approx(35, abs=0.1)
        assert error.reason == "functionTimeout"

    story()


def test_a_guarded_function_that_is_called_in_a_body_has_what_is_left_of_its_callers_time(app: Path) -> None:
    host_json(app, "00:05:00")

    @virtual
    async def story() -> None:
        await taken_for_ever((host := InlineHost(service())).network.service)
        inner = a_job()

        @singleton
        async def outer(timer: object) -> None:
            await asyncio.sleep(200)
            await inner(timer=timer, context=Context("inv-1"))

        error = await refused(host, outer)
        assert (error.lock, error.reason, round(now())) == ("locks/app/job", "functionTimeout", 270)

    story()


def test_what_a_body_left_behind_is_no_part_of_its_invocation(app: Path) -> None:
    """A task that outlives the invocation in which it began, and calls a guarded function later."""
    host_json(app, "00:05:00")

    @virtual
    async def story() -> None:
        host, left = InlineHost(service()), []
        inner = a_job()

        async def later(timer: object) -> Any:
            await asyncio.sleep(1000)
            return await inner(timer=timer, context=Context("inv-1"))

        @singleton
        async def outer(timer: object) -> None:
            left.append(asyncio.ensure_future(later(timer)))

        await tick(host, outer)
        await until(999)
        await taken_for_ever(host.network.service)
        with pytest.raises(LockNotAcquired):
            await left[0]
        assert round(now()) == 1270

    story()


def test_attempts_of_a_layout_end_with_it(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_json(app, "00:00:40")
    monkeypatch.setenv("Dequeueable__Singleton__MaxRetries", "10")

    @virtual
    async def story() -> None:
        host = InlineHost(service())
        await taken_for_ever(host.network.service, "7")

        @singleton(scope="Id", layout="dequeueable")
        async def job(msg: str, context: object) -> None: ...

        with host.here(), pytest.raises(LockNotAcquired) as caught:
            await job(msg='{"Id": 7}', context=Context())
        assert now() == pytest.approx(35, abs=0.1)
        assert caught.value.reason == "functionTimeout"

    story()


def test_host_json_is_not_read_at_each_invocation(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_json(app, "00:05:00")
    reads: list[Path] = []
    read_object = hostjson.read_object

    def read(path: Path) -> Any:
        reads.append(path)
        return read_object(path)

    monkeypatch.setattr("singleton.settings.hostjson.read_object", read)

    @virtual
    async def story() -> None:
        host, job = InlineHost(service()), a_job()
        assert await tick(host, job) == "done"
        first = len(reads)
        assert first > 0
        for _ in range(4):
            assert await tick(host, job) == "done"
        assert len(reads) == first

    story()


@pytest.mark.parametrize(
    ("arguments", "option", "told"),
    [
        ({"timeout": 600}, None, True),
        ({"timeout": 600, "on_contention": "skip"}, None, True),
        ({"timeout": 60}, None, False),
        ({}, None, False),
        ({}, "00:10:00", True),
        ({"on_contention": "skip"}, "00:10:00", False),
    ],
)
def test_a_time_out_that_is_cut_is_told_once_at_the_first_invocation(
    app: Path, arguments: dict[str, Any], option: str | None, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    host_json(app, "00:05:00", **({"lockAcquisitionTimeout": option} if option else {}))

    @virtual
    async def story() -> None:
        host, job = InlineHost(service()), a_job(**arguments)
        assert caplog.records == []
        for _ in range(3):
            await tick(host, job)
        said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(said) == told
        assert all(
            text.startswith(
                "@singleton on job: the time-out is 600 seconds, but a wait ends after 00:04:30: functionTimeout"
            )
            for text in said
        )

    story()
