"""A lock thread that dies all the same: holders and waiters are told, and the next call starts another thread."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest

from singleton import AsyncLockClient, LockClient, SingletonError, holds, singleton
from singleton.base.errors import LockClosed, LockLost, LockNotAcquired
from singleton.locking.record import SectionRecord
from singleton.locking.section import claims
from singleton.runtime import lock_thread
from singleton.runtime.lock_loop import LockLoop
from singleton.runtime.lock_thread import runtime, shutdown
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import Context, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton.runtime.lock_thread import Runtime

ACCOUNT = "UseDevelopmentStorage=true"
DEATHS: dict[str, Callable[[Any], object]] = {
    "SystemExit": lambda dying: dying._loop.call_soon_threadsafe(_raise, SystemExit(3)),
    "KeyboardInterrupt": lambda dying: dying._loop.call_soon_threadsafe(_raise, KeyboardInterrupt()),
    "thrice": lambda dying: [dying._loop.call_soon_threadsafe(_raise, SystemExit(3)) for _ in range(3)],
    "stopped": lambda dying: dying._loop.call_soon_threadsafe(dying._loop.stop),
}
every_death = pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)


def _raise(error: BaseException) -> None:
    raise error


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect what dead loops leave here: a collection amid another test would run its coroutines there."""
    yield
    gc.collect()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryLeaseStore]:
    """The process's own lock threads, on one store in memory."""
    shutdown()
    store = MemoryLeaseStore()
    monkeypatch.setattr(lock_thread, "_open_store", lambda _: store)
    monkeypatch.setattr(lock_thread, "_load_http", lambda: None)
    yield store
    shutdown()


def current() -> Runtime:
    found = runtime()
    assert isinstance(found, lock_thread.Runtime)
    return found


def die(death: Callable[[Any], object] = DEATHS["SystemExit"]) -> Runtime:
    dying = current()
    death(dying)
    dying._thread.join(60)
    assert not dying._thread.is_alive()
    return dying


def lapse(memory: MemoryLeaseStore, name: str) -> None:
    """End a lease at the service, as time does."""
    memory._blobs[name].expires = -math.inf


class Holder:
    """A caller with the lock `job`, on a thread of its own, which gives the lock up when told to."""

    def __init__(self, how: str) -> None:
        self._ways = {
            "leaves its block": self._leave,
            "drops its hold": self._drop,
            "is interrupted": self._interrupted,
        }
        self._inside, self._may_end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._ways[how], daemon=True)
        self._thread.start()
        assert self._inside.wait(60)

    def give_up(self) -> None:
        self.begin_to_give_up()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def begin_to_give_up(self) -> None:
        self._may_end.set()

    def _wait(self) -> None:
        self._inside.set()
        self._may_end.wait(60)

    def _leave(self) -> None:
        with suppress(SingletonError), LockClient(ACCOUNT).lock("job") as self.hold:
            self._wait()

    def _drop(self) -> None:
        held = [LockClient(ACCOUNT).acquire("job")]
        self._wait()
        held.clear()

    def _interrupted(self) -> None:
        """A variable has the hold whose block an interrupt has ended before the release."""
        self.hold = LockClient(ACCOUNT).acquire("job")
        kept = claims(self.hold)
        self._wait()
        kept.clear()


STEPS: dict[str, tuple[type, str, int]] = {
    "as the holds are lost": (Registry, "lose_all", 1),
    "before the last calls end": (lock_thread.Runtime, "_drain", 1),
    "before the loop is closed": (LockLoop, "close", 1),
    "before the waits end": (lock_thread.Runtime, "end_waits", 1),
    "before the take-over": (Registry, "take_over", 1),
    "as the section is looked up": (SectionRecord, "__hash__", 2),
    "before the section moves": (SectionRecord, "move", 1),
    "before the next thread serves": (lock_thread.Runtime, "_prepared", 1),
}


def do_at(step: tuple[type, str, int], act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Call ``act`` once, at the n-th call of a method; return the list that has the method's name from then on."""
    where, name, number = step
    real, calls, done = getattr(where, name), list[int](), list[str]()

    def instead(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == number:
            act()
            done.append(name)
        return real(*args)

    monkeypatch.setattr(where, name, instead)
    return done


@pytest.mark.parametrize("how", ["leaves its block", "drops its hold", "is interrupted"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_lock_whose_section_ends_at_any_step_of_death_and_take_over_is_free(
    memory: MemoryLeaseStore, step: tuple[type, str, int], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(how)
    done = do_at(step, holder.give_up, monkeypatch)
    die()
    lapse(memory, "job")
    for _ in range(2):
        with LockClient(ACCOUNT).lock("job", timeout=5) as hold:
            assert hold.owned
    assert done


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine")
@pytest.mark.parametrize("exits", [1, 20])
def test_a_release_that_the_dying_loop_may_drop_excludes_nobody(
    memory: MemoryLeaseStore, exits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With twenty exits no attempt to let the last calls end succeeds."""
    holder, dying = Holder("leaves its block"), current()

    def leave() -> None:
        holder.begin_to_give_up()
        while not dying._waits:
            time.sleep(0.001)
        with dying._door:  # the release is posted
            pass

    done = do_at((lock_thread.Runtime, "_die", 1), leave, monkeypatch)
    die(lambda dying: [dying._loop.call_soon_threadsafe(_raise, SystemExit(3)) for _ in range(exits)])
    holder.give_up()
    lapse(memory, "job")
    with LockClient(ACCOUNT).lock("job", timeout=5) as hold:
        assert hold.owned
    assert done
    gc.collect()  # what the loop has left


def test_a_section_that_ends_beside_its_take_over_leaves_no_later_wait_behind(
    memory: MemoryLeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the section has met the closed loop, and its thread goes on after the take-over."""
    holder, at_the_loop, may_go_on = Holder("leaves its block"), threading.Event(), threading.Event()
    dead = die()
    lapse(memory, "job")
    post = dead._loop.call_soon_threadsafe

    def slowly(*args: Any, **more: Any) -> object:
        at_the_loop.set()
        may_go_on.wait(60)
        return post(*args, **more)

    monkeypatch.setattr(dead._loop, "call_soon_threadsafe", slowly)
    holder.begin_to_give_up()
    assert at_the_loop.wait(60)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(LockClient(ACCOUNT).acquire, "job", timeout=10)
        while not (second.done() or [each for each in holds().waiting if each.lock == "job"]):
            time.sleep(0.001)
        may_go_on.set()
        LockClient(ACCOUNT).release(second.result(60))
    holder.give_up()


@pytest.mark.parametrize("starts", [True, False])
def test_a_call_beside_the_end_of_a_lock_thread_takes_nothing_over_from_a_loop_that_is_open(
    memory: MemoryLeaseStore, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    """The caller has looked for a failure before the death: it does not wait for the end of the thread."""
    may_start, taken = threading.Event(), list[bool]()

    def prepare() -> None:
        assert may_start.wait(60)
        assert starts

    def call() -> None:
        with ThreadPoolExecutor(1) as pool, suppress(SingletonError):
            pool.submit(LockClient(ACCOUNT).acquire, "job", timeout=5).result(60)

    monkeypatch.setattr(lock_thread, "_load_http", prepare)
    dying = current()
    monkeypatch.setattr(lock_thread, "_load_http", lambda: None)
    monkeypatch.setattr(lock_thread.Runtime, "join", lambda _: None)
    do_at((Registry, "take_over", 1), lambda: taken.append(dying._loop.is_closed()), monkeypatch)
    for step in ((lock_thread.Runtime, "_drain", 1), (LockLoop, "close", 1), (lock_thread.Runtime, "end_waits", 1)):
        do_at(step, call, monkeypatch)
    DEATHS["SystemExit"](dying)
    may_start.set()
    dying._thread.join(60)
    call()
    assert taken == [True]


def test_a_hold_that_comes_beside_the_take_over_does_not_break_the_take_over(
    memory: MemoryLeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller of the dead thread notes its hold while the holds are listed."""
    locks = LockClient(ACCOUNT)
    held = [locks.acquire("job"), locks.acquire("other")]
    die()

    class Holds(set[Any]):
        listed = 0

        def __iter__(self) -> Iterator[Any]:
            self.listed += 1
            for each in super().copy():
                if self.listed == 1:
                    raise RuntimeError("Set changed size during iteration")
                yield each

    current_dead = lock_thread._current
    assert current_dead is not None
    monkeypatch.setattr(current_dead.registry, "acquired", Holds(current_dead.registry.acquired))
    with locks.try_lock("job") as refused:
        assert refused is None
    for each in held:
        locks.release(each)


@every_death
def test_every_hold_is_lost_and_every_wait_ends_in_words(
    memory: MemoryLeaseStore, death: Callable[[Any], object], caplog: pytest.LogCaptureFixture
) -> None:
    locks, told = LockClient(ACCOUNT), list[str]()
    hold, other = locks.acquire("job"), locks.acquire("other")
    hold.lost.add_callback(told.append)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(locks.acquire, "job", timeout=600), pool.submit(locks.acquire, "job")]
        losing = pool.submit(other.lost.wait, 60)
        awaiting = pool.submit(asyncio.run, AsyncLockClient(ACCOUNT).acquire("job"))
        while len([each for each in holds().waiting if each.lock == "job"]) < 3:
            time.sleep(0.001)
        die(death)
        wait(list[Future[Any]]([*waiting, losing, awaiting]), timeout=60)
        assert (hold.lost.reason, other.lost.reason, told, losing.result()) == ("closed", "closed", ["closed"], True)
        for each in (*waiting, awaiting):
            with pytest.raises(SingletonError, match="the lock thread of this process has ended by"):
                each.result()
    assert "The next call starts another lock thread" in caplog.text
    with pytest.raises(LockLost):
        hold.raise_if_lost()
    locks.release(hold)
    locks.release(other)


@every_death
def test_the_next_call_starts_another_thread_and_stamps_anew(
    memory: MemoryLeaseStore, death: Callable[[Any], object]
) -> None:
    locks = LockClient(ACCOUNT)
    with locks.lock("job") as first:
        pass
    with locks.lock("job") as again:
        assert first.token is not None
        assert again.token == first.token + 1, "the stamp of the first was good for both"
    dead, written = die(death), memory.calls["write"]
    with locks.lock("job", timeout=5) as hold:
        assert hold.token is not None
        assert again.token is not None
        assert hold.token > again.token
        assert hold.owned
    assert current() is not dead
    assert memory.calls["write"] == written + 1


def test_a_body_that_runs_on_under_its_lost_hold_excludes_the_next_one_of_its_process(memory: MemoryLeaseStore) -> None:
    locks, inside, may_end = LockClient(ACCOUNT), threading.Event(), threading.Event()
    order: list[str] = []

    def body() -> None:
        hold = locks.acquire("job")
        inside.set()
        may_end.wait(60)
        order.append(f"first: {hold.lost.reason}")
        locks.release(hold)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(body)
        assert inside.wait(60)
        die()
        lapse(memory, "job")
        with pytest.raises(LockNotAcquired, match="in use by this process"):
            locks.acquire("job", timeout=0.2)
        with locks.try_lock("job") as refused:
            assert refused is None
        with locks.lock("other", timeout=5):
            pass
        second = pool.submit(locks.acquire, "job", timeout=60)
        second.add_done_callback(lambda _: order.append("second"))
        time.sleep(0.05)
        may_end.set()
        first.result(60)
        locks.release(second.result(60))
    assert order == ["first: closed", "second"]


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_guarded_body_excludes_the_next_over_any_number_of_deaths(
    memory: MemoryLeaseStore, deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_app(tmp_path, monkeypatch)
    inside, may_end = threading.Event(), threading.Event()
    running: list[int] = []

    @singleton(timeout=30)
    def job(msg: str = "") -> None:
        running.append(1)
        assert len(running) == 1
        if msg == "first":
            inside.set()
            may_end.wait(60)
        running.pop()

    def invoke(name: str) -> None:
        cast("Any", job)(msg=name, context=Context(name))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(invoke, "first")
        assert inside.wait(60)
        for _ in range(deaths):
            die()
            lapse(memory, memory.names()[0])
        second = pool.submit(invoke, "second")
        time.sleep(0.05)
        assert not second.done()
        may_end.set()
        with pytest.raises(LockLost, match="closed"):
            first.result(60)
        second.result(60)


def test_a_hold_that_is_dropped_after_the_death_excludes_nobody(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    held = [locks.acquire("job"), locks.acquire("early")]
    die()
    lapse(memory, "job")
    lapse(memory, "early")
    held.pop()
    with locks.lock("early", timeout=5), locks.try_lock("job") as refused:
        assert refused is None
    held.clear()
    gc.collect()
    with locks.lock("job", timeout=5) as hold:
        assert hold.owned


def test_a_lock_that_is_kept_after_its_hold_excludes_as_long_as_its_lease(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    with locks.lock("job", at_least=600):
        pass
    die()
    lapse(memory, "job")
    with locks.lock("job", timeout=5) as hold:
        assert hold.owned


def test_a_leader_leads_no_more_and_its_end_is_no_error(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    with locks.leadership("job") as leadership:
        hold = leadership.wait(60)
        assert hold is not None
        die()
        assert leadership.hold is None
        assert hold.lost.reason == "closed"
        with pytest.raises(LockClosed, match="'job' is over: the lock thread of this process has ended by SystemExit"):
            leadership.wait(60)
        lapse(memory, "job")
        with locks.leadership("job") as next_one:
            assert next_one.wait(60) is not None


def test_a_callback_that_asks_for_a_lock_while_the_thread_dies_is_refused(memory: MemoryLeaseStore) -> None:
    locks, told = LockClient(ACCOUNT), list[str]()

    def ask(_: object) -> None:
        try:
            locks.acquire("other", timeout=1)
        except RuntimeError as error:
            told.append(str(error))

    hold = locks.acquire("job")
    hold.lost.add_callback(ask)
    die()
    assert ["can't acquire on the lock thread" in text for text in told] == [True]
    locks.release(hold)


def test_a_process_whose_lock_thread_died_ends_as_any_other(memory: MemoryLeaseStore) -> None:
    LockClient(ACCOUNT).acquire("job")
    die()
    shutdown()
    with LockClient(ACCOUNT).lock("other", timeout=5):
        pass


def test_a_worker_goes_on_after_the_death(memory: MemoryLeaseStore) -> None:
    worked = threading.Semaphore(0)
    with LockClient(ACCOUNT).periodic("job", lambda _: worked.release(), every=0.05):
        assert worked.acquire(timeout=60)
        die()
        lapse(memory, "job")
        for _ in range(3):
            assert worked.acquire(timeout=60)


def test_a_listener_s_process_listens_again_after_its_lease_although_a_body_of_before_runs_on(
    memory: MemoryLeaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after any loss: the bodies were told, and the lease has lapsed."""
    an_app(tmp_path, monkeypatch)
    inside, may_end = threading.Event(), threading.Event()

    @singleton(mode="listener", on_contention="raise")
    def job(msg: str = "") -> str:
        if msg == "first":
            inside.set()
            may_end.wait(60)
        return msg

    def invoke(name: str) -> Any:
        return cast("Any", job)(msg=name, context=Context(name))

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(invoke, "first")
        assert inside.wait(60)
        die()
        lapse(memory, memory.names()[0])
        assert invoke("second") == "second"
        may_end.set()
        with pytest.raises(LockLost, match="closed"):
            first.result(60)
    assert invoke("third") == "third"
