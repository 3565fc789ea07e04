"""The loop on virtual time: it does what asyncio's own does, in no time, and tells when a program can't go on."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import random
import time
import weakref
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.time import loop as loop_module
from simulator.virtual.time.loop import Deadlock, VirtualLoop
from tests.support.virtual import run_virtual
from tests.support.world import now, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simulator.virtual.time.machine import Timer


def test_a_year_passes_in_no_time() -> None:
    async def year() -> float:
        await asyncio.sleep(365 * 86400.0)
        return now()

    start = time.perf_counter()
    assert run_virtual(year()) == 365 * 86400.0
    assert time.perf_counter() - start < 60


def test_time_starts_where_it_is_told_to() -> None:
    async def look() -> float:
        await asyncio.sleep(1.5)
        return now()

    assert run_virtual(look(), start=1e9) == 1e9 + 1.5


@virtual
async def test_timers_run_by_time_and_those_for_one_time_in_the_order_of_their_calls() -> None:
    ran: list[int] = []
    loop = virtual_loop()
    for number, delay in enumerate([3.0, 1.0, 2.0, 1.0, 0.0, 3.0, 1.0]):
        loop.call_later(delay, ran.append, number)
    await asyncio.sleep(5.0)
    assert ran == [4, 1, 3, 6, 2, 0, 5]


@pytest.mark.parametrize("seed", range(5))
def test_timers_run_in_order_whenever_they_were_set_and_whatever_was_cancelled(seed: int) -> None:
    rng = random.Random(seed)
    ran: list[tuple[float, int]] = []
    expected: dict[int, float] = {}
    timers: dict[int, Timer] = {}

    def act(number: int) -> None:
        ran.append((now(), number))
        for _ in range(rng.choice([0, 1, 2]) if len(expected) < 2000 else 0):
            place()
        if (victim := rng.choice(list(timers))) not in {done for _, done in ran}:
            timers[victim].cancel()
            expected.pop(victim, None)

    def place() -> None:
        number, due = len(timers), now() + rng.choice([0.01, 0.3, 1.0, 1.5, 30.0]) * rng.choice([1.0, rng.random()])
        expected[number] = due
        timers[number] = virtual_loop().call_at(due, act, number)

    async def program() -> None:
        for _ in range(200):
            place()
        await asyncio.sleep(10_000.0)

    run_virtual(program())
    assert ran == sorted((due, number) for number, due in expected.items())
    assert len(ran) > 200


@virtual
async def test_a_cancelled_timer_of_a_later_second_is_let_go_at_once() -> None:
    class Thing:
        pass

    thing: contextvars.ContextVar[Thing] = contextvars.ContextVar("thing")
    context = contextvars.copy_context()
    context.run(thing.set, Thing())
    there = weakref.ref(context[thing])
    timer = virtual_loop().call_later(100.0, lambda: None, context=context)
    del context
    timer.cancel()
    timer.cancel()
    del timer
    assert there() is None


@virtual
async def test_callbacks_run_in_the_order_of_their_calls() -> None:
    ran: list[int] = []
    for number in range(10):
        virtual_loop().call_soon(ran.append, number)
    await asyncio.sleep(0)
    assert ran == list(range(10))


@virtual
async def test_time_stands_still_while_callbacks_are_ready() -> None:
    virtual_loop().call_later(0.001, lambda: None)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert now() == 0.0


@virtual
async def test_cancelled_timers_do_not_run_and_do_not_move_time() -> None:
    loop = virtual_loop()
    ran: list[float] = []
    timers = [loop.call_later(delay, ran.append, delay) for delay in (1.0, 2.0, 3.0)]
    timers[0].cancel()
    loop.call_later(2.0, timers[2].cancel)
    soon = loop.call_soon(ran.append, 0.0)
    soon.cancel()
    await asyncio.sleep(2.5)
    assert ran == [2.0]
    assert now() == 2.5


@virtual
async def test_a_timer_for_the_past_runs_soon_and_time_does_not_go_back() -> None:
    await asyncio.sleep(10.0)
    seen: list[float] = []
    virtual_loop().call_at(3.0, lambda: seen.append(now()))
    await asyncio.sleep(0.001)
    assert seen == [10.0]


@virtual
async def test_timers_that_came_due_while_the_machine_slept_run_in_their_order_at_waking() -> None:
    loop = virtual_loop()
    seen: list[tuple[str, float]] = []
    loop.call_at(5.0, lambda: seen.append(("five", now())))
    loop.call_at(3.0, lambda: seen.append(("three", now())))
    loop.now += 20.0
    await asyncio.sleep(0.001)
    assert seen == [("three", 20.0), ("five", 20.0)]


@virtual
async def test_all_timers_that_came_due_while_the_machine_slept_run_before_what_they_ask_for() -> None:
    loop = virtual_loop()
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.call_soon(seen.append, "asked for")

    loop.call_at(0.01, first)
    loop.call_at(3.0, seen.append, "second")
    sleeping = asyncio.create_task(asyncio.sleep(30.0))
    await asyncio.sleep(0)
    loop.now += 20.0
    await sleeping
    assert seen == ["first", "second", "asked for"]


@virtual
async def test_a_timer_that_is_due_is_not_held_up_by_callbacks_without_end() -> None:
    """As in asyncio: each round, the callbacks that are ready, then the timers that are due."""
    fired: list[bool] = []
    virtual_loop().call_at(5.0, fired.append, True)
    virtual_loop().now += 5.0
    for _ in range(3):
        await asyncio.sleep(0)
    assert fired


def set_if_open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def order_of(steps: int, seed: int) -> Coroutine[object, object, list[str]]:
    """Return a program of tasks, futures, callbacks and due timers that returns the order in which they ran."""

    async def program() -> list[str]:
        rng, past = random.Random(seed), itertools.count(-1e9)
        loop = asyncio.get_running_loop()
        history: list[str] = []
        futures = [loop.create_future() for _ in range(steps)]

        def act(depth: int, name: str) -> None:
            history.append(name)
            if depth < 4:
                match rng.randrange(5):
                    case 0:
                        loop.call_soon(act, depth + 1, f"{name}s")
                    case 1:
                        loop.call_later(0, act, depth + 1, f"{name}l")
                    case 2:
                        loop.call_at(next(past), act, depth + 1, f"{name}p")
                    case 3:
                        free = [future for future in futures if not future.done()]
                        if free:
                            rng.choice(free).set_result(None)
                    case _:
                        loop.call_soon(act, depth + 1, f"{name}a")
                        loop.call_soon(act, depth + 1, f"{name}b")

        async def walk(number: int) -> None:
            for step in range(3):
                history.append(f"{number}.{step}")
                await asyncio.sleep(0)
                act(0, f"{number}:{step}")
            if number % 3 == 0:
                try:
                    await futures[number]
                except asyncio.CancelledError:
                    history.append(f"{number} cancelled")
                    raise
                history.append(f"{number} woken")

        tasks = [asyncio.create_task(walk(number)) for number in range(steps)]
        for _ in range(30):
            await asyncio.sleep(0)
        for task in tasks:
            if rng.random() < 0.5:
                task.cancel()
        for future in futures:
            if not future.done():
                loop.call_soon(set_if_open, future)
        await asyncio.wait(tasks)
        return history

    return program()


@pytest.mark.parametrize("seed", range(25))
def test_callbacks_tasks_and_due_timers_run_in_the_same_order_as_on_asyncios_own_loop(seed: int) -> None:
    assert run_virtual(order_of(9, seed)) == asyncio.run(order_of(9, seed))


def test_the_same_program_runs_the_same_way_each_time() -> None:
    assert run_virtual(order_of(30, 7)) == run_virtual(order_of(30, 7))
    assert run_virtual(order_of(30, 7)) != run_virtual(order_of(30, 8))


def test_who_waits_for_what_can_not_come_is_told_who_waits() -> None:
    async def stuck() -> None:
        await asyncio.sleep(2.0)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 2\.000 s.*stuck"):
        run_virtual(stuck())


def test_a_cancelled_timer_is_not_what_the_loop_waits_for() -> None:
    loop = VirtualLoop()  # type: ignore[abstract]

    async def wait() -> None:
        timer = loop.call_later(0.05, print)
        loop.call_later(0.01, timer.cancel)
        await loop.create_future()

    with pytest.raises(Deadlock, match="nothing left to happen"):
        loop.run_until_complete(wait())
    assert loop.now == 0.01


def test_a_program_that_goes_on_for_ever_at_one_instant_is_told_and_one_that_moves_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_module, "_TURNS_A_LOOK", 100)
    monkeypatch.setattr(loop_module, "_MOST_TURNS", 1000)

    async def spins() -> None:
        while True:  # noqa: ASYNC110 - that is what it is about
            await asyncio.sleep(0)

    async def moves() -> None:
        for _ in range(5000):
            await asyncio.sleep(0.001)

    for _ in range(2):
        loop = VirtualLoop()  # type: ignore[abstract]
        loop._look_up_at = 100
        loop.run_until_complete(moves())
        with pytest.raises(Deadlock, match="time stands still"):
            loop.run_until_complete(spins())


@virtual
async def test_tasks_of_all_ages_are_left_over_in_the_order_in_which_they_began() -> None:
    async def waits() -> None:
        await asyncio.sleep(1000.0)

    async def ends() -> None: ...

    before = set(virtual_loop().leftover_tasks())
    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(waits() if number % 3 == 0 else ends(), name=str(number)))
        await asyncio.sleep(0)
        if number in (20, 60, 199):
            await asyncio.sleep(0.001)
    assert len(virtual_loop()._tasks) < len(tasks), "some that have ended are dropped"
    found = [task.get_name() for task in virtual_loop().leftover_tasks() if task not in before]
    assert found == [str(number) for number in range(200) if number % 3 == 0]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_a_task_left_behind_fails_the_run() -> None:
    loops: list[VirtualLoop] = []

    async def leave() -> None:
        loops.append(virtual_loop())
        loops[0].create_task(asyncio.sleep(3600.0), name="forgotten")
        await asyncio.sleep(1.0)

    with pytest.raises(AssertionError, match="forgotten"):
        run_virtual(leave())
    for task in loops[0].leftover_tasks():
        task.cancel()
    loops[0].drain()


def test_an_error_that_nobody_handled_fails_the_run() -> None:
    async def fails() -> None:
        virtual_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1.0)

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_virtual(fails())


def test_an_exception_of_a_task_that_nobody_looked_at_fails_the_run() -> None:
    async def broken() -> None:
        raise KeyError("x")

    async def ignores() -> None:
        task = asyncio.create_task(broken())
        await asyncio.wait({task})
        del task
        gc.collect()
        await asyncio.sleep(1.0)

    with pytest.raises(AssertionError, match="never retrieved"):
        run_virtual(ignores())


def test_the_programs_own_exception_comes_out() -> None:
    async def fails() -> None:
        await asyncio.sleep(1.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(fails())


@virtual
async def test_what_asyncio_offers_works_on_it() -> None:
    event, queue, semaphore = asyncio.Event(), asyncio.Queue[int](1), asyncio.Semaphore(2)
    condition, lock = asyncio.Condition(), asyncio.Lock()

    async def worker(number: int) -> int:
        async with semaphore:
            await asyncio.sleep(1.0)
        async with lock:
            await queue.put(number)
        await event.wait()
        return number

    async def consumer() -> list[int]:
        got = [await queue.get() for _ in range(6)]
        event.set()
        async with condition:
            condition.notify_all()
        return got

    async def waiter() -> None:
        async with condition:
            await condition.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(waiter())
        eaten = group.create_task(consumer())
        results = await asyncio.gather(*(worker(number) for number in range(6)))
    assert results == list(range(6))
    assert sorted(eaten.result()) == results
    assert now() == 3.0


@virtual
async def test_time_outs_are_exact_and_cancel_what_they_bound() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await asyncio.sleep(1e9)
    assert now() == 2.0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(1e9), 3.0)
    assert now() == 5.0
    done, pending = await asyncio.wait({asyncio.create_task(asyncio.sleep(9.0))}, timeout=1.0)
    assert not done
    assert now() == 6.0
    await asyncio.wait(pending)
    assert now() == 14.0


@virtual
async def test_a_callback_runs_in_the_context_of_its_call() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    variable.set("soon")
    virtual_loop().call_soon(lambda: seen.append(variable.get()))
    variable.set("later")
    virtual_loop().call_later(1.0, lambda: seen.append(variable.get()))
    given = contextvars.copy_context()
    variable.set("afterwards")
    virtual_loop().call_later(2.0, lambda: seen.append(variable.get()), context=given)
    await asyncio.sleep(3.0)
    assert seen == ["soon", "later", "later"]


class Kept:
    """Something that a callback keeps."""


def test_what_a_callback_keeps_is_let_go_of_before_time_moves_on() -> None:
    loop, freed = VirtualLoop(), list[float]()  # type: ignore[abstract]

    async def main() -> None:
        kept = Kept()
        weakref.finalize(kept, lambda: loop.call_soon(lambda: freed.append(loop.now)))
        loop.call_soon(lambda _: None, kept)
        del kept
        await asyncio.sleep(0.5)

    loop.run_until_complete(main())
    assert freed == [0.0]


def test_an_error_in_a_callback_does_not_end_its_round() -> None:
    loop, ran = VirtualLoop(), list[str]()  # type: ignore[abstract]

    def fails() -> None:
        loop.call_later(0.0, ran.append, "a timer of the next round")
        raise ValueError

    async def main() -> None:
        loop.call_soon(fails)
        loop.call_soon(loop.call_soon, ran.append, "made ready in the same round")
        await asyncio.sleep(0.1)

    loop.run_until_complete(main())
    assert ran == ["made ready in the same round", "a timer of the next round"]
    assert len(loop.errors) == 1


def test_a_callback_that_cancels_itself_and_then_fails_is_reported() -> None:
    loop = VirtualLoop()  # type: ignore[abstract]
    timers: list[Timer] = []

    def fails() -> None:
        timers[0].cancel()
        raise ValueError

    async def main() -> None:
        timers.append(loop.call_later(0.1, fails))
        await asyncio.sleep(0.5)

    loop.run_until_complete(main())
    assert [type(each["exception"]) for each in loop.errors] == [ValueError]


def test_tasks_that_are_left_are_closed_whatever_they_raise_at_it() -> None:
    loop, ended = VirtualLoop(), list[str]()  # type: ignore[abstract]
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")

    async def endless(name: str) -> None:
        token = variable.set(name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            variable.reset(token)  # which is refused outside its task

    async def main() -> None:
        for name in ("one", "two"):
            loop.create_task(endless(name))
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    loop.close_tasks()
    assert ended == ["one", "two"]
