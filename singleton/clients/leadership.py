"""Leadership: a lock that a process keeps for its life, and tries to get while another has it (W-99 to W-110)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from singleton.base.caller import Caller, this_caller
from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError
from singleton.base.tasks import running_loop, to_its_end
from singleton.base.words import quoted
from singleton.clients.blocks import dropped_at_the_end
from singleton.locking.campaign import Campaign
from singleton.runtime.lock_thread import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from singleton.base.caller import LoopRef
    from singleton.base.hold import Hold
    from singleton.base.state import Crossing
    from singleton.clients.blocks import Exit
    from singleton.clients.request_events import CandidateRequests
    from singleton.runtime.address import Address
    from singleton.runtime.registry import Registry


class LeadershipClaim:
    """The claim of a ``with`` block to its candidacy. A claim collected before the end of the campaign ends it."""

    _campaign: asyncio.Task[None] | None = None

    def __init__(self, campaign: asyncio.Task[None]) -> None:
        self._campaign = campaign

    def __del__(self) -> None:
        """End the campaign, unless the campaign has ended. The collector runs on any thread."""
        if self._campaign is not None and not self._campaign.done():
            with suppress(RuntimeError):  # the loop is closed
                self._campaign.get_loop().call_soon_threadsafe(_end_once, self._campaign)


def _end_once(campaign: asyncio.Task[None]) -> None:
    if not campaign.cancelling():  # a second cancellation would cut off the release
        campaign.cancel()


class Leadership(Campaign):
    """A candidacy for a lock that one process keeps until the process ends. Made by ``leadership``.

    From ``start`` (or the start of ``with`` or ``async with``) to ``stop``, the candidate asks for the
    lock every ``listener_lock_recovery_polling_interval`` seconds, and then keeps the lock. When the hold is lost,
    ``hold.lost`` tells why, and the candidacy goes on: at once if the lease ran out; after the interval if another
    process took the lock. ``LockClient.leadership`` has an example.

    Attributes:
        name: name of the lock.
    """

    def __init__(
        self,
        name: str,
        *,
        requests: CandidateRequests,
        recovery: float | None,
        address: Callable[[], Address],
    ) -> None:
        super().__init__(name, recovery=recovery)
        self._requests = requests
        self._find_address = address
        self._guard = threading.Lock()
        self._hold: Hold | None = None
        self._over: SingletonError | None = None
        self._waiting: dict[concurrent.futures.Future[Hold], None] = {}  # in the order in which they came
        self._process = 0
        self._leaving: weakref.ref[Exit] | None = None
        self._crossing: Crossing | None = None
        self._address: Address
        self._registry: Registry

    @property
    def hold(self) -> Hold | None:
        """The hold while this process leads, else None."""
        hold = self._hold
        return None if hold is None or hold.lost.is_set() else hold

    def wait(self, timeout: float | None = None) -> Hold | None:
        """Block this thread until this process leads, at most ``timeout`` seconds; return the hold, or None.

        Raises:
            LockClosed: the candidacy was stopped, the client was closed, or the process is a fork.
            LockNotAcquired: recovery is off, and the one attempt has failed; or the wait blocks the event loop of the
                lock's holder, and would have no end.
        """
        waiting = self._future()
        try:
            on_loop = this_caller().loop is not None and not waiting.done()
            if on_loop and self._crossing is not None and (timeout is None or timeout > 0):
                self._crossing.call(partial(self._until_answered, waiting, timeout))
                timeout = 0
            return waiting.result(timeout if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        except concurrent.futures.TimeoutError as error:
            if isinstance(error, LockNotAcquired):
                raise
            return None
        finally:
            self._waiting.pop(waiting, None)

    def __await__(self) -> Generator[Any, None, Hold]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> Hold:
        waiting = self._future()
        try:
            return await asyncio.wrap_future(waiting)
        finally:
            self._waiting.pop(waiting, None)

    def start(self) -> None:
        """Begin to try, on the lock thread."""
        self._start(None)

    def stop(self) -> None:
        """End the candidacy; give the lock back, if this process leads. A second call does nothing."""
        if self._mine():
            with suppress(LockClosed):
                runtime().call(self._end)

    def __enter__(self) -> Self:
        self._start(this_caller().loop)
        return self

    def _start(self, loop: LoopRef | None) -> None:
        self._enter(loop)
        try:
            runtime().call(self._begin)
            if self._leaving is not None and (leaving := self._leaving()) is not None and self._task is not None:
                leaving.claims.append(LeadershipClaim(self._task))
        except BaseException:  # the block is not entered, and nobody else would end it
            with suppress(SingletonError):
                self.stop()
            raise

    @dropped_at_the_end
    def __exit__(self, *_: object) -> None:
        self.stop()

    def begins_with(self, leaving: Exit) -> None:
        """See ``Entered.begins_with``."""
        if not self._process:
            self._leaving = weakref.ref(leaving)

    async def __aenter__(self) -> Self:
        running_loop()
        self._enter(this_caller().loop)
        try:
            await runtime().call_async(self._begin)
        except BaseException:
            with suppress(SingletonError):
                await to_its_end(asyncio.ensure_future(self.__aexit__()), cancel=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._mine():
            with suppress(LockClosed):
                await runtime().call_async(self._end)

    def _enter(self, loop: LoopRef | None) -> None:
        """Note that the candidacy begins; ``loop``: the event loop on which the block of the candidacy will end."""
        if self._process:
            raise RuntimeError(f"leadership {quoted(self.name)} was started before: make a new one")
        self._caller = Caller(0, loop=loop)
        self._crossing = runtime()
        self._process = os.getpid()

    def _mine(self) -> bool:
        return self._process == os.getpid()

    def _future(self) -> concurrent.futures.Future[Hold]:
        waiting: concurrent.futures.Future[Hold] = concurrent.futures.Future()
        if not self._mine():
            raise LockClosed(f"leadership {self.name!r} was not started in this process", lock=self.name)
        with self._guard:
            if self._over is not None:
                raise self._over.another()
            if (hold := self.hold) is not None:
                waiting.set_result(hold)
            else:
                self._waiting[waiting] = None
        return waiting

    # --- on the lock thread -------------------------------------------------------------------------------------------

    async def _begin(self, registry: Registry) -> None:
        self._address = self._find_address()
        self._registry = registry
        registry.accompany(self._begin_campaign())

    async def _until_answered(
        self, waiting: concurrent.futures.Future[Hold], timeout: float | None, registry: Registry
    ) -> None:
        """Wait for the answer, on behalf of a thread whose event loop the wait blocks."""
        answered = asyncio.wrap_future(waiting)
        answered.add_done_callback(lambda _: answered.cancelled() or answered.exception())  # the thread tells
        wait = asyncio.wait({answered}, timeout=timeout)
        await registry.until_led(self._caller, self._find_address(), wait, self._requests.owner)

    async def _end(self, _: Registry) -> None:
        await self._end_campaign()  # without a campaign, the caller was gone before the begin

    async def _ask(self) -> Hold:
        hold = await self._requests.ask(self._registry)
        hold.crossing = self._crossing
        with self._guard:
            self._hold = hold
        self._answer(lambda waiting: waiting.set_result(hold))
        return hold

    async def _give_back(self, hold: Hold) -> None:
        self._hold = None
        await self._registry.release(hold)

    async def _pause(self, seconds: float) -> None:
        await self._registry.pause(self._address, seconds)

    def _finished(self, over: SingletonError) -> None:
        if (failure := self._registry.failure) is not None:
            over = LockClosed(f"{over}: {failure}", lock=self.name)
        with self._guard:
            self._over = over
        self._requests.end()
        self._answer(lambda waiting: waiting.set_exception(over.another()))

    def _answer(self, answer: Callable[[concurrent.futures.Future[Hold]], None]) -> None:
        with self._guard:
            waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if each.set_running_or_notify_cancel():
                answer(each)
