"""Lock clients beyond the block: asking once, holds without a block, who has a lock, taking it away, closing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockClosed, LockNotAcquired, SingletonOptions
from singleton.base.errors import StorageDenied, StorageUnavailable
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import OWNER_KEY, this_host
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton import Hold
    from singleton.runtime.registry import Registry

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)
both_kinds = pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
Kind = type[LockClient | AsyncLockClient]


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def ask(client: LockClient | AsyncLockClient, method: str, *arguments: Any, **keywords: Any) -> Any:
    """Call a method of whichever kind of client, and return its answer."""
    answer = getattr(client, method)(*arguments, **keywords)

    async def result() -> Any:
        return await answer

    return answer if isinstance(client, LockClient) else asyncio.run(result())


def tried(client: LockClient | AsyncLockClient, name: str, body: Callable[[Hold | None], Any]) -> Any:
    if isinstance(client, LockClient):
        with client.try_lock(name, owner="me") as hold:
            return body(hold)

    async def run() -> Any:
        async with client.try_lock(name, owner="me") as hold:
            return body(hold)

    return asyncio.run(run())


# --- asking once --------------------------------------------------------------------------------------------------


@both_kinds
def test_asking_once_gives_the_hold_of_a_free_lock_and_none_of_a_taken_one(thread: LockThread, kind: Kind) -> None:
    client = kind(options=OPTIONS)
    assert tried(client, "reports", lambda hold: (hold and hold.owner, thread.leased())) == ("me", {"reports"})
    assert thread.leased() == set()
    thread.taken_by_another_process("reports")
    assert tried(client, "reports", lambda hold: hold) is None
    assert thread.leased() == {"reports"}


@both_kinds
def test_asking_once_never_takes_a_failure_for_a_taken_lock(thread: LockThread, kind: Kind) -> None:
    async def refuse(*_: object) -> str:
        raise StoreFailure(403, "AuthorizationFailure")

    thread.memory.acquire = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(StorageDenied):
        tried(kind(options=OPTIONS), "reports", lambda _: pytest.fail("the block was entered"))


@both_kinds
def test_an_error_in_the_block_of_a_single_attempt_comes_through(thread: LockThread, kind: Kind) -> None:
    def fail(_: Hold | None) -> None:
        raise LockNotAcquired("own")

    with pytest.raises(LockNotAcquired, match="own"):
        tried(kind(options=OPTIONS), "reports", fail)
    assert thread.leased() == set()


# --- holds without a block ------------------------------------------------------------------------------------------


@both_kinds
def test_a_hold_without_a_block_lasts_until_it_is_released_however_often(thread: LockThread, kind: Kind) -> None:
    client = kind(options=OPTIONS)
    hold = ask(client, "acquire", "reports", owner="me")
    assert thread.leased() == {"reports"}
    ask(client, "release", hold)
    assert thread.leased() == set()
    second = ask(client, "acquire", "reports", timeout=0)
    ask(client, "release", hold)
    assert thread.leased() == {"reports"}
    ask(client, "release", second)


def test_a_hold_may_be_released_by_another_thread_and_by_the_other_kind_of_client(thread: LockThread) -> None:
    sync, other = LockClient(options=OPTIONS), AsyncLockClient(options=OPTIONS)
    with ThreadPoolExecutor(1) as pool:
        hold = pool.submit(sync.acquire, "reports").result()
    asyncio.run(other.release(hold))
    assert thread.leased() == set()


# --- who has it, and taking it away ---------------------------------------------------------------------------------


@both_kinds
def test_the_holder_is_told_to_any_process_while_it_holds(thread: LockThread, kind: Kind) -> None:
    client = kind(options=OPTIONS)
    assert ask(client, "holder", "reports") is None
    hold = ask(client, "acquire", "reports", owner="import/7")
    found = ask(client, "holder", "reports")
    assert (found.lock, found.owner, found.host) == ("reports", "import/7", this_host())
    assert found.token == hold.token
    modified = thread.do(lambda: thread.memory.read("reports")).modified
    assert (found.recorded, found.since, found.renewed) == (datetime.fromtimestamp(modified, UTC), None, False)
    ask(client, "release", hold)
    assert ask(client, "holder", "reports") is None


def test_an_owner_that_gave_no_name_is_none_and_its_predecessor_is_not_named(thread: LockThread) -> None:
    client = LockClient(options=OPTIONS)
    thread.do(lambda: thread.memory.note("reports", {OWNER_KEY: "first"}))
    with client.lock("reports"):
        found = client.holder("reports")
    assert found is not None
    assert found.owner is None


def test_of_a_holder_that_records_nothing_only_that_there_is_one_is_known(thread: LockThread) -> None:
    thread.taken_by_another_process("reports")
    found = LockClient(options=OPTIONS).holder("reports")
    assert found is not None
    assert (found.lock, found.owner, found.host, found.since, found.token) == ("reports", None, None, None, None)


def test_a_holder_whose_lease_has_run_out_is_none(thread: LockThread) -> None:
    thread.taken_by_another_process("reports")
    thread.push_clock(61)
    assert LockClient(options=OPTIONS).holder("reports") is None


@both_kinds
def test_a_lock_that_is_broken_can_be_taken_at_once_and_its_holder_is_told_why(thread: LockThread, kind: Kind) -> None:
    client = kind(options=OPTIONS)
    hold = ask(client, "acquire", "reports", owner="me")
    broken = ask(client, "break_", "reports", 0)
    assert (broken.lock, broken.holder.owner, broken.free_in) == ("reports", "me", 0)
    assert 10 <= broken.together <= 15
    assert ask(client, "holder", "reports") is None
    assert ask(client, "break_", "reports", 0) is None
    reasons: list[str] = []
    hold.lost.add_callback(reasons.append)
    thread.push_clock(8)
    assert hold.lost.wait(60)
    assert reasons == ["broken"]
    ask(client, "release", hold)
    ask(client, "release", ask(client, "acquire", "reports", timeout=0))


@both_kinds
@pytest.mark.parametrize("method", ["holder", "break_"])
def test_storage_that_refuses_or_fails_is_no_free_lock(thread: LockThread, kind: Kind, method: str) -> None:
    client, answers = kind(options=OPTIONS), iter([StoreFailure(503), StoreFailure(403, "AuthorizationFailure")])

    async def fail(_: str) -> Any:
        raise next(answers)

    thread.memory.read = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(StorageDenied, match="'reports'"):
        ask(client, method, "reports")
    answers = iter([StoreFailure(503)] * 100)
    thread.push_clock(0)
    start = time.monotonic()

    async def fail_and_let_time_pass(_: str) -> Any:
        thread.push_clock(3)
        raise next(answers)

    thread.memory.read = fail_and_let_time_pass  # type: ignore[method-assign,assignment]
    with pytest.raises(StorageUnavailable, match="503"):
        ask(client, method, "reports")
    assert time.monotonic() - start < 60


# --- closing --------------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("method", ["lock", "try_lock", "acquire", "holder", "break_"])
def test_a_closed_client_answers_nothing(thread: LockThread, kind: Kind, method: str) -> None:
    client = kind(options=OPTIONS)
    client.close()
    client.close()
    with pytest.raises(LockClosed, match="'reports': its client is closed: make a new client"):
        ask(client, method, "reports")
    assert thread.memory.calls.total() == 0


def test_the_end_of_a_clients_block_closes_it() -> None:
    with LockClient(options=OPTIONS) as client:
        hold = client.acquire("reports")
    with pytest.raises(LockClosed):
        client.acquire("reports")
    assert not hold.lost.is_set()
    client.release(hold)

    async def run() -> None:
        async with AsyncLockClient(options=OPTIONS) as other:
            await other.release(await other.acquire("reports"))
        with pytest.raises(LockClosed):
            await other.acquire("reports")

    asyncio.run(run())


def queued(thread: LockThread, lock: str, number: int) -> None:
    """Wait until so many wait in line for the lock."""
    end = time.monotonic() + 60
    while sum(len([*each._line]) for each in thread.runtime.registry._locks.values() if each.name == lock) < number:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_closing_wakes_those_who_wait_through_this_client_and_nobody_else(thread: LockThread) -> None:
    thread.taken_by_another_process("reports")
    closing, other, staying = LockClient(options=OPTIONS), AsyncLockClient(options=OPTIONS), LockClient(options=OPTIONS)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ask, client, "acquire", "reports") for client in (closing, other) * 3]
        left = pool.submit(staying.acquire, "reports")
        queued(thread, "reports", 7)
        closing.close()
        other.close()
        assert [type(each.exception(5)) for each in waiting] == [LockClosed] * 6
        queued(thread, "reports", 1)
        assert not left.done()
        thread.given_back_by_the_other("reports")
        staying.release(left.result(60))
    assert thread.leased() == set()


async def test_holds_that_come_after_their_caller_is_gone_are_given_back(thread: LockThread) -> None:
    address = LockClient(options=OPTIONS)._address("reports")
    arrived = threading.Event()

    async def stubborn(registry: Registry) -> Hold:
        hold = await registry.acquire(address, timeout=None, owner="")
        arrived.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return hold

    calling = asyncio.create_task(thread.runtime.call_async(stubborn))
    await asyncio.to_thread(arrived.wait, 5)
    calling.cancel()
    await asyncio.wait({calling})
    end = time.monotonic() + 60
    while thread.leased():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


def test_a_lock_that_comes_while_its_client_closes_is_held_or_given_back(thread: LockThread) -> None:
    outcomes: set[str] = set()
    answer = thread.memory.acquire

    async def slowly(name: str, lease_id: str, duration: int) -> str:
        await asyncio.sleep(0.0005)
        etag = await answer(name, lease_id, duration)
        await asyncio.sleep(0.0005)
        return etag

    thread.memory.acquire = slowly  # type: ignore[method-assign]
    for number in range(150):
        client = LockClient(options=OPTIONS)
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(client.acquire, "reports", timeout=5)
            time.sleep((number % 15) * 0.0003)
            client.close()
            with contextlib.suppress(LockClosed):
                client.release(asking.result(60))
        outcomes.add(type(asking.exception()).__name__)
        again = LockClient()
        again.release(again.acquire("reports", timeout=5, owner="check"))
    assert thread.leased() == set()
    assert outcomes == {"NoneType", "LockClosed"}


# --- semaphores -------------------------------------------------------------------------------------------------------


@both_kinds
def test_a_semaphore_lets_in_as_many_as_its_limit(thread: LockThread, kind: Kind) -> None:
    client = kind(options=OPTIONS)
    holds = [ask(client, "acquire", "reports", limit=2, owner=str(each)) for each in range(2)]
    assert thread.leased() == {"reports/slot-0", "reports/slot-1"}
    with pytest.raises(LockNotAcquired, match="semaphore 'reports'"):
        ask(client, "acquire", "reports", limit=2, timeout=0)
    for hold in holds:
        ask(client, "release", hold)
    assert thread.leased() == set()


def test_the_blocks_of_a_semaphore(thread: LockThread) -> None:
    sync, other = LockClient(options=OPTIONS), AsyncLockClient(options=OPTIONS)

    async def run() -> Hold | None:
        async with other.semaphore("reports", 2), other.try_lock("reports", limit=2) as third:
            return third

    with sync.semaphore("reports", 2):
        assert asyncio.run(run()) is None
        with sync.try_lock("reports", limit=2) as second:
            assert second is not None
            assert thread.leased() == {"reports/slot-0", "reports/slot-1"}


@both_kinds
@pytest.mark.parametrize("limit", [0, -1, 2**31, 1.5, True, "3", None])
def test_a_limit_that_is_none(thread: LockThread, kind: Kind, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="limit is "):
        kind(options=OPTIONS).semaphore("reports", limit)
    with pytest.raises(ConfigurationError, match="has 1025 characters"):
        kind(options=OPTIONS).semaphore("x" * 1018, 10)


# --- what is given in place of a connection ---------------------------------------------------------------------------


class Identity:
    """What azure.identity.aio has."""

    async def get_token(self, *scopes: str) -> None: ...


class SyncIdentity:
    """What azure.identity has."""

    def get_token(self, *scopes: str) -> None: ...


class NoIdentity:
    """It has the word, and gives nothing."""

    get_token = "token"


URL = "https://orders.blob.core.windows.net"


@both_kinds
@pytest.mark.parametrize(
    ("connection", "credential", "said"),
    [
        ("AzureWebJobsStorage", Identity(), "and connection is not an account's URL"),
        (5, Identity(), "connection has the type int: give the name of an app setting"),
        (5, None, "connection has the type int: give the name of an app setting"),
        (URL, object(), "credential has the type object: give an identity"),
        (URL, {"account_name": "orders", "account_key": "c2VjcmV0"}, "the type dict: .* AzureNamedKeyCredential"),
        ("http://orders.blob.core.windows.net", Identity(), "is not an https URL"),
        (
            URL,
            NoIdentity(),
            r"NoIdentity: give an identity from azure\.identity or azure\.identity\.aio, the account's key",
        ),
        (URL, SyncIdentity, r"credential is the class SyncIdentity: give an object, SyncIdentity\(…\)"),
        ("http://orders.blob.core.windows.net", SyncIdentity(), "is not an https URL"),
        (f"{URL}?sv=2024&sig=c2VjcmV0", Identity(), "has a query \\(a SAS\\)"),
        ("https://", Identity(), "is not a URL"),
        (lambda _: None, Identity(), "with a function that makes clients"),
        (URL, None, "is a URL without a credential: give the argument credential"),
        (f"{URL}?sv=2024&sig=c2VjcmV0", None, "a URL with a SAS goes into an app setting"),
    ],
)
def test_what_is_no_way_to_an_account(kind: Kind, connection: Any, credential: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        kind(connection, credential=credential)
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("identity", [Identity(), SyncIdentity()], ids=["for asyncio", "not for asyncio"])
def test_equal_credentials_share_a_store_and_show_nothing(thread: LockThread, identity: object) -> None:
    for _ in range(2):
        with LockClient(URL, credential=identity, options=OPTIONS).lock("reports"):
            pass
    assert len(thread.places) == 1
    assert repr(thread.places[0].account) == f"GivenAccount({URL} by a credential of the caller's)"


@both_kinds
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda locks: locks.lock("a", owner=5), "owner is 5: give a text"),
        (lambda locks: locks.lock_all(["a"], owner=5), "owner is 5: give a text"),
        (lambda locks: locks.leadership("a", owner=None), "owner is None: give a text"),
        (lambda locks: locks.periodic("a", None, every=1), "work is None: give a function"),
    ],
)
def test_arguments_of_another_kind_are_told_before_anything_is_asked(
    kind: Kind, asked: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        asked(kind())


@both_kinds
def test_options_are_singleton_options(kind: Kind) -> None:
    with pytest.raises(ConfigurationError, match=r"options is a value of type dict: give SingletonOptions"):
        kind(options={"lock_period": 15})  # type: ignore[arg-type]


def test_only_a_hold_can_be_released() -> None:
    with pytest.raises(ConfigurationError, match="hold is 'reports': give what acquire returned"):
        LockClient().release("reports")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="hold is None: give what acquire returned"):
        asyncio.run(AsyncLockClient().release(None))  # type: ignore[arg-type]
