"""An answer of another thread: decided once, and whoever waits for it hears so."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from contextlib import suppress

import pytest

from simulator.virtual.time.loop import VirtualLoop
from simulator.virtual.time.machine import Machine
from singleton.runtime.call_result import CallResult


def given(value: int) -> CallResult[int]:
    answer: CallResult[int] = CallResult()
    assert answer.claim()
    answer.give(value)
    return answer


def test_a_thread_that_waits_gets_what_another_gives() -> None:
    answer: CallResult[int] = CallResult()
    assert answer.claim()
    timer = threading.Timer(0.01, answer.give, (7,))
    timer.start()
    assert answer.result() == 7
    assert (answer.result(), answer.error()) == (7, None), "a second time, too"
    timer.join()


def test_an_error_is_raised_and_can_be_asked_for() -> None:
    answer: CallResult[int] = CallResult()
    assert answer.claim()
    answer.fail(error := ValueError("no"))
    assert answer.error() is error
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            answer.result()


def test_it_is_claimed_or_cancelled_and_never_both() -> None:
    claimed: CallResult[int] = CallResult()
    assert claimed.claim()
    assert not claimed.cancel()
    assert not claimed.cancelled
    cancelled: CallResult[int] = CallResult()
    assert cancelled.cancel()
    assert cancelled.cancel(), "it stays so"
    assert not cancelled.claim()
    with pytest.raises(concurrent.futures.CancelledError):
        cancelled.result()


def test_of_many_threads_one_decides() -> None:
    for _ in range(200):
        answer: CallResult[int] = CallResult()
        start = threading.Barrier(4)
        won: list[str] = []

        def claim(answer: CallResult[int], start: threading.Barrier, won: list[str]) -> None:
            start.wait()
            if answer.claim():
                won.append("claimed")

        def cancel(answer: CallResult[int], start: threading.Barrier, won: list[str]) -> None:
            start.wait()
            if answer.cancel():
                won.append("cancelled")

        threads = [threading.Thread(target=each, args=(answer, start, won)) for each in (claim, cancel, claim)]
        for thread in threads:
            thread.start()
        start.wait()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert answer.cancelled == (won == ["cancelled"])


def test_what_is_to_be_called_when_it_is_done_is_called_once_before_or_after() -> None:
    called: list[str] = []
    answer: CallResult[int] = CallResult()
    answer.when_done(lambda: called.append("first"))
    answer.when_done(lambda: called.append("second"))
    assert answer.claim()
    assert called == []
    answer.give(1)
    answer.when_done(lambda: called.append("late"))
    assert called == ["first", "second", "late"]
    cancelled: CallResult[int] = CallResult()
    cancelled.when_done(lambda: called.append("cancelled"))
    cancelled.cancel()
    cancelled.cancel()
    assert called[3:] == ["cancelled"]


def test_a_wait_with_a_limit_ends_then() -> None:
    answer: CallResult[int] = CallResult()
    answer.wait(0.01)
    assert answer.claim()
    answer.give(1)
    answer.wait(60)
    assert answer.result() == 1


def test_a_coroutine_gets_what_a_thread_or_its_own_loop_gives() -> None:
    async def main() -> None:
        answer: CallResult[int] = CallResult()
        assert answer.claim()
        waiting = asyncio.create_task(answer.awaited())
        await asyncio.sleep(0)
        await asyncio.to_thread(answer.give, 7)
        assert await waiting == 7
        own: CallResult[int] = CallResult()
        assert own.claim()
        asyncio.get_running_loop().call_soon(own.give, 8)
        assert await own.awaited() == 8
        assert await given(9).awaited() == 9

    asyncio.run(main())


def test_a_coroutine_that_is_cancelled_leaves_it_as_it_is_however_soon_it_was_there() -> None:
    async def main() -> None:
        for answer in (CallResult[int](), given(7)):
            waiting = asyncio.create_task(answer.awaited())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
            assert not answer.cancelled

    asyncio.run(main())


def test_a_coroutine_goes_on_in_its_own_context_whoever_answers_or_cancels() -> None:
    whose: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody's")
    seen: list[str] = []

    async def wait(answer: CallResult[None]) -> None:
        whose.set("the waiter's")
        try:
            await answer.awaited()
        finally:
            seen.append(whose.get())
            whose.set("the waiter's, later")
            await asyncio.sleep(0)
            seen.append(whose.get())

    async def main() -> None:
        whose.set("the giver's")
        for end in ("give", "give in a thread", "cancel"):
            answer: CallResult[None] = CallResult()
            assert answer.claim()
            waiting = asyncio.create_task(wait(answer))
            await asyncio.sleep(0)
            if end == "cancel":
                waiting.cancel()
            elif end == "give":
                answer.give(None)
            else:
                await asyncio.to_thread(answer.give, None)
            await asyncio.wait({waiting})
            assert waiting.cancelled() == (end == "cancel")
            assert seen == ["the waiter's", "the waiter's, later"]
            seen.clear()

    asyncio.run(main())


@pytest.mark.parametrize("end", ["give", "cancel"])
def test_what_wakes_a_coroutine_is_part_of_what_it_does_and_stands_still_with_it(end: str) -> None:
    machine, stopped = Machine(1, loop := VirtualLoop()), list[float]()  # type: ignore[abstract]

    async def wait(answer: CallResult[None]) -> None:
        with suppress(asyncio.CancelledError):
            await answer.awaited()
        stopped.append(loop.now)

    async def main() -> None:
        answer: CallResult[None] = CallResult()
        assert answer.claim()
        waiting = loop.create_task(wait(answer), context=machine.context("user"))
        await asyncio.sleep(1)
        machine.block("user", 5)
        if end == "give":
            machine.context("locks").run(answer.give, None)
        else:
            waiting.cancel()
        await waiting

    loop.run_until_complete(main())
    assert stopped == [6]


@pytest.mark.parametrize("first", ["answered", "cancelled"])
def test_a_coroutine_that_is_cancelled_as_the_answer_is_on_its_way_hears_of_the_cancellation_once(first: str) -> None:
    async def main() -> None:
        answer: CallResult[int] = CallResult()
        assert answer.claim()
        woken: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, trouble: woken.append(trouble))

        async def wait() -> None:
            try:
                await answer.awaited()
            except asyncio.CancelledError as error:
                woken.append(error.args)
            await asyncio.sleep(0.01)
            woken.append("not again")

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        if first == "answered":
            answer.give(7)
        assert waiting.cancel("enough")
        if first == "cancelled":
            answer.give(7)
        await waiting
        assert woken == [("enough",), "not again"]
        assert answer.result() == 7

    asyncio.run(main())


def test_who_waited_on_a_loop_that_is_closed_is_no_trouble_for_who_answers() -> None:
    answer: CallResult[int] = CallResult()
    assert answer.claim()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(answer.awaited())
    loop.run_until_complete(asyncio.sleep(0))
    waiting.cancel()
    loop.run_until_complete(asyncio.wait({waiting}))
    loop.close()
    answer.give(1)
    assert answer.result() == 1
