"""singleton.testing: locks in memory, in real time, for functions and lock clients as they are."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import azure.functions as func
import pytest

from singleton import AsyncLockClient, Hold, LockClient, LockLost, LockNotAcquired, OldLock, current_hold, singleton
from singleton.runtime.provided import provided_account
from singleton.testing import (
    Headcount,
    always_busy,
    assert_no_leases_left,
    disabled,
    held_elsewhere,
    lose,
    memory_locks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.kinds import LossReason

inside = Headcount()
Loss = Literal["expired", "stolen", "broken", "blob gone"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AzureWebJobsStorage", raising=False)
    inside.__init__()  # type: ignore[misc]


@pytest.fixture
def in_memory() -> Iterator[None]:
    with memory_locks():
        yield


@singleton
def import_rows(file: str = "") -> str:
    with inside:
        time.sleep(0.005)
    return "imported"


@singleton
async def import_rows_async(file: str = "") -> str:
    with inside:
        await asyncio.sleep(0.005)
    return "imported"


@singleton(scope="Id", on_contention="skip")
def ship(msg: str, out: object = None) -> str:
    with inside:
        time.sleep(0.005)
    return "shipped"


@singleton(on_contention="raise")
def pay(amount: int) -> str:
    return "paid"


def unguarded() -> None: ...


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result() for each in [pool.submit(call) for call in calls]]


# --- what is exclusive ------------------------------------------------------------------------------------------------


def test_bodies_of_a_guarded_function_never_overlap(in_memory: None) -> None:
    assert at_once(*[import_rows] * 5) == ["imported"] * 5
    assert (inside.most, inside.total, inside.now) == (1, 5, 0)


def test_a_headcount_sees_those_that_do() -> None:
    together = threading.Barrier(5)

    def body() -> None:
        with inside:
            together.wait(60)

    at_once(*[body] * 5)
    assert (inside.most, inside.total, inside.now) == (5, 5, 0)


async def test_async_bodies_run_one_by_one_on_whatever_loop_the_test_has(in_memory: None) -> None:
    assert await asyncio.gather(*(import_rows_async() for _ in range(5))) == ["imported"] * 5
    assert (inside.most, inside.total) == (1, 5)


def test_no_setting_is_needed(in_memory: None) -> None:
    import_rows()
    with LockClient("NoSuchSetting").lock("job"):
        pass


def test_afterwards_everything_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_locks():
        import_rows()
        client = LockClient()
    assert provided_account("AzureWebJobsStorage") is None
    with pytest.raises(Exception, match="there is no app setting AzureWebJobsStorage"):
        import_rows()
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    with pytest.raises(Exception, match="made while locks were kept in memory"):
        client.acquire("job", timeout=0)


def test_each_block_has_locks_of_its_own() -> None:
    with memory_locks():
        first = LockClient().acquire("job", timeout=0)
        with memory_locks():
            locks = LockClient()
            locks.release(locks.acquire("job", timeout=0))
        with pytest.raises(LockNotAcquired):
            LockClient().acquire("job", timeout=0)
        LockClient().release(first)


def test_a_forked_process_is_told_that_it_has_none(in_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import_rows()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="locks in memory exclude within one process only"):
        import_rows()


def test_connections_of_different_names_are_different_accounts(in_memory: None) -> None:
    with LockClient("One").lock("job"), LockClient("Other").lock("job"), LockClient("One").try_lock("job") as third:
        assert third is None


def test_a_connection_string_shows_in_no_message(in_memory: None) -> None:
    client = LockClient("AccountName=orders;AccountKey=c2VjcmV0")
    assert "c2VjcmV0" not in repr(client._place)


async def test_lock_clients_work_too(in_memory: None) -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", owner="me"), locks.semaphore("reports", 2), locks.leadership("poller") as leadership:
        await leadership
        holder = await locks.holder("job")
        assert holder is not None
        assert holder.owner == "me"
        with pytest.raises(LockNotAcquired):
            await locks.acquire("job", timeout=0)


# --- another instance -------------------------------------------------------------------------------------------------


def test_another_instance_holds_the_lock_of_the_invocation_that_it_runs(in_memory: None) -> None:
    with held_elsewhere(ship, '{"Id": 7}'):
        assert ship('{"Id": 7}') is None
        assert ship(msg='{"Id": 7}', out=object()) is None
        assert ship('{"Id": 8}') == "shipped"
    assert ship('{"Id": 7}') == "shipped"


def test_another_instance_may_hold_it_before_the_first_use_and_before_a_store_is_opened(in_memory: None) -> None:
    with held_elsewhere(pay, amount=5), held_elsewhere("job"), pytest.raises(LockNotAcquired):
        pay(5)
    with held_elsewhere("job"):
        for connection in ("One", "Other"):
            with pytest.raises(LockNotAcquired):
                LockClient(connection).acquire("job", timeout=0)


def test_two_can_not_hold_it(in_memory: None) -> None:
    locks = LockClient()
    with locks.lock("job"), pytest.raises(LockNotAcquired, match="another instance can't"), held_elsewhere("job"):
        pytest.fail("held twice")
    with held_elsewhere("job"):
        with pytest.raises(LockNotAcquired), held_elsewhere("job"):
            pytest.fail("held twice")
        with pytest.raises(LockNotAcquired):
            locks.acquire("job", timeout=0)
    locks.release(locks.acquire("job", timeout=0))


def test_a_function_below_a_trigger_is_found_in_its_builder(in_memory: None) -> None:
    app = func.FunctionApp()

    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    @singleton(scope="Id", on_contention="skip")
    def send(msg: func.QueueMessage) -> str:
        return "sent"

    message = func.QueueMessage(body=b'{"Id": 1}')
    call = send.build().get_user_function()
    with held_elsewhere(send, message):
        assert call(message) is None
    assert call(message) == "sent"


def test_what_is_not_guarded_is_refused(in_memory: None) -> None:
    with pytest.raises(TypeError, match=r"unguarded.* has neither @singleton nor @once"), held_elsewhere(unguarded):
        pytest.fail("there is no lock")


@pytest.mark.parametrize("act", [assert_no_leases_left, held_elsewhere("job").__enter__])
def test_without_locks_in_memory_it_says_how_to_have_them(act: Callable[[], None]) -> None:
    with pytest.raises(RuntimeError, match=r"@virtual_time.*memory_locks.*singleton_locks"):
        act()


# --- busy, and off ----------------------------------------------------------------------------------------------------


def test_always_busy_refuses_at_once_whatever_the_policy() -> None:
    with always_busy():
        assert ship('{"Id": 7}') is None
        with pytest.raises(LockNotAcquired):
            pay(5)
        with pytest.raises(LockNotAcquired, match=r"always_busy\(\)"):
            import_rows()
        with LockClient().try_lock("job") as hold:
            assert hold is None
        with pytest.raises(LockNotAcquired):
            LockClient().lock_all(["a", "b"]).__enter__()
    assert inside.total == 0


def test_what_is_held_when_it_becomes_busy_stays_so(in_memory: None) -> None:
    with LockClient().lock("job") as hold, always_busy():
        assert not hold.lost.is_set()
        with disabled():
            import_rows()
        with pytest.raises(LockNotAcquired):
            import_rows()
    import_rows()


def test_switched_off_bodies_overlap_under_a_hold_that_locks_nothing() -> None:
    holds: list[Hold] = []
    together = threading.Barrier(5)

    @singleton
    def job() -> None:
        holds.append(current_hold())
        together.wait(60)

    with disabled():
        at_once(*[job] * 5)
        assert [hold.token for hold in holds] == [None] * 5
        with LockClient().lock("job"), LockClient().lock("job", timeout=0):
            pass
        assert_no_leases_left()


# --- losing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["expired", "stolen", "broken", "blob gone"])
def test_a_hold_can_be_lost_while_its_body_works(reason: Loss, in_memory: None) -> None:
    told: list[LossReason] = []

    @singleton
    def job() -> None:
        hold = current_hold()
        hold.lost.add_callback(told.append)
        lose(hold, reason)
        with held_elsewhere(hold.lock):  # two are inside
            pass
        hold.raise_if_lost()
        pytest.fail("it went on")

    for _ in range(2):  # and the lock can be had again
        with pytest.raises(LockLost) as caught:
            job()
        assert caught.value.reason == reason
    assert told == [reason] * 2


async def test_an_async_body_is_cancelled_where_it_waits(in_memory: None) -> None:
    @singleton
    async def job() -> None:
        lose(current_hold())
        await asyncio.sleep(60)

    with pytest.raises(LockLost):
        await job()


def test_what_has_ended_can_not_be_lost(in_memory: None) -> None:
    with LockClient().lock("job") as hold:
        pass
    with pytest.raises(RuntimeError, match="has no lease"):
        lose(hold)


# --- what is left -----------------------------------------------------------------------------------------------------


def test_a_hold_that_is_left_is_named_with_its_owner() -> None:
    with pytest.raises(AssertionError, match=r"not given back: lock 'job', acquired by 'import/7'$"), memory_locks():
        kept = LockClient().acquire("job", owner="import/7")
    assert kept.lost.reason == "closed"


def test_one_that_was_dropped_is_left_though_the_lock_is_free_again() -> None:
    with pytest.raises(AssertionError, match=r"lock 'job'$"), memory_locks():
        LockClient().acquire("job")


def test_one_that_is_released_later_is_not(in_memory: None) -> None:
    locks = LockClient()
    hold = locks.acquire("job")
    with pytest.raises(AssertionError):
        assert_no_leases_left()
    locks.release(hold)
    assert_no_leases_left()


def test_one_that_is_kept_for_at_least_a_time_is_not() -> None:
    with memory_locks(), LockClient().lock("job", at_least=30):
        pass


def test_an_error_in_the_block_is_told_before_what_is_left() -> None:
    def block() -> None:
        with memory_locks():
            kept.append(LockClient().acquire("job"))
            raise LookupError

    kept: list[Hold] = []
    with pytest.raises(LookupError):
        block()


async def test_a_waiter_that_is_cancelled_leaves_nothing(in_memory: None) -> None:
    locks = AsyncLockClient()
    async with locks.lock("job"):
        waiting = asyncio.create_task(locks.acquire("job"))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert_no_leases_left()


# --- what else locks --------------------------------------------------------------------------------------------------


@singleton(mode="listener")
def poll(timer: None = None) -> str:
    return "polled"


def test_a_listener_listens_is_kept_elsewhere_and_leaves_nothing() -> None:
    for _ in range(2):
        with memory_locks():
            assert poll() == "polled"
            with always_busy(), LockClient().try_lock("job") as hold:
                assert hold is None
            assert poll() == "polled"
    with memory_locks(), held_elsewhere(poll):
        assert poll() is None
    with memory_locks(), always_busy():
        assert poll() is None
    with disabled():
        assert poll() == "polled"


def a_message(order: int) -> func.QueueMessage:
    return func.QueueMessage(id=f"message-{order}", body=b'{"Id": %d}' % order, pop_receipt="receipt")


def test_a_message_is_put_back_though_there_is_no_queue(in_memory: None) -> None:
    app = func.FunctionApp()

    @singleton(scope="Id", on_contention="defer")
    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    def send(msg: func.QueueMessage) -> str:
        return "sent"

    call = send.build().get_user_function()
    assert call(a_message(1)) == "sent"
    with held_elsewhere(send, a_message(1)):
        assert call(a_message(1)) is None
        assert call(a_message(2)) == "sent"
    with always_busy():
        assert call(a_message(1)) is None


async def test_an_orchestration_is_started_once(in_memory: None) -> None:
    from singleton.patterns.durable import start_singleton

    client = DurableClient()
    results = await asyncio.gather(*(start_singleton(client, "import_order", "7") for _ in range(3)))
    assert sorted(result.started for result in results) == [False, False, True]
    assert client.started == ["7"]


class DurableClient:
    def __init__(self) -> None:
        self.started: list[str] = []

    async def get_status(self, instance: str) -> Any:
        return SimpleNamespace(
            runtime_status=SimpleNamespace(name="Running", value="Running") if instance in self.started else None,
            created_time=None,
        )

    async def start_new(self, _: str, instance_id: str, __: Any) -> str:
        self.started.append(instance_id)
        return instance_id


# --- a function that takes its lock under an old name, too ------------------------------------------------------------


@singleton(name="book", also=OldLock(name="old_book"), on_contention="raise")
def book(lost: bool = False) -> int | None:
    if lost:
        lose(current_hold())
        current_hold().raise_if_lost()
    return current_hold().token


def test_a_lock_of_two_names_is_given_back_lost_refused_and_switched_off(in_memory: None) -> None:
    first, second = book(), book()
    assert first is not None
    assert second is not None
    assert first < second
    assert_no_leases_left()
    with pytest.raises(LockLost, match="expired"):
        book(lost=True)
    assert_no_leases_left()
    with held_elsewhere(book), pytest.raises(LockNotAcquired):
        book()
    with always_busy(), pytest.raises(LockNotAcquired):
        book()
    with disabled():
        assert book() is None
    assert book() is not None
