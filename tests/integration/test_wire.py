"""Requests counted on the wire: what a lock costs its account, and how long others wait for it (guarantees 6, 7)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient

from singleton import AsyncLockClient, LockClient, SingletonOptions, current_hold, singleton
from tests.support.fault_world import SLACK, script
from tests.support.lock_thread import an_app, outcome
from tests.support.recording_proxy import ProxyThread, on

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from simulator.azurite.server import Azurite

LOCK = "reports"
QUICK = SingletonOptions(lock_acquisition_polling_interval=0.5, lock_acquisition_min_polling_interval=0.01)


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[ProxyThread]:
    with ProxyThread(azurite.blob_port) as running:
        yield running


@pytest.fixture
def through(proxy: ProxyThread, connection_string: str) -> str:
    return proxy.connection_string(connection_string)


@pytest.fixture
def options(container_name: str) -> SingletonOptions:
    return QUICK.replace(container=container_name)


def cycle(client: LockClient) -> None:
    with client.lock(LOCK):
        pass


def in_threads(count: int, act: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for each in [pool.submit(act) for _ in range(count)]:
            each.result(60)


# --- one process ------------------------------------------------------------------------------------------------------


def test_a_warm_cycle_without_token_and_owner_makes_two_calls(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options.replace(fencing_tokens=False))
    cycle(client)
    proxy.forget()
    for _ in range(5):
        cycle(client)
    assert proxy.operations() == ["acquire", "release"] * 5


def test_a_warm_cycle_with_token_and_owner_makes_two_calls_too(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options)
    cycle(client)
    proxy.forget()
    for _ in range(5):
        cycle(client)
    assert proxy.operations() == ["acquire", "release"] * 5


async def test_a_warm_cycle_of_a_coroutine_makes_two_calls_too(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = AsyncLockClient(through, options=options)
    for _ in range(3):
        proxy.forget()
        async with client.lock(LOCK):
            await asyncio.sleep(0)
    assert proxy.operations() == ["acquire", "release"]


def test_after_another_process_had_the_lock_the_stamp_is_read_first(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    """Two processes that take turns: one call more, as the epoch is the other's."""
    ours, others = LockClient(through, options=options), LockClient(through, options=options.replace(lock_period=16))
    tokens: list[int] = []
    for client in (ours, others, ours, others):
        proxy.forget()
        with client.lock(LOCK) as hold:
            tokens.append(hold.token or 0)
    assert proxy.operations() == ["acquire", "head", "metadata", "release"]
    assert tokens == sorted(set(tokens))


def test_the_first_cycle_of_all_makes_container_and_blob(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    cycle(LockClient(through, options=options))
    assert proxy.operations() == ["acquire", "put", "container put", "put", "acquire", "release"]


def test_one_new_name_after_the_other_takes_three_calls_each(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options)
    cycle(client)
    proxy.forget()
    tokens = []
    for number in range(3):
        with client.lock(f"{LOCK}-{number}", owner="me") as hold:
            tokens.append(hold.token)
    assert proxy.operations() == ["put", "acquire", "release"] * 3
    assert None not in tokens


def test_a_look_at_a_lock_that_somebody_else_has_is_one_call(
    proxy: ProxyThread, through: str, connection_string: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options)
    cycle(client)
    with BlobClient.from_connection_string(connection_string, options.container, LOCK) as blob:
        lease = BlobLeaseClient(blob)
        lease.acquire(lease_duration=60)
        proxy.forget()
        with client.try_lock(LOCK) as hold:
            assert hold is None
        assert proxy.operations() == ["acquire"]
        lease.release()


async def test_a_lock_is_handed_over_within_the_process_without_a_call(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = AsyncLockClient(through, options=options)
    tokens = []

    async def section() -> None:
        async with client.lock(LOCK) as hold:
            tokens.append(hold.token or 0)

    await section()
    proxy.forget()
    await asyncio.gather(*(section() for _ in range(20)))
    assert proxy.operations() == ["acquire", "release"]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 21


def test_a_lock_that_is_kept_is_renewed_once_an_interval_and_its_owner_written_once(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    """Every second here; 31 s on virtual time: ``tests/unit/locking/test_cycle_calls.py``."""
    client = LockClient(through, options=options.replace(renewal_interval=1.0))
    cycle(client)
    proxy.forget()
    began = time.monotonic()
    with client.lock(LOCK, owner="me"):
        proxy.wait(on("renew"), count=4)
    renewals = proxy.count(on("renew"))
    assert proxy.operations() == ["acquire", "renew", "metadata", *["renew"] * (renewals - 1), "release"]
    assert 4 <= renewals <= time.monotonic() - began


def test_a_lock_that_is_kept_says_after_half_a_period_who_has_it(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options)
    cycle(client)
    with client.lock(LOCK, owner="the one that hangs"):
        time.sleep(8.5)
        holder = client.holder(LOCK)
    assert holder is not None
    assert holder.owner == "the one that hangs"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_guarded_invocation_costs_the_same(
    proxy: ProxyThread, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, container_name: str
) -> None:
    an_app(tmp_path, monkeypatch, json.dumps({"singleton": {"container": container_name}}))
    monkeypatch.setenv("AzureWebJobsStorage", through)

    @singleton
    def job(msg: str) -> int:
        return current_hold().token or 0

    @singleton
    async def async_job(msg: str) -> int:
        return current_hold().token or 0

    function: Callable[..., Any] = async_job if kind == "async" else job
    first = outcome(function(msg=""))
    proxy.forget()
    assert outcome(function(msg="")) > first
    assert proxy.operations() == ["acquire", "release"]


@pytest.mark.parametrize("waiting", [1, 50])
def test_a_process_polls_once_however_many_wait_in_it(
    proxy: ProxyThread, through: str, connection_string: str, options: SingletonOptions, waiting: int
) -> None:
    steady = options.replace(lock_acquisition_min_polling_interval=0.5)
    client = LockClient(through, options=steady)
    cycle(client)
    with BlobClient.from_connection_string(connection_string, options.container, LOCK) as blob:
        lease = BlobLeaseClient(blob)
        lease.acquire(lease_duration=60)
        proxy.forget()
        with ThreadPoolExecutor(waiting) as pool:
            cycles = [pool.submit(cycle, client) for _ in range(waiting)]
            time.sleep(3)
            polls = proxy.operations()
            lease.release()
            for each in cycles:
                each.result(60)
    # Every 0.25 to 0.5 s: six polls in three seconds at least, twelve at most, and the first.
    assert set(polls) == {"acquire"}
    assert 6 <= len(polls) <= 13


def test_a_hundred_waiters_of_one_process_need_a_tenth_of_a_call_each(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    client = LockClient(through, options=options)
    cycle(client)
    proxy.forget()
    sections: list[int] = []

    def section() -> None:
        with client.lock(LOCK) as hold:
            sections.append(hold.token or 0)
            time.sleep(0.005)

    with client.lock(LOCK):
        threads = [threading.Thread(target=section) for _ in range(100)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join(60)
    assert len(sections) == 100
    assert sections == sorted(set(sections))
    assert proxy.count() <= 0.1 * len(sections), proxy.operations()


# --- another process -----------------------------------------------------------------------------------------------

WAITER = """
    for turn in range(int(sys.argv[1])):
        asked = time.monotonic()
        with locks.lock(LOCK):
            say(time.monotonic() - asked)
            time.sleep(0.05)
        time.sleep(1)
"""


@pytest.mark.slow
def test_a_waiter_in_another_process_gets_its_turn_in_time_while_calls_stay_few(
    proxy: ProxyThread, through: str, connection_string: str, options: SingletonOptions
) -> None:
    """Within the window, the longest section, and 1.1 polling intervals; here 2 + 0.2 + 0.55 s."""
    window, section, poll = 2.0, 0.2, 0.5
    client = LockClient(through, options=options.replace(handoff_window=window))
    cycle(client)
    stop, sections = threading.Event(), [0]

    def keep_busy() -> None:
        while not stop.is_set():
            with client.lock(LOCK):
                sections[0] += 1
                time.sleep(section / 10)

    with ThreadPoolExecutor(21) as pool:
        busy = [pool.submit(keep_busy) for _ in range(20)]
        time.sleep(0.5)
        proxy.forget()
        sections[0] = 0
        process = script(WAITER, "4", lock=LOCK, connection=connection_string, options=options)
        try:
            waits = [float(line) for line in process.communicate(timeout=120)[0].split()]
        finally:
            stop.set()
            process.kill()
        calls = proxy.count()
        for each in busy:
            each.result(60)
    assert len(waits) == 4
    assert max(waits[1:]) <= window + section + 1.1 * poll + SLACK, waits
    assert sum(waits[1:]) > window, "the others did keep it busy"
    assert calls <= 0.1 * sections[0], (calls, sections)


def test_a_lone_process_waits_for_nobody(proxy: ProxyThread, through: str, options: SingletonOptions) -> None:
    """Standing back for others costs a polling interval each window, no more."""
    client = LockClient(through, options=options.replace(handoff_window=0.0))
    start = time.monotonic()
    for _ in range(3):
        in_threads(2, lambda: cycle(client))
    assert time.monotonic() - start < 3 * 2 * 0.55 + SLACK


def test_invocations_that_are_skipped_within_the_process_make_no_call(
    proxy: ProxyThread, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container_name: str
) -> None:
    an_app(tmp_path, monkeypatch, json.dumps({"singleton": {"container": container_name}}))
    monkeypatch.setenv("AzureWebJobsStorage", through)
    entered, leave = threading.Event(), threading.Event()

    @singleton(on_contention="skip")
    def job() -> None:
        entered.set()
        leave.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(job)
        assert entered.wait(60)
        proxy.forget()
        for _ in range(20):
            job()
        assert proxy.operations() == []
        leave.set()
        first.result(60)
    assert proxy.count(on("release")) == 1


def test_processes_that_start_together_make_one_lock(
    proxy: ProxyThread, through: str, options: SingletonOptions
) -> None:
    code = "with locks.lock(LOCK) as hold: say(hold.token); time.sleep(0.1)"
    racers = [script(code, lock=LOCK, connection=through, options=options) for _ in range(4)]
    tokens = [int(output) for output in finished(racers)]
    assert len(set(tokens)) == 4
    assert [request.status for request in proxy.requests if request.operation == "put"].count(201) == 1


def finished(processes: list[subprocess.Popen[str]]) -> list[str]:
    try:
        return [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
