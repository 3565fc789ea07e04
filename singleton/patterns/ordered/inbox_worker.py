"""A worker: receives the bells of an inbox and handles its messages, outside of Functions."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError, LockClosed, LockLost, SingletonError
from singleton.base.invocation import log as _log
from singleton.base.tasks import to_its_end
from singleton.clients.periodic_worker import Running
from singleton.locking.acquisition import storage_error
from singleton.locking.lease import as_failure
from singleton.patterns.ordered.bells import bell_in
from singleton.patterns.ordered.visit import INSURED, Visit, put_off
from singleton.runtime.calls import SyncLocks, at_once
from singleton.runtime.lock_thread import runtime
from singleton.stores.protocol import within

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold
    from singleton.patterns.ordered.messages import InboxMessage, Rules
    from singleton.patterns.ordered.service import Service
    from singleton.runtime.calls import Calls, Locks
    from singleton.runtime.registry import Registry
    from singleton.stores.message_store import Taken

_SHORTEST: Final = 0.05
_LONGEST: Final = 1.0
"""Seconds between two looks into an empty queue."""
_AFTER_TROUBLE: Final = 5.0
_MOST: Final = 32
_CALL: Final = 10.0
_FOREIGN: Final = 300
"""Seconds for which what is no bell is left alone."""


@dataclass(slots=True)
class _ReceivedBell:
    """The bell that is answered: it is ours for a while, and comes back by itself when this process dies."""

    service: Service
    locks: Locks
    known: tuple[str, str]

    async def begin(self) -> None:
        """See ``Insurance.begin``."""

    async def end(self, again: float | None) -> None:
        """See ``Insurance.end``. A bell that another consumer has received meanwhile is left alone."""
        await self.locks.call_async(lambda registry: put_off(self.service, registry, self.known, again))


class InboxWorker(Running):
    """Handles the messages of an inbox until it is stopped. Made by ``Inbox.worker``.

    Run a worker in as many processes as you like. In a thread: ``with inbox.worker(...)``, or ``start`` and ``stop``.
    On the running event loop: ``async with inbox.worker(...)``, or ``await worker.run()``. A worker runs once. Sync
    handlers run on the worker's threads.
    """

    def __init__(
        self,
        service: Service,
        handler: Callable[[InboxMessage], Any],
        rules: Rules,
        *,
        keys: int,
        every: float,
        is_async: bool,
    ) -> None:
        super().__init__(f"inbox {service.names.inbox}")
        self._service = service
        self._handler = handler
        self._rules = rules
        self._keys = keys
        self._every = every
        self._is_async = is_async
        self._busy: set[asyncio.Task[None]] = set()
        self._locks: Calls

    def stop(self, timeout: float | None = None) -> bool:
        """Begin no more messages; wait at most ``timeout`` seconds for the current ones. Return whether they ended."""
        return self._end(self._halt, timeout)

    async def run(self) -> None:
        """Run until ``stop``. A cancellation cancels async handlers, and their messages are handled again."""
        await super().run()

    async def _run(self) -> None:
        self._locks, stopped = runtime(), self._prepare()
        if self._stopping.is_set():
            return

        async def look(hold: Hold) -> None:
            await self._locks.call_async(partial(self._service.look_if_due, hold, self._every))

        name = f"inbox/{self._service.names.inbox}/look"
        looking = self._service.client.periodic(name, look, every=self._every)
        with ThreadPoolExecutor(self._keys, thread_name_prefix=name) as pool:
            async with looking:
                try:
                    await self._receive(pool, stopped)
                finally:
                    for task in self._busy if not self._stopping.is_set() else ():
                        task.cancel()
                    if self._busy:
                        await asyncio.wait(self._busy)

    async def _receive(self, pool: ThreadPoolExecutor, stops: asyncio.Event) -> None:
        stopped = asyncio.ensure_future(stops.wait())
        pause = _SHORTEST
        try:
            while not self._stopping.is_set():
                free, bells = min(self._keys - len(self._busy), _MOST), list["Taken"]()
                if free:
                    try:
                        bells = await self._locks.call_async(lambda registry: self._taken(registry, free))  # noqa: B023
                        pause = _SHORTEST if bells else min(2 * pause, _LONGEST)
                    except LockClosed:
                        raise
                    except SingletonError:
                        _log.exception("inbox %s: nothing could be received from its queue", self._service.names.inbox)
                        pause, self._locks = _AFTER_TROUBLE, runtime()  # the lock thread may have died
                for taken in bells:
                    task = asyncio.get_running_loop().create_task(self._one(self._locks, pool, taken))
                    self._busy.add(task)
                    task.add_done_callback(self._busy.discard)
                if free and len(bells) == free:
                    continue
                waits = {stopped, *self._busy} if not free else {stopped}
                await asyncio.wait(waits, timeout=pause if free else None, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def _taken(self, registry: Registry, most: int) -> list[Taken]:
        queue = self._service.queue(registry)
        try:
            return await within(_CALL, queue.take(most, INSURED))
        except Exception as error:  # noqa: BLE001 - whatever a queue raises
            failure = as_failure(error)
        if failure.code == "QueueNotFound":
            return []
        raise storage_error(self._service.names.inbox, failure, what="the queue of inbox") from failure

    async def _one(self, locks: Calls, pool: ThreadPoolExecutor, taken: Taken) -> None:
        """Answer a bell. After a failure the queue delivers the bell again."""
        inbox, known = self._service.names.inbox, (taken.id, taken.receipt)
        try:
            bell = bell_in(taken.text, inbox)
        except ConfigurationError as error:
            _log.error("inbox %s: %s", inbox, error)
            await locks.call_async(lambda registry: put_off(self._service, registry, known, _FOREIGN))
            return

        where: Locks = locks if self._is_async else SyncLocks(locks)
        visit = Visit(
            self._service,
            where,
            replace(bell, again=bell.again + taken.dequeued - 1),
            self._handler,
            self._rules,
            _ReceivedBell(self._service, where, known),
            self._is_async,
            stopping=self._stopping.is_set,
        )
        try:
            if self._is_async:
                outcome = await visit.made()
            else:
                in_context = contextvars.copy_context().run
                work = asyncio.get_running_loop().run_in_executor(pool, lambda: in_context(at_once, visit.made()))
                await to_its_end(work, cancel=False)
                outcome = work.result()
        except LockLost as error:
            _log.warning("inbox %s: %s failed here, and goes on in another process: %s", inbox, bell.spot, error)
        except LockClosed:
            return
        except SingletonError:
            _log.exception("inbox %s: %s could not be read", inbox, bell.spot)
        else:
            if outcome.error is not None:
                _log.error("inbox %s: a message failed", inbox, exc_info=outcome.error)
