"""The host sees that a body is asked to end, and when nobody could ask it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from simulator.witness.standstills import tell_standstills
from simulator.witness.witness import Witness
from singleton.base.hold import Hold
from singleton.runtime.cancellation import LossWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Seen:
    """A loop that a witness follows, and what that wrote."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.witness = Witness(lambda event, /, **fields: self.records.append((event, fields)))

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
        loop = asyncio.new_event_loop()
        self.witness.follow(loop)
        try:
            loop.run_until_complete(work())
        finally:
            loop.close()
        return [event for event, _ in self.records]

    def worker(self, ship: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
        async def call() -> None:
            with self.witness.invocation("one", "ship", "x", {}):
                await ship("x")

        return call


async def cancelled(task: asyncio.Task[None], times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_cancellation_of_an_invocations_task_is_seen_once_a_second() -> None:
    seen = Seen()

    async def ship(msg: str) -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    async def host() -> None:
        await cancelled(asyncio.create_task(seen.worker(ship)()), times=3)

    assert seen.run(host) == ["asked_to_end"]
    assert seen.records == [("asked_to_end", {"invocation": "one"})]


def test_a_cancellation_by_the_lock_is_told_as_such() -> None:
    seen = Seen()

    async def ship(msg: str) -> None:
        await asyncio.sleep(3600)

    async def host() -> None:
        task = asyncio.create_task(seen.worker(ship)())
        await asyncio.sleep(0)
        watch = LossWatch((hold := Hold("a"),), task)
        hold.own_lost.fire("stolen")
        with suppress(asyncio.CancelledError):
            await task
        watch.end(None)

    seen.run(host)
    assert seen.records[0] == ("asked_to_end", {"invocation": "one", "by": "lock"})


def test_the_cancellation_of_a_task_that_awaits_the_bodys_is_seen() -> None:
    seen = Seen()

    async def ship(_: str) -> None:
        await asyncio.create_task(asyncio.sleep(3600, None))

    async def host() -> None:
        await cancelled(asyncio.create_task(seen.worker(ship)()))

    assert "asked_to_end" in seen.run(host)


def test_a_body_that_cancels_what_it_has_started_is_not_asked_to_end() -> None:
    seen = Seen()

    async def ship(msg: str) -> None:
        await cancelled(asyncio.create_task(asyncio.sleep(3600, None)))

    seen.witness.watch([("ship", ship)])
    assert seen.run(seen.worker(ship)) == ["body_entered", "body_left"]
    assert seen.records[0][1]["can_be_asked"] is True


def test_a_task_that_has_ended_is_not_asked_any_more() -> None:
    seen = Seen()

    async def ship(_: str) -> None: ...

    async def host() -> None:
        task = asyncio.create_task(seen.worker(ship)())
        await task
        task.cancel()

    assert seen.run(host) == []


def test_a_sync_body_cannot_be_asked() -> None:
    seen = Seen()

    def body(msg: str) -> None: ...

    async def ship(msg: str) -> None:
        body(msg)

    seen.witness.watch([("ship", body)])
    seen.run(seen.worker(ship))
    assert "can_be_asked" not in seen.records[0][1]


def test_a_loop_that_was_blocked_is_told_with_how_long() -> None:
    now, due, records = [0.0], list[Any](), list[tuple[str, dict[str, Any]]]()
    loop = SimpleNamespace(time=lambda: now[0], call_soon=due.append, call_later=lambda _, *call: due.append(call))
    tell_standstills(loop, lambda event, /, **fields: records.append((event, fields)))  # type: ignore[arg-type]
    due.pop()()
    for later in (0.25, 0.6, 3.0, 0.25):
        now[0] += later
        beat, before = due.pop()
        beat(before)
    assert records == [("loop_stood", {"seconds": 3.0})]
