"""What a client was made with is closed with it: connections of a credential of the caller's, or a client of his."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from singleton import LockClient, LockClosed, SingletonOptions
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton.settings.accounts import LockContainer

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)
KEY = "c2VjcmV0LWtleQ=="


class Store(MemoryLeaseStore):
    open = True

    async def aclose(self) -> None:
        self.open = False


class Stores(LockThread):
    """A lock thread that opens a store for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Store] = []

    def _open(self, place: LockContainer) -> Store:
        self.places.append(place)
        self.opened.append(Store())
        return self.opened[-1]

    def are(self, *are_open: bool) -> None:
        """Wait for this to be so; fail if that takes long."""
        end = time.monotonic() + 60
        while [store.open for store in self.opened] != [*are_open]:
            assert time.monotonic() < end, [store.open for store in self.opened]
            time.sleep(0.001)


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stores]:
    an_app(tmp_path, monkeypatch)
    with Stores() as running:
        yield running


def with_a_key() -> LockClient:
    return LockClient("https://orders.blob.core.windows.net", credential=KEY, options=OPTIONS)


def with_a_function() -> LockClient:
    return LockClient(partial(pytest.fail), options=OPTIONS)


@pytest.mark.parametrize("client", [with_a_key, with_a_function])
def test_a_closed_client_leaves_no_connection(stores: Stores, client: Callable[[], LockClient]) -> None:
    for number in range(3):
        with client() as locks:
            with locks.lock("job"), locks.semaphore("reports", 2):
                pass
            assert locks.holder("job") is None
            locks.break_("job")
            stores.are(*[False] * number, True)
        stores.are(*[False] * (number + 1))
    assert not stores.runtime.registry._locks
    assert not stores.runtime.registry._semaphores


def test_one_that_only_looks_leaves_none_either(stores: Stores) -> None:
    with with_a_key() as locks:
        locks.holder("job")
    stores.are(False)


def test_what_is_held_keeps_it_open_until_its_block_ends(stores: Stores) -> None:
    locks = with_a_key()
    with locks.lock("job") as hold, locks.semaphore("reports", 2):
        locks.close()
        with pytest.raises(LockClosed):
            locks.acquire("other")
        time.sleep(0.02)
        stores.are(True)
        assert not hold.lost.is_set()
    stores.are(False)


def test_equal_clients_share_it_until_the_last_is_closed(stores: Stores) -> None:
    first, second = with_a_key(), with_a_key()
    first.release(first.acquire("job"))
    with second.lock("job"):
        first.close()
        time.sleep(0.02)
    with second.lock("job"):
        stores.are(True)
    second.close()
    stores.are(False)


def test_one_that_comes_while_it_is_about_to_close_keeps_it_open(stores: Stores) -> None:
    first, second = with_a_key(), with_a_key()
    with first.lock("job"):
        first.close()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: second.release(second.acquire("other"))).result(60)
    time.sleep(0.02)
    stores.are(True)
    second.close()
    stores.are(False)


def test_the_account_of_a_setting_stays_open_for_the_functions_that_use_it(stores: Stores) -> None:
    with LockClient(options=OPTIONS) as locks, locks.lock("job"):
        pass
    time.sleep(0.02)
    stores.are(True)


def test_a_client_that_is_closed_before_its_first_use_opens_nothing(stores: Stores) -> None:
    with_a_key().close()
    stores.are()
