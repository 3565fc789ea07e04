"""Locks and semaphores on Azurite pass the suites that they pass on the model (tests/conformance)."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from azure.storage.blob.aio import ContainerClient

from singleton import AsyncLockClient, LockClient, LockNotAcquired, SingletonOptions, StorageError
from singleton.runtime.accounts.stores import open_container
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from tests.conformance import mutex_suite, semaphore_suite
from tests.support.inline import on

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton import Hold


class RealHost:
    """A lock thread of its own, as a process has one, on Azurite."""

    def __init__(self, connection_string: str, options: SingletonOptions) -> None:
        self.runtime = Runtime(Registry(lambda place: open_container(place.account, place.container)))
        self.locks = AsyncLockClient(connection_string, options=options)
        self.sync_locks = LockClient(connection_string, options=options)

    @contextmanager
    def here(self) -> Iterator[AsyncLockClient]:
        with on(self.runtime):
            yield self.locks


@pytest.fixture
def options(container_name: str) -> SingletonOptions:
    return SingletonOptions(container=container_name)


@pytest.fixture
def hosts(connection_string: str, options: SingletonOptions) -> Iterator[list[RealHost]]:
    pair = [RealHost(connection_string, options) for _ in range(2)]
    yield pair
    for host in pair:
        host.runtime.close()


async def test_mutexes(hosts: list[RealHost]) -> None:
    """Each scenario and kind on a name of its own; all at once, for some of them wait for a renewal."""
    async with asyncio.TaskGroup() as together:
        for number, kind in enumerate(mutex_suite.KINDS):
            for scenario in mutex_suite.SCENARIOS:
                case = mutex_suite.Case(hosts[0], hosts[1], kind, f"suite/{scenario.__name__}-{number}")
                if scenario not in (mutex_suite.timeouts, mutex_suite.parallelism):
                    together.create_task(mutex_suite.run(scenario, case))


@pytest.mark.parametrize("kind", mutex_suite.KINDS, ids=str)
@pytest.mark.parametrize("scenario", [mutex_suite.timeouts, mutex_suite.parallelism], ids=lambda each: each.__name__)
async def test_mutexes_in_time(
    scenario: Callable[..., Coroutine[Any, Any, None]], kind: mutex_suite.Kind, hosts: list[RealHost]
) -> None:
    await mutex_suite.run(scenario, mutex_suite.Case(hosts[0], hosts[1], kind, "suite/job"))


@pytest.mark.parametrize("scenario", semaphore_suite.SCENARIOS, ids=lambda each: each.__name__)
async def test_semaphores(scenario: Callable[..., Coroutine[Any, Any, None]], hosts: list[RealHost]) -> None:
    await scenario(hosts[0], hosts[1], "suite/reports")


# --- from threads -----------------------------------------------------------------------------------------------------


@pytest.fixture
def locks(hosts: list[RealHost]) -> LockClient:
    provide_runtime(lambda: hosts[0].runtime)
    return hosts[0].sync_locks


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_threads_exclude_one_another(locks: LockClient, limit: int | None) -> None:
    """M-45 and M-58 from threads."""
    inside: list[int] = []
    seen: set[int] = set()

    def work(_: int) -> None:
        for _ in range(5):
            hold = locks.acquire("job", limit=limit, timeout=30)
            inside.append(1)
            seen.add(len(inside))
            time.sleep(0.005)
            inside.pop()
            locks.release(hold)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(10)))
    assert seen == set(range(1, (limit or 1) + 1))


def test_a_wait_of_a_thread_ends_in_time_and_a_hold_may_end_in_another_thread(locks: LockClient) -> None:
    """M-43, M-42 from threads."""
    hold = locks.acquire("job")
    start = time.monotonic()
    with pytest.raises(LockNotAcquired):
        locks.acquire("job", timeout=0.2)
    assert time.monotonic() - start < 10
    releasing = threading.Thread(target=locks.release, args=(hold,))
    releasing.start()
    releasing.join()
    with ExitStack() as stack:
        second: Hold | None = stack.enter_context(locks.try_lock("job"))
        assert second is not None
        locks.release(hold)
        assert stack.enter_context(locks.try_lock("job")) is None


def test_the_holder_is_told_and_can_be_broken(locks: LockClient, hosts: list[RealHost]) -> None:
    before = time.time()
    with locks.lock("job", owner="import/7") as hold:
        found = locks.holder("job")
        assert found is not None
        assert (found.owner, found.token) == ("import/7", hold.token)
        assert found.recorded is not None
        assert before - 2 < found.recorded.timestamp() < time.time() + 2
        assert locks.break_("job", 0)
        assert locks.holder("job") is None
    assert locks.holder("nothing") is None
    with pytest.raises(StorageError, match="there is no lock 'nothing'"):
        locks.break_("nothing")


# --- connections ------------------------------------------------------------------------------------------------------


def account_of(connection_string: str) -> tuple[str, str]:
    """Return the blob URL and the key."""
    parts = dict(part.split("=", 1) for part in connection_string.split(";") if part)
    return parts["BlobEndpoint"], parts["AccountKey"]


@pytest.mark.parametrize("way", ["key", "signature", "clients"])
def test_a_credential_object_or_clients_of_ones_own_reach_the_same_locks(
    way: str, locks: LockClient, connection_string: str, options: SingletonOptions
) -> None:
    url, key = account_of(connection_string)
    made: list[str] = []

    def make(container: str) -> ContainerClient:
        made.append(container)
        return ContainerClient.from_connection_string(connection_string, container, retry_total=0)

    if way == "clients":
        client = LockClient(make, options=options)
    elif way == "key":
        name = url.rstrip("/").rpartition("/")[2]
        client = LockClient(url, credential=AzureNamedKeyCredential(name, key), options=options)
    else:
        name = url.rstrip("/").rpartition("/")[2]
        later = datetime.now(UTC) + timedelta(hours=1)
        allowed = AccountSasPermissions(read=True, write=True, create=True)
        resources = ResourceTypes(container=True, object=True)
        signature = generate_account_sas(name, key, resources, allowed, later)
        client = LockClient(url, credential=AzureSasCredential(signature), options=options)
    with client.lock("job", owner="given"):
        found = locks.holder("job")
        assert found is not None
        assert found.owner == "given"
        with locks.try_lock("job") as none:
            assert none is None
    assert made == ([options.container] if way == "clients" else [])
