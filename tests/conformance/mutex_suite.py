"""DistributedLock's abstract mutex suite (M-39 to M-53), for each kind of lock and on each store.

A scenario gets a ``Case``: two hosts, each a lock thread of its own, and the kind. M-54 to M-56 need real processes.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockNotAcquired

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    from singleton import Hold


class Host(Protocol):
    """One process, or what stands for one."""

    def here(self) -> AbstractContextManager[AsyncLockClient]:
        """Have what the block starts run in this process."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is used as a mutex (M-67): a lock, or a semaphore of which all slots but one are taken."""

    limit: int | None = None
    taken: int = 0

    def __str__(self) -> str:
        return "lock" if self.limit is None else f"semaphore of {self.limit}, {self.taken} taken"


KINDS = (Kind(), Kind(1), Kind(5, 4))


@dataclass(frozen=True, slots=True)
class Case:
    one: Host
    other: Host
    kind: Kind
    name: str

    async def prepare(self, *names: str) -> list[Hold]:
        """Take the slots that are to be taken; give them to ``release`` in the end."""
        return [
            await self.acquire(self.one, name=name) for name in names or (self.name,) for _ in range(self.kind.taken)
        ]

    async def acquire(self, host: Host, *, timeout: float | None = 30, name: str | None = None) -> Hold:
        with host.here() as locks:
            return await locks.acquire(self.name if name is None else name, limit=self.kind.limit, timeout=timeout)

    async def attempt(self, host: Host, *, timeout: float = 0, name: str | None = None) -> Hold | None:
        try:
            return await self.acquire(host, timeout=timeout, name=name)
        except LockNotAcquired:
            return None

    async def release(self, host: Host, *holds: Hold | None) -> None:
        with host.here() as locks:
            for hold in holds:
                assert hold is not None
                await locks.release(hold)


async def basic(case: Case) -> None:
    """M-39, M-40, M-38: acquire works, a second try gives none here and elsewhere, another name is free, and again."""
    hold = await case.acquire(case.one)
    assert await case.attempt(case.one) is None
    assert await case.attempt(case.other) is None
    with case.one.here() as locks:
        async with locks.try_lock(f"{case.name}_other", limit=case.kind.limit) as another:
            assert another is not None
    await case.release(case.one, hold)
    for host in (case.other, case.one):
        await case.release(host, await case.attempt(host))


async def bad_arguments(case: Case) -> None:
    """M-41: a time-out that is none is refused by every way to acquire."""
    for timeout in (-2, 2**31 - 1, float("nan"), float("inf")):
        with case.one.here() as locks:
            for way in (
                lambda timeout: locks.lock(case.name, timeout=timeout),
                lambda timeout: locks.semaphore(case.name, 2, timeout=timeout),
                lambda timeout: locks.lock_all([case.name], timeout=timeout),
            ):
                with pytest.raises(ConfigurationError):
                    way(timeout)
            with pytest.raises(ConfigurationError):
                await locks.acquire(case.name, limit=case.kind.limit, timeout=timeout)


async def release_is_idempotent(case: Case) -> None:
    """M-29, M-42: releasing again does nothing to a later holder."""
    first = await case.acquire(case.one)
    await case.release(case.one, first, first)
    second = await case.acquire(case.other)
    await case.release(case.one, first)
    assert await case.attempt(case.one) is None
    await case.release(case.other, second)


async def timeouts(case: Case) -> None:
    """M-43, M-26: with a time-out of 200 ms every way ends within 500 ms."""
    hold = await case.acquire(case.one)
    loop = asyncio.get_running_loop()
    for host in (case.one, case.other):
        start = loop.time()
        assert await case.attempt(host, timeout=0.2) is None
        assert 0.19 < loop.time() - start < 0.5
        start = loop.time()
        with host.here() as locks:
            async with locks.try_lock(case.name, limit=case.kind.limit) as none:
                assert none is None
        assert loop.time() - start < 0.5
    await case.release(case.one, hold)


async def cancellation(case: Case) -> None:
    """M-44, M-49: a wait that is cancelled ends as cancelled, and a task that was before it began, too."""
    hold = await case.acquire(case.one)
    for host in (case.one, case.other):
        for delay in (0.0, 0.2):
            waiting = asyncio.create_task(case.acquire(host, timeout=None))
            await asyncio.sleep(delay)
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=5)
            assert waiting.cancelled()
    await case.release(case.one, hold)
    await case.release(case.other, await case.acquire(case.other))


async def parallelism(case: Case) -> None:
    """M-45: a hundred tasks, 10 ms inside each, never two at once, all done within 30 s."""
    inside = done = 0

    async def work(host: Host) -> None:
        nonlocal inside, done
        hold = await case.acquire(host)
        inside += 1
        assert inside == 1
        await asyncio.sleep(0.01)
        inside -= 1
        done += 1
        await case.release(host, hold)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work(case.one) for _ in range(100)))
    assert done == 100


async def names_have_a_case_and_may_be_long(case: Case) -> None:
    """M-46 to M-48: names that differ in the case of one letter are two locks; the service's rules are told (S-5)."""
    for name in (f"{case.name}_", f"{case.name}{'a' * 180}_"):
        taken = await case.prepare(f"{name}a", f"{name}A")
        holds = [await case.attempt(case.one, name=f"{name}{letter}") for letter in "aA"]
        await case.release(case.one, *holds, *taken)
    for wrong in ("", "a" * 1025, "a\\b", "a/", "a."):
        with pytest.raises(ConfigurationError):
            await case.acquire(case.one, name=wrong)


async def any_text_makes_a_name(case: Case) -> None:
    """M-46, M-13: by `safe_name`; none of them is another's."""
    texts = ("", "a" * 1000, "a/", "a\\", "\\" * 5, "\\" * 1000, "/" * 254)
    with case.one.here() as locks:
        names = [f"{case.name}-{locks.safe_name(text)}" for text in texts]
    taken = await case.prepare(*names)
    holds = [await case.attempt(case.one, name=name) for name in names]
    assert [await case.attempt(case.other, name=name) for name in names] == [None] * len(names)
    await case.release(case.one, *holds, *taken)


async def a_dropped_hold_is_given_back(case: Case) -> None:
    """M-53, M-37: once it is collected."""

    async def acquire_and_drop() -> None:
        await case.acquire(case.one)

    await acquire_and_drop()
    gc.collect()
    await case.release(case.other, await case.acquire(case.other, timeout=10))


async def loss_is_told(case: Case) -> None:
    """M-50 to M-52: not by a release; within 10 s after the lease is broken; also to who asks later."""
    quiet = await case.acquire(case.one)
    told: list[str] = []
    quiet.lost.add_callback(told.append)
    await case.release(case.one, quiet)
    hold = await case.acquire(case.one)
    watching = asyncio.ensure_future(_lost(hold))
    with case.other.here() as locks:
        assert await locks.break_(hold.lock)
    assert await asyncio.wait_for(watching, 10) == "broken"
    hold.lost.add_callback(told.append)
    assert told == ["broken"]
    assert await asyncio.wait_for(_lost(hold), 5) == "broken"
    await case.release(case.one, hold)
    unwatched = await case.acquire(case.one)
    watching = asyncio.ensure_future(_lost(unwatched))
    await asyncio.sleep(0.01)
    await case.release(case.one, unwatched)
    watching.cancel()
    await asyncio.wait({watching})
    assert not unwatched.lost.is_set()


async def _lost(hold: Hold) -> Any:
    return await hold.lost


SCENARIOS: tuple[Callable[[Case], Coroutine[Any, Any, None]], ...] = (
    basic,
    bad_arguments,
    release_is_idempotent,
    timeouts,
    cancellation,
    parallelism,
    names_have_a_case_and_may_be_long,
    any_text_makes_a_name,
    a_dropped_hold_is_given_back,
    loss_is_told,
)


async def run(scenario: Callable[[Case], Coroutine[Any, Any, None]], case: Case) -> None:
    """Run a scenario with as many slots taken as its kind says."""
    taken = await case.prepare()
    await scenario(case)
    await case.release(case.one, *taken)
