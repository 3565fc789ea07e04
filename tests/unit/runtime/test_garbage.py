"""What a use of a lock leaves behind is freed as it ends: no loop of references keeps it until a collection.

In a crowd collections took a quarter of the time; and frames keep what their caller's variables refer to.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import types
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import singleton as package
from singleton import AsyncLockClient, LockClient, LockNotAcquired, singleton
from singleton.base.events import Call
from singleton.base.hold import Hold, LossSignal
from singleton.testing import memory_locks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ACCOUNT: Final = "UseDevelopmentStorage=true"
SINGLETON: Final = Path(package.__file__).parent


def is_ours(left: object) -> bool:
    """Tell whether it is of a lock's use: other threads of the tests may leave something, too."""
    code = getattr(left, "f_code", None) or getattr(left, "cr_code", None)
    inside = isinstance(code, types.CodeType) and SINGLETON in Path(code.co_filename).parents
    return inside or isinstance(left, (Call, Hold, LossSignal, LockNotAcquired))


@singleton(scope_id="runs", connection="Storage")
async def runs() -> None: ...


@singleton(scope_id="skips", connection="Storage", on_contention="skip")
async def skips() -> None:
    await asyncio.sleep(0)


@singleton(scope_id="refuses", connection="Storage", on_contention="raise")
async def refuses() -> None:
    await asyncio.sleep(0)


@singleton(scope_id="crowded", connection="Storage", max_waiting=10)
async def crowded() -> None:
    await asyncio.sleep(0)


@singleton(scope_id="decides", connection="Storage", on_contention=lambda _: "wait")
async def decides() -> None:
    await asyncio.sleep(0)


async def refused() -> None:
    with pytest.raises(LockNotAcquired):
        await asyncio.gather(refuses(), refuses())


async def in_turn() -> None:
    async with AsyncLockClient(ACCOUNT).lock("turns"):
        await asyncio.sleep(0)


async def in_vain() -> None:
    locks = AsyncLockClient(ACCOUNT)
    async with locks.lock("taken"), locks.try_lock("taken") as hold:
        assert hold is None


async def too_late() -> None:
    locks, taken, over = AsyncLockClient(ACCOUNT), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with locks.lock("late"):
            taken.set()
            await over.wait()

    holding = asyncio.create_task(hold())
    await taken.wait()
    with pytest.raises(LockNotAcquired):
        await locks.acquire("late", timeout=0.01)
    over.set()
    await holding


async def too_late_on_a_thread() -> None:
    def use() -> None:
        with pytest.raises(LockNotAcquired):
            LockClient(ACCOUNT).acquire("late there", timeout=0.01)

    async with AsyncLockClient(ACCOUNT).lock("late there"):
        await asyncio.create_task(asyncio.to_thread(use), context=contextvars.Context())


async def refused_on_its_loop() -> None:
    locks, name = LockClient(ACCOUNT), f"on a loop {uuid.uuid4().hex}"

    async def use() -> None:
        with pytest.raises(LockNotAcquired, match="runs on the event loop that this wait would block"):
            locks.acquire(name)

    async with AsyncLockClient(ACCOUNT).lock(name):
        await asyncio.create_task(use(), context=contextvars.Context())


async def too_late_on_a_loop() -> None:
    """The holder is elsewhere: the wait is watched, and not refused."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with LockClient(ACCOUNT).lock("late on a loop"):
            taken.set()
            over.wait(60)

    holding = asyncio.create_task(asyncio.to_thread(hold), context=contextvars.Context())
    await asyncio.to_thread(taken.wait, 60)
    with pytest.raises(LockNotAcquired):
        LockClient(ACCOUNT).acquire("late on a loop", timeout=0.01)
    over.set()
    await holding


async def on_a_thread() -> None:
    def use() -> None:
        with LockClient(ACCOUNT).lock("thread"):
            pass

    await asyncio.to_thread(use)


@pytest.mark.parametrize(
    "use",
    [
        *(runs, skips, crowded, decides, refused, in_turn, in_vain),
        *(too_late, too_late_on_a_thread, on_a_thread, refused_on_its_loop, too_late_on_a_loop),
    ],
)
async def test_what_ends_leaves_nothing_to_a_collection(
    use: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("Storage", ACCOUNT)

    async def crowd() -> None:
        await asyncio.gather(*(use() for _ in range(5)))
        await asyncio.sleep(0.05)  # the lock thread gives the lease back

    with memory_locks():
        await crowd()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await crowd()
            gc.collect()
            left = [each for each in gc.garbage if is_ours(each)]
        finally:
            gc.set_debug(0)
            gc.enable()
            gc.garbage.clear()
    assert not left, left
