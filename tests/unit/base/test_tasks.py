"""Waiting for a task to its end: whose cancellation reaches it, and when."""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.tasks import being_cancelled, to_its_end
from tests.support.world import now, virtual


async def cancelled_at(task: asyncio.Task[None], *times: float) -> None:
    start = now()
    for time in times:
        await asyncio.sleep(start + time - now())
        task.cancel()


@virtual
async def test_a_cancellation_is_kept_from_the_task_and_raised_at_its_end() -> None:
    task = asyncio.create_task(asyncio.sleep(5.0))
    waiting = asyncio.create_task(to_its_end(task, cancel=False))
    await cancelled_at(waiting, 1.0, 2.0)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert now() == 5.0
    assert not task.cancelled()


@virtual
async def test_a_cancellation_is_handed_on() -> None:
    task = asyncio.create_task(asyncio.sleep(5.0))
    waiting = asyncio.create_task(to_its_end(task))
    await cancelled_at(waiting, 1.0)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert now() == 1.0
    assert task.cancelled()


@virtual
async def test_the_grace_counts_from_the_first_cancellation() -> None:
    task = asyncio.create_task(asyncio.sleep(100.0))
    waiting = asyncio.create_task(to_its_end(task, cancel=False, grace=10.0))
    await cancelled_at(waiting, 1.0, 8.0)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert now() == 11.0
    assert task.cancelled()


@virtual
async def test_without_a_cancellation_a_grace_is_no_limit() -> None:
    task = asyncio.create_task(asyncio.sleep(100.0))
    await to_its_end(task, cancel=False, grace=10.0)
    assert now() == 100.0


def test_where_no_loop_runs_nobody_is_being_cancelled() -> None:
    assert not being_cancelled()
