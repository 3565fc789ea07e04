"""Callers of one process hand a lock on to one another, without the lock thread and without the storage."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import random
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient, LockEvent, SingletonError, SingletonOptions, subscribe
from singleton.base.errors import LockClosed, LockLost, LockNotAcquired
from singleton.base.naming import Invocation, under_way
from singleton.locking import relay
from singleton.locking.lease import Lease
from singleton.locking.section import Section
from singleton.process.current import runtime
from singleton.stores.memory import MemoryLeaseStore
from tests.support.lock_thread import LockThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.locking.relay import Relay
    from singleton.process.registry import Registry

LOCK = "relayed"


class CountingStore(MemoryLeaseStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def acquire(self, *args: Any) -> str:
        self.asked.append("acquire")
        return await super().acquire(*args)

    async def release(self, *args: Any) -> None:
        self.asked.append("release")
        await super().release(*args)

    async def write(self, *args: Any) -> str:
        self.asked.append("write")
        return await super().write(*args)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def thread(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    with LockThread(store) as thread:
        thread.memory = store
        yield thread


@pytest.fixture
def forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runners wait where they are for as long as it takes, however slow this machine is."""
    monkeypatch.setattr(relay, "_HERE", 1e9)


def relay_of(thread: LockThread) -> Relay:
    return next(lock.relay for lock in thread.runtime.registry._locks.values() if lock.name == LOCK)


def running(thread: LockThread) -> int:
    return len(relay_of(thread)._runners or ())


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.001)


def begun_outside(coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Begin a task that knows nothing of the block that it is begun in."""
    return asyncio.create_task(coro, context=contextvars.Context())


class Hops:
    """Counts what is begun on the lock thread."""

    def __init__(self, thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        begin = thread.runtime._begun

        def counted(coro: Any) -> asyncio.Task[Any]:
            self.number += 1
            return begin(coro)

        monkeypatch.setattr(thread.runtime, "_begun", counted)


def test_a_section_on_one_loop_costs_no_call_to_the_lock_thread_nor_to_the_storage(
    thread: LockThread, store: CountingStore, monkeypatch: pytest.MonkeyPatch, forever: None
) -> None:
    locks, hops = AsyncLockClient(), Hops(thread, monkeypatch)
    tokens: list[int] = []

    async def work() -> None:
        while len(tokens) < 3000:  # so that nobody is alone at the end
            async with locks.lock(LOCK) as hold:
                tokens.append(hold.token or 0)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = [begun_outside(work()) for _ in range(10)]
            await soon(lambda: running(thread) == 10)
        await asyncio.wait(tasks)

    asyncio.run(all_of_them())
    assert 3000 <= len(tokens) < 3010
    assert tokens == sorted(set(tokens))
    assert hops.number <= 20, "one for each thousand sections, and for the first and the last of each task"
    assert store.asked.count("acquire") <= 5
    assert store.asked.count("write") <= 4, "a stamp for each thousand sections"
    assert thread.leased() == set()


def test_a_runner_who_is_on_his_way_into_the_line_is_not_overtaken(thread: LockThread, forever: None) -> None:
    locks, order = AsyncLockClient(), list[str]()

    async def use(who: str) -> None:
        async with locks.lock(LOCK):
            order.append(who)

    async def main() -> None:
        hold = await locks.acquire(LOCK)
        assert isinstance(hold, Section)
        tasks = []
        for number, who in enumerate(("first", "second")):
            tasks.append(begun_outside(use(who)))
            await soon(lambda number=number: running(thread) == number + 1)  # type: ignore[misc]
        waiting = relay_of(thread)._runners
        assert waiting is not None
        between = (waiting[0].since + waiting[1].since) / 2

        async def sent_as_the_section_ends() -> bool:
            relay_of(thread).look(between + relay._HERE)
            return relay_of(thread).pass_on(hold) or not thread.runtime.registry.end(hold, list)

        handed_on = await asyncio.to_thread(thread.do, sent_as_the_section_ends)
        assert not handed_on, "that is decided on the lock thread, where the first one is known"
        await locks.release(hold)
        await asyncio.wait(tasks)

    asyncio.run(main())
    assert order == ["first", "second"]


def test_a_runner_is_not_overtaken_by_who_stands_in_line_as_the_lease_is_lost(thread: LockThread) -> None:
    locks, order = AsyncLockClient(), list[str]()

    async def use(who: str, timeout: float | None) -> None:
        async with locks.lock(LOCK, timeout=timeout):
            order.append(who)

    async def main() -> None:
        hold = await locks.acquire(LOCK)
        assert isinstance(hold, Section)
        tasks = [begun_outside(use("a runner", None))]
        await soon(lambda: running(thread) == 1)
        tasks.append(begun_outside(use("in line", 1.9)))
        await soon(lambda: len(relay_of(thread)._line) == 1)

        async def lose() -> None:
            hold.lease.lose("broken")

        await asyncio.to_thread(thread.do, lose)
        await locks.release(hold)
        await asyncio.wait(tasks)

    asyncio.run(main())
    assert order == ["a runner", "in line"]


def test_whoever_is_to_get_it_hears_of_that_when_the_thread_that_hands_it_on_is_interrupted(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, heard = LockClient(), list[BaseException]()

    def wait() -> None:
        try:
            locks.release(locks.acquire(LOCK))
        except SingletonError as error:
            heard.append(error)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    hold = locks.acquire(LOCK)
    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: running(thread) == 1)
    with monkeypatch.context() as patch:
        patch.setattr(relay.Relay, "_relayed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            locks.release(hold)
    waiting.join(10)
    assert "interrupted" in str(heard[0])
    assert thread.kinds()[-1] == "failed:SingletonError"
    locks.release(hold)
    with locks.lock(LOCK, timeout=5):
        pass


def test_the_holder_is_named_by_the_function_that_has_it_and_not_by_the_one_that_handed_it_on(
    thread: LockThread,
) -> None:
    locks = AsyncLockClient()

    async def use(function: str, gate: asyncio.Event) -> None:
        with under_way(Invocation(f"id-{function}", None, function)):
            async with locks.lock(LOCK, owner=function):
                await gate.wait()

    async def main() -> None:
        gates = asyncio.Event(), asyncio.Event()
        first = begun_outside(use("FunctionA", gates[0]))
        await soon(lambda: thread.kinds().count("acquired") == 1)
        second = begun_outside(use("FunctionB", gates[1]))
        await soon(lambda: running(thread) == 1)
        gates[0].set()
        await soon(lambda: thread.kinds().count("acquired") == 2)
        holder = await asyncio.to_thread(thread.do, held_by)
        assert holder is not None
        assert (holder.owner, holder.function) == ("FunctionB", "FunctionB")
        gates[1].set()
        await asyncio.wait([first, second])

    async def held_by() -> Holder | None:
        return next(iter(thread.runtime.registry._locks.values())).gate.holder()

    asyncio.run(main())


def test_a_listener_that_raises_a_cancellation_holds_nobody_up(thread: LockThread) -> None:
    def listener(event: LockEvent) -> None:
        if event.kind == "released":
            raise asyncio.CancelledError

    locks = LockClient()
    unsubscribe = subscribe(listener)
    hold = locks.acquire(LOCK, timeout=5)
    waiting = threading.Thread(target=lambda: locks.release(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: running(thread) == 1)
    hold.hand_on = None  # type: ignore[attr-defined]  # it ends on the lock thread
    locks.release(hold)
    waiting.join(10)
    unsubscribe()
    assert not waiting.is_alive()
    assert thread.leased() == set()


def test_a_lock_that_idles_keeps_nothing_of_its_last_caller(thread: LockThread) -> None:
    class Request:
        pass

    of_the_caller: contextvars.ContextVar[Request] = contextvars.ContextVar("of_the_caller")
    known: list[weakref.ref[Request]] = []

    def use() -> None:
        request = Request()
        known.append(weakref.ref(request))
        of_the_caller.set(request)
        with LockClient().lock(LOCK):
            pass

    for _ in range(3):  # the first makes the lock
        using = threading.Thread(target=use)
        using.start()
        using.join()
        del using

    def forgotten() -> bool:
        gc.collect()
        return [each() for each in known] == [None] * 3

    eventually(forgotten)


def test_a_section_in_threads_costs_no_call_to_the_lock_thread_nor_to_the_storage(
    thread: LockThread, store: CountingStore, monkeypatch: pytest.MonkeyPatch, forever: None
) -> None:
    locks, hops, tokens = LockClient(), Hops(thread, monkeypatch), []
    together = threading.Barrier(4)

    def work() -> None:
        together.wait(10)
        for _ in range(250):
            with locks.lock(LOCK) as hold:
                tokens.append(hold.token or 0)
                eventually(lambda: running(thread) + len(relay_of(thread)._line) > 0 or len(tokens) > 900)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(tokens) == 1000
    assert tokens == sorted(set(tokens))
    assert hops.number <= 300
    assert store.asked.count("write") <= 1 + store.asked.count("acquire")
    assert thread.leased() == set()


def test_a_section_whose_state_is_still_to_be_written_is_not_handed_on_by_its_runner(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch, forever: None
) -> None:
    """Else the write would be done in the next section, whose lease is the same."""
    locks, order = LockClient(), []
    put = MemoryLeaseStore.put

    async def noted_put(self: MemoryLeaseStore, *args: Any) -> str:
        order.append("written")
        return await put(self, *args)

    monkeypatch.setattr(MemoryLeaseStore, "put", noted_put)

    def follow() -> None:
        with locks.lock(LOCK):
            order.append("next")

    with locks.lock(LOCK) as hold:
        next_one = threading.Thread(target=follow)
        next_one.start()
        eventually(lambda: running(thread) == 1)
        assert isinstance(hold, Section)
        assert hold.fencing is not None
        turn = hold.turn
        in_order = hold.fencing._in_order()
        runtime().call(lambda _: in_order.acquire())  # as another request for its blob has it
        writer = threading.Thread(target=hold.state.write, args=(1,))
        writer.start()
        eventually(lambda: turn._uses == 1)

        async def go_on(_: Registry) -> None:
            in_order.release()

        threading.Timer(0.1, runtime().call, args=(go_on,)).start()
    for each in (next_one, writer):
        each.join(10)
    assert order == ["written", "next"]
    with locks.lock(LOCK) as hold:
        assert hold.state.read() == 1


def test_runners_are_served_in_the_order_in_which_they_came_beside_those_on_the_lock_thread(thread: LockThread) -> None:
    locks, served = AsyncLockClient(), []

    async def one(number: int) -> None:
        # A short time-out is the lock thread's affair.
        async with locks.lock(LOCK, timeout=1.5 if number % 3 == 0 else None):
            served.append(number)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = []
            for number in range(9):
                tasks.append(begun_outside(one(number)))
                await soon(lambda: running(thread) + len(relay_of(thread)._line) == len(tasks))
        await asyncio.gather(*tasks)

    asyncio.run(all_of_them())
    assert served == [*range(9)]


def test_whoever_is_cancelled_just_as_the_lock_is_handed_to_him_hands_it_on(thread: LockThread) -> None:
    locks, served = AsyncLockClient(), []

    async def one(number: int) -> None:
        async with locks.lock(LOCK):
            served.append(number)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = [begun_outside(one(number)) for number in range(3)]
            await soon(lambda: running(thread) == 3)
        tasks[0].cancel()  # it has been given the lock, and has not seen it
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()

    asyncio.run(all_of_them())
    assert served == [1, 2]
    assert thread.leased() == set()
    assert thread.kinds().count("acquired") == thread.kinds().count("released")


def test_whoever_is_cancelled_while_he_waits_is_told_of_as_failed_and_nobody_waits_for_him(thread: LockThread) -> None:
    locks = AsyncLockClient()

    async def one() -> None:
        async with locks.lock(LOCK):
            pass

    async def both() -> None:
        async with locks.lock(LOCK):
            waiting = begun_outside(one())
            await soon(lambda: running(thread) == 1)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert running(thread) == 0

    asyncio.run(both())
    assert thread.kinds().count("failed:CancelledError") == 1
    assert thread.leased() == set()


def test_a_runner_times_out_when_his_time_is_over_with_the_words_of_the_line(thread: LockThread) -> None:
    locks, told = LockClient(), []

    def one() -> None:
        with pytest.raises(LockNotAcquired, match=r"within 0:00:05: it is in use by this process") as refused:
            locks.acquire(LOCK, timeout=5, owner="late")
        told.append(refused.value)

    with locks.lock(LOCK, owner="early"):
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        thread.push_clock(2)
        eventually(lambda: len(relay_of(thread)._line) == 1)
        thread.push_clock(3.5)
        waiting.join(10)
        assert told
        assert told[0].owner == "late"
        assert told[0].holder is not None
        assert told[0].holder.owner == "early"
    assert "contended:timeout" in thread.kinds()


def test_no_runner_gets_the_lock_under_a_lease_that_is_lost(thread: LockThread) -> None:
    locks, tokens = LockClient(), []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            tokens.append((hold.lease_id, hold.lost.is_set()))

    with locks.lock(LOCK) as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        thread.push_clock(30)
        with pytest.raises(LockLost):
            first.raise_if_lost()
    waiting.join(10)
    assert tokens[0][0] != first.lease_id
    assert tokens[0][1] is False


def the_next_after(thread: LockThread, locks: LockClient, deadline: str) -> tuple[Hold, Hold]:
    """Return a hold whose deadline has passed before any timer ran, as on a machine that slept, and the next one."""
    got: list[Hold] = []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            got.append(hold)

    with locks.lock(LOCK) as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        assert isinstance(first.lost._lease, Lease)
        setattr(first.lost._lease, deadline, 0.0)
    waiting.join(10)
    return first, got[0]


def test_no_runner_gets_the_lock_past_the_deadline_even_if_the_lock_thread_had_no_time_to_say_so(
    thread: LockThread,
) -> None:
    first, following = the_next_after(thread, LockClient(), "_deadline")
    assert following.lease_id != first.lease_id


def test_no_runner_gets_the_lock_past_the_deadline_of_its_last_touch_however_long_its_lease_is_good(
    thread: LockThread,
) -> None:
    """Others may have taken it from a holder that is silent for so long."""
    locks = LockClient(options=SingletonOptions(failover=5))
    first, following = the_next_after(thread, locks, "_touch_ends")
    assert following.lease_id != first.lease_id
    assert not following.lost.is_set()


def test_a_forked_child_can_release_what_its_parent_has_though_a_thread_of_that_hands_on(thread: LockThread) -> None:
    locks = LockClient()
    hold = locks.acquire(LOCK)
    with relay_of(thread).mutex:  # as another thread would have it in the moment of the fork
        child = os.fork()
        if child == 0:
            thread.runtime.forget()
            locks.release(hold)
            os._exit(0 if hold.lost.reason == "closed" else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    locks.release(hold)
    assert thread.leased() == set()


def test_a_runner_is_told_of_the_loss_of_his_own_hold_and_the_one_before_is_not(thread: LockThread) -> None:
    locks, holds = AsyncLockClient(), []

    async def both() -> None:
        async def second() -> None:
            async with locks.lock(LOCK, owner="second") as hold:
                holds.append(hold)
                thread.deleted(LOCK)
                await asyncio.wait_for(asyncio.ensure_future(_lost(hold)), 10)

        async with locks.lock(LOCK, owner="first") as hold:
            holds.append(hold)
            waiting = begun_outside(second())
            await soon(lambda: running(thread) == 1)
        await waiting

    async def _lost(hold: Hold) -> None:
        await hold.lost

    asyncio.run(both())
    assert [hold.lost.is_set() for hold in holds] == [False, True]
    assert [event.owner for event in thread.events if event.kind == "lost"] == ["second"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_runner_is_told_at_once_when_his_client_or_the_process_closes(
    thread: LockThread, forever: None, whole: bool
) -> None:
    keeper, locks, told = LockClient(), LockClient(), []

    def one() -> None:
        try:
            locks.acquire(LOCK)
        except LockClosed as closed:
            told.append(closed)

    hold = keeper.acquire(LOCK)
    waiting = threading.Thread(target=one)
    waiting.start()
    eventually(lambda: running(thread) == 1)
    if whole:
        thread.runtime.close()
    else:
        locks.close()
    waiting.join(10)
    assert told
    keeper.release(hold)
    assert "failed:LockClosed" in thread.kinds()


def test_a_second_release_of_a_hold_that_was_handed_on_leaves_the_next_one_alone(thread: LockThread) -> None:
    locks = LockClient()
    got: list[Hold] = []
    first = locks.acquire(LOCK)
    waiting = threading.Thread(target=lambda: got.append(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: running(thread) == 1)
    locks.release(first)
    waiting.join(10)
    locks.release(first)
    assert not got[0].lost.ended
    assert first.lost.ended
    assert not first.lost.is_set()
    assert thread.leased() == {LOCK}
    locks.release(got[0])
    assert thread.leased() == set()


def test_a_runners_hold_that_is_dropped_is_given_back(thread: LockThread) -> None:
    locks = LockClient()
    got: list[Hold] = []
    first = locks.acquire(LOCK)
    waiting = threading.Thread(target=lambda: got.append(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: running(thread) == 1)
    locks.release(first)
    waiting.join(10)
    got.clear()
    gc.collect()
    eventually(lambda: not thread.leased())


def test_who_asks_again_inside_a_hold_that_was_handed_to_him_is_told_at_once(thread: LockThread, forever: None) -> None:
    locks = AsyncLockClient()

    async def inner() -> None:
        async with locks.lock(LOCK):
            with pytest.raises(LockNotAcquired, match="would wait for itself"):
                async with asyncio.timeout(4):
                    await locks.acquire(LOCK)

    async def both() -> None:
        async with locks.lock(LOCK):
            waiting = begun_outside(inner())
            await soon(lambda: running(thread) == 1)
        await waiting

    asyncio.run(both())


def test_after_the_handoff_window_the_lease_is_given_back_though_runners_wait(
    thread: LockThread, store: CountingStore
) -> None:
    options = SingletonOptions(handoff_window=5, lock_acquisition_polling_interval=1)
    locks, got = LockClient(options=options), []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            got.append(hold.lease_id)

    with locks.lock(LOCK) as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        thread.push_clock(6)

    def got_after_another_second() -> bool:
        thread.push_clock(1)
        return bool(got)

    eventually(got_after_another_second)
    waiting.join(10)
    assert got[0] != first.lease_id


def test_threads_and_loops_that_come_go_and_are_cancelled_exclude_one_another(thread: LockThread) -> None:
    inside, tokens = [0], [0]
    chance = random.Random(7)
    plans = [[chance.random() for _ in range(60)] for _ in range(8)]

    def enter(hold: Hold) -> None:
        inside[0] += 1
        assert inside[0] == 1
        assert hold.token is not None
        assert hold.token > tokens[0]
        tokens[0] = hold.token
        inside[0] -= 1

    def in_a_thread(plan: list[float]) -> None:
        locks = LockClient()
        for each in plan:
            with locks.lock(LOCK, timeout=None if each < 0.7 else 1.0 + 20 * each) as hold:
                enter(hold)

    async def use(locks: AsyncLockClient, each: float) -> None:
        async with locks.lock(LOCK) as hold:
            enter(hold)
            if each < 0.2:
                await asyncio.sleep(0)

    async def on_a_loop(plan: list[float]) -> None:
        locks = AsyncLockClient()
        tasks = []
        for each in plan:
            tasks.append(asyncio.create_task(use(locks, each)))
            await asyncio.sleep(0 if each < 0.8 else 0.001)
            if each > 0.6:
                tasks[int(each * len(tasks))].cancel()
        done, _ = await asyncio.wait(tasks, timeout=60)
        assert len(done) == len(tasks)
        for task in done:
            with suppress(asyncio.CancelledError):
                task.result()

    errors: list[BaseException] = []

    def guarded(run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - it is told below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(lambda plan=plan: in_a_thread(plan),)) for plan in plans[:4]]
    threads += [
        threading.Thread(target=guarded, args=(lambda plan=plan: asyncio.run(on_a_loop(plan)),)) for plan in plans[4:]
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not errors
    assert not any(each.is_alive() for each in threads)
    eventually(lambda: not thread.leased())
    kinds = thread.kinds()
    assert kinds.count("acquired") == kinds.count("released")
    assert kinds.count("waiting") == kinds.count("acquired") + kinds.count("failed:CancelledError")
