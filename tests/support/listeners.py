"""Listeners, and invocations of theirs on hosts in one process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from singleton import (
    current_hold,
    singleton,
)
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.inline import InlineHost


TICK = SimpleNamespace(past_due=False)
"""What a timer delivers."""
LOCK = "locks/app/job~listener"
NO_RECOVERY = '{"singleton": {"listenerLockRecoveryPollingInterval": "10675199.02:48:05.4775807"}}'
QUICK = '{"singleton": {"listenerLockPeriod": "00:00:15", "listenerLockRecoveryPollingInterval": "00:00:20"}}'


def a_timer(body: Callable[[], Coroutine[Any, Any, Any]] | None = None, **arguments: Any) -> Callable[..., Any]:
    """Return a listener without a message."""

    async def job(timer: object) -> Any:
        return await body() if body else f"done by {current_hold().owner}"

    return singleton(mode="listener", **arguments)(job)


def a_listener(body: Callable[[], Coroutine[Any, Any, Any]] | None = None, **arguments: Any) -> Callable[..., Any]:
    """Return a listener with a message."""

    async def job(msg: str) -> Any:
        return await body() if body else "done"

    return singleton(mode="listener", **arguments)(job)


async def tick(host: InlineHost, job: Callable[..., Any], owner: str = "inv") -> Any:
    with host.here():
        return await job(timer=TICK, context=Context(owner))


async def deliver(host: InlineHost, job: Callable[..., Any], owner: str = "inv") -> Any:
    with host.here():
        return await job(msg="{}", context=Context(owner))


def started(host: InlineHost, job: Callable[..., Any], owner: str = "inv") -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(tick(host, job, owner))


async def end(*hosts: InlineHost) -> None:
    for host in hosts:
        await host.registry.aclose()
