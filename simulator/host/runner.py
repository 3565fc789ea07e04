"""Run invocations: give them to the worker, send their outputs, write down how they ended."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from simulator.host.context import RetryContext
from simulator.host.triggers.backoff import Backoff
from simulator.host.triggers.bindingdata import binding_data
from simulator.host.triggers.bindings import queue_input, timer_input
from simulator.host.worker import Worker, describe
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from simulator.history.journal import Write
    from simulator.host.app.model import IndexedFunction
    from simulator.host.triggers.messages import HostQueues, Message
    from simulator.host.triggers.outputs import Outputs
    from simulator.host.triggers.timer import Tick

_FOREVER: Final = -1
_FIRST: Final = RetryContext()


class Runner:
    """Runs the functions of one host; lives on the host's loop."""

    def __init__(self, *, worker: Worker, queues: HostQueues, outputs: Outputs, write: Write, random: Random) -> None:
        self._worker = worker
        self._queues = queues
        self._outputs = outputs
        self._write = write
        self._random = random
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Start no further retries."""
        self._stop.set()

    async def on_message(self, function: IndexedFunction, message: Message) -> bool:
        """Run a queue-triggered function on a message; tell whether it succeeded."""
        # Queue triggers know no retry policy: the queue itself tries again.
        return await self._invoke(function, lambda: queue_input(function.trigger, message), message=message)

    async def on_tick(self, function: IndexedFunction, tick: Tick) -> None:
        """Run a timer-triggered function, again by its retry policy where it fails."""
        self._write("tick", function=function.name, due=round(tick.due, 3), now=round(time.time(), 3), why=tick.reason)
        policy = RetryPolicy(function.retry, self._random)
        count = 0
        while True:
            retry = RetryContext(count, policy.most)
            succeeded = await self._invoke(
                function, lambda: timer_input(function.trigger, tick.status, past_due=tick.past_due), retry=retry
            )
            if succeeded or not policy.allows(count) or await self._stops_within(policy.delay()):
                return
            count += 1

    async def _stops_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False

    async def _invoke(
        self,
        function: IndexedFunction,
        value: Callable[[], Any],
        *,
        message: Message | None = None,
        retry: RetryContext = _FIRST,
    ) -> bool:
        invocation = str(uuid.uuid4())
        told: dict[str, object] = {"function": function.name, "invocation": invocation}
        if message is not None:
            told["message"] = message.id
        self._write("invocation_started", **told)
        outcome = await asyncio.wrap_future(self._worker.submit(function, invocation, value, retry))
        messages, failed = self._outputs.messages(
            function.name, outcome.outputs, lambda: binding_data(function.trigger, message)
        )
        error = outcome.error or failed
        try:
            for queue, text in messages:
                sent = await self._queues.send(queue, text)
                self._write("message_sent", queue=queue, id=sent, function=function.name)
        except StoreFailure as failure:
            error = f"OutputError: {describe(failure)}"
        if error is None:
            self._write("invocation_ended", **told, outcome="ok")
        else:
            self._write("invocation_ended", **told, outcome="error", error=error)
        return error is None


class RetryPolicy:
    """The retry policy that ``@app.retry`` declares: how often, and how long in between."""

    def __init__(self, declared: Mapping[str, Any] | None, random: Random) -> None:
        policy = declared or {}
        self.most = int(policy.get("max_retry_count") or 0)
        self._fixed: float | None = None
        if policy.get("strategy") == "fixed_delay":
            self._fixed = _seconds(policy.get("delay_interval"), 0.0)
        least = _seconds(policy.get("minimum_interval"), 1.0)
        self._backoff = Backoff(max(_seconds(policy.get("maximum_interval"), 3600.0), least), random, least)

    def allows(self, count: int) -> bool:
        """Tell whether there is another try after ``count`` retries."""
        return self.most == _FOREVER or count < self.most

    def delay(self) -> float:
        """Return the wait before the next try, in seconds."""
        return self._backoff.next() if self._fixed is None else self._fixed


def _seconds(text: object, default: float) -> float:
    """Read ``hh:mm:ss``, as the worker does."""
    if not text:
        return default
    parsed = time.strptime(str(text), "%H:%M:%S")
    return parsed.tm_hour * 3600 + parsed.tm_min * 60 + parsed.tm_sec
